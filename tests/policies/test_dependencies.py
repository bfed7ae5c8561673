"""What a Job refers to, and where that goes because of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from policies.claims import Conflict
from policies.dependencies import Parent, Reference, References, companions, references
from policies.placements import PolicyView

CARRIES, BARE = PolicyView("default", "p", carries=True), PolicyView("default", "q")


def job(*pods: dict[str, Any], **spec: Any) -> dict[str, Any]:
    tasks = [{"name": f"t{at}", "template": {"spec": pod}} for at, pod in enumerate(pods)]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"tasks": tasks, **spec},
    }


def names(listed: tuple[Reference, ...]) -> list[str]:
    return [f"{each.kind} {each.namespace + '/' if each.namespace else ''}{each.name}" for each in listed]


EVERYTHING = {
    "serviceAccountName": "runner",
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "a", "configMap": {"name": "settings"}},
        {"name": "b", "secret": {"secretName": "keys", "optional": True}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "more"}}, {"secret": {"name": "token"}}]}},
        {"name": "e", "csi": {"nodePublishSecretRef": {"name": "driver"}}},
        {"name": "f", "emptyDir": {}},
    ],
    "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "senv"}}]}],
    "containers": [
        {
            "name": "c",
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "two", "key": "k"}}},
                {"name": "C", "value": "x"},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }
    ],
}


def test_everything_that_pods_of_any_task_name_is_found() -> None:
    found = references(job({"containers": []}, EVERYTHING, queue="research", priorityClassName="urgent"))
    assert names(found.always) == ["Namespace team", "PriorityClass high", "PriorityClass urgent", "Queue research"]
    assert names(found.asked) == [
        "ConfigMap team/env",
        "ConfigMap team/more",
        "ConfigMap team/one",
        "ConfigMap team/settings",
        "PersistentVolumeClaim team/data",
        "Secret team/driver",
        "Secret team/keys",
        "Secret team/pull",
        "Secret team/senv",
        "Secret team/token",
        "Secret team/two",
        "ServiceAccount team/runner",
    ]
    assert sorted(each.name for each in found.optional) == ["keys", "pull"]


def test_what_every_cluster_has_and_what_the_controller_makes_are_not_named() -> None:
    claims = [{"mountPath": "/a", "volumeClaimName": "mine"}, {"mountPath": "/b", "volumeClaim": {}, "volumeClaimName": "made"}]
    found = references(job({"serviceAccountName": "default", "priorityClassName": "system-node-critical"}, volumes=claims))
    assert names(found.always) == ["Namespace team", "Queue default"]
    assert names(found.asked) == ["PersistentVolumeClaim team/mine"]


def test_a_name_that_is_needed_once_is_not_optional() -> None:
    optional = {"volumes": [{"name": "a", "secret": {"secretName": "s", "optional": True}}]}
    needed = {"volumes": [{"name": "a", "secret": {"secretName": "s"}}]}
    assert references(job(optional, needed)).optional == frozenset()
    assert len(references(job(optional)).optional) == 1


def test_other_workloads_are_looked_into_as_well() -> None:
    pod = {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"template": {"spec": pod}},
    }
    found = references(deployment)
    assert (names(found.always), names(found.asked)) == (["Namespace team"], ["Secret team/s"])
    assert references({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}) == References()


def test_strange_manifests_refer_to_nothing() -> None:
    strange = job({"volumes": [None, 3, {"configMap": "x"}], "containers": ["c", {"env": {"a": 1}, "envFrom": [7]}]})
    assert references(strange).asked == ()


# --- where they go ---------------------------------------------------------------------------------------------------
A, B, NS = (
    Reference("v1", kind, space, name)
    for kind, space, name in (("Secret", "t", "a"), ("Secret", "t", "b"), ("Namespace", "", "t"))
)


def parent(*clusters: str, policy: PolicyView = CARRIES, asked: tuple[Reference, ...] = (A,)) -> Parent:
    return Parent(frozenset(clusters), References(always=(NS,), asked=asked), policy)


def test_the_namespace_always_travels_and_the_rest_where_the_policy_asks_for_it() -> None:
    found = companions([parent("east", policy=BARE)])
    assert set(found) == {NS} and found[NS].clusters == ("east",)
    assert set(companions([parent("east")])) == {NS, A}
    assert companions([parent()]) == {}


def test_what_several_refer_to_goes_once_to_each_cluster_and_stays_for_the_last() -> None:
    both = companions([parent("east", "west"), parent("west", asked=(A, B))])
    assert (both[A].users, both[B].users) == ({"east": 1, "west": 2}, {"west": 1})
    assert companions([parent("west", asked=(A, B))])[A].clusters == ("west",)


def test_one_policy_that_overwrites_or_preserves_decides() -> None:
    keeps = PolicyView("default", "k", carries=True, preserves=True, overwrites=True)
    shared = companions([parent("east"), parent("west", policy=keeps)])[A]
    assert (shared.conflict, shared.preserve, shared.disagree) == (Conflict.OVERWRITE, True, True)


clusters = some.frozensets(some.sampled_from(["east", "west", "north"]), max_size=3)
parents = some.lists(
    some.builds(
        Parent,
        clusters=clusters,
        references=some.builds(References, always=some.just((NS,)), asked=some.sampled_from([(), (A,), (A, B)])),
        policy=some.sampled_from([CARRIES, BARE]),
    ),
    max_size=6,
)


@given(parents)
@settings(max_examples=60)
def test_an_object_is_where_somebody_needs_it_and_nowhere_else(listed: list[Parent]) -> None:
    found = companions(listed)
    assert found == companions(listed[::-1])
    for reference in (A, B, NS):
        needed = {
            cluster
            for each in listed
            for cluster in each.clusters
            if reference is NS or (each.policy.carries and reference in each.references.asked)
        }
        assert set(found[reference].clusters if reference in found else ()) == needed
