"""The pods of a Job, and the claims for its volumes (reference/volcano.md 1.7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from member_agent.jobs import children
from member_agent.jobs.children import Moulds
from member_agent.jobs.orders import PodOrder
from tests.member_agent.making import (
    KEYS,
    UID,
    Doc,
    container,
    env,
    job,
    marked,
    mounts,
    objects,
    part,
    pods,
    task,
    view,
)

# --- names, labels, annotations --------------------------------------------------------------------------------------


def test_a_pod_says_whose_it_is_and_which() -> None:
    made = pods(job(task("work", 2)), version=3, retries=2)["work-1"]
    assert made["metadata"] == {
        "name": "train-work-1",
        "namespace": "lab",
        "labels": {
            "volcano.sh/job-name": "train",
            "volcano.sh/job-namespace": "lab",
            "volcano.sh/task-spec": "work",
            "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "default",
        },
        "annotations": {
            "volcano.sh/job-name": "train",
            "volcano.sh/task-spec": "work",
            "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "default",
            "volcano.sh/job-version": "3",
            "volcano.sh/job-retry-count": "2",
            "volcano.sh/template-uid": "train-work",
            "scheduling.k8s.io/group-name": f"train-{UID}",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_a_task_without_a_name_has_one_by_its_place() -> None:
    made = Moulds(view(job(task(""))), job(task("")), scheduler="volcano").pod(PodOrder("default0", 0, "train-default0-0"))
    assert made["metadata"]["labels"]["volcano.sh/task-spec"] == "default0"


def test_labels_and_annotations_of_the_template_are_kept() -> None:
    named = task("work")
    named["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    made = pods(job(named))["work-0"]["metadata"]
    assert (made["labels"]["app"], made["annotations"]["note"]) == ("x", "y")


@pytest.mark.parametrize(
    ("given_", "taken"),
    [
        (
            {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "600s", "volcano.sh/revocable-zone": "*"},
            {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "600s", "volcano.sh/revocable-zone": "*"},
        ),
        ({"volcano.sh/jdb-min-available": "2"}, {"volcano.sh/jdb-min-available": "2"}),
        ({"volcano.sh/jdb-max-unavailable": "10%"}, {"volcano.sh/jdb-max-unavailable": "10%"}),
        (
            {"volcano.sh/jdb-max-unavailable": "1", "volcano.sh/jdb-min-available": "2"},
            {"volcano.sh/jdb-min-available": "2"},
        ),
        ({"somebody.else/note": "x"}, {}),
    ],
)
def test_annotations_of_the_job_that_schedulers_read_from_pods(given_: Mapping[str, str], taken: Mapping[str, str]) -> None:
    plain = pods(job(task("work")))["work-0"]["metadata"]["annotations"]
    made = pods(marked(job(task("work")), annotations=given_))["work-0"]["metadata"]["annotations"]
    assert {name: text for name, text in made.items() if name not in plain} == taken


def test_labels_of_the_job_that_schedulers_read_from_pods() -> None:
    labels = {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5m", "team": "blue"}
    made = pods(marked(job(task("work")), labels=labels))["work-0"]["metadata"]["labels"]
    assert (made["volcano.sh/preemptable"], made["volcano.sh/cooldown-time"]) == ("true", "5m")
    assert "team" not in made


@pytest.mark.parametrize(
    ("policy", "said"), [(None, None), ("", None), ("none", "none"), ("single-numa-node", "single-numa-node")]
)
def test_the_numa_policy_of_the_task_is_said_where_there_is_one(policy: str | None, said: str | None) -> None:
    more: Doc = {} if policy is None else {"topologyPolicy": policy}
    manifest = job(task("work", **more))
    assert pods(manifest)["work-0"]["metadata"]["annotations"].get("volcano.sh/numa-topology-policy") == said


def test_pods_of_a_partition_share_its_number() -> None:
    manifest = job(task("work", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}), task("log"))
    labels = {key: pod["metadata"]["labels"].get("volcano.sh/partition-id") for key, pod in pods(manifest).items()}
    assert labels == {"work-0": "0", "work-1": "0", "work-2": "1", "work-3": "1", "log-0": None}


# --- the pod's spec --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_job", "of_pod", "expected"),
    [(None, None, "volcano"), ("mine", None, "mine"), ("mine", "own", "own"), (None, "own", "own")],
)
def test_the_scheduler_is_the_templates_then_the_jobs_then_ours(of_job: str | None, of_pod: str | None, expected: str) -> None:
    template = {"schedulerName": of_pod} if of_pod else None
    more: Doc = {"schedulerName": of_job} if of_job else {}
    manifest = job(task("work", pod=template), **more)
    assert pods(manifest)["work-0"]["spec"]["schedulerName"] == expected


def test_the_priority_class_is_the_templates_then_the_jobs() -> None:
    manifest = job(task("a"), task("b", pod={"priorityClassName": "low"}), priorityClassName="high")
    assert {key: pod["spec"]["priorityClassName"] for key, pod in pods(manifest).items()} == {"a-0": "high", "b-0": "low"}
    assert "priorityClassName" not in pods(job(task("a")))["a-0"]["spec"]


def test_what_the_template_says_otherwise_is_not_touched() -> None:
    own = {"restartPolicy": "OnFailure", "nodeSelector": {"zone": "a"}, "volumes": [{"name": "scratch", "emptyDir": {}}]}
    made = pods(job(task("work", pod=own)))["work-0"]["spec"]
    assert {name: made[name] for name in own} == own
    assert made["containers"] == [container()]


def test_a_task_that_nobody_knows_is_an_error() -> None:
    manifest = job(task("work"))
    with pytest.raises(LookupError, match="no task other in the manifest"):
        Moulds(view(manifest), manifest, scheduler="volcano").pod(PodOrder("other", 0, "train-other-0"))


# --- the run ---------------------------------------------------------------------------------------------------------


def test_pods_of_a_run_carry_its_record_and_every_container_its_epoch() -> None:
    manifest = part(job(task("work", pod={"initContainers": [container("first")]})), epoch=7)
    made = pods(manifest)["work-0"]
    assert json.loads(made["metadata"]["annotations"]["volcano-federation.io/run"])["epoch"] == 7
    assert env(made)["VC_RUN_EPOCH"] == env(made, field="initContainers")["VC_RUN_EPOCH"] == "7"


def test_the_epoch_is_the_runs_whatever_the_template_says_and_containers_of_plugins_have_it_too() -> None:
    tasks = (task("master"), task("worker", containers=[container(env=[{"name": "VC_RUN_EPOCH", "value": "1"}])]))
    manifest = part(job(*tasks, plugins={"pytorch": ["--wait-master-enabled"]}), epoch=2)
    made = pods(manifest)["worker-0"]
    assert env(made)["VC_RUN_EPOCH"] == "2"
    assert made["spec"]["initContainers"][0]["name"] == "wait-for-master"
    assert env(made, field="initContainers")["VC_RUN_EPOCH"] == "2"


def test_a_job_of_this_cluster_has_no_epoch() -> None:
    assert "VC_RUN_EPOCH" not in env(pods(job(task("work")))["work-0"])


def test_partitions_are_numbered_over_all_clusters() -> None:
    whole = job(task("work", 6, partitionPolicy={"totalPartitions": 3, "partitionSize": 2}))
    west = pods(part(whole, tasks={"work": (4, 2, 6)}))
    numbers = {key: pod["metadata"]["labels"]["volcano.sh/partition-id"] for key, pod in west.items()}
    assert numbers == {"work-2": "1", "work-3": "1", "work-4": "2", "work-5": "2"}


PLUGINS: Mapping[str, list[str]] = {
    name: [] for name in ("svc", "ssh", "env", "tensorflow", "pytorch", "mpi", "ray", "hcclrank")
}


@given(
    split=st.lists(
        st.tuples(st.sampled_from(["master", "worker", "head"]), st.integers(1, 5), st.integers(0, 5)),
        min_size=3,
        max_size=3,
        unique_by=lambda each: each[0],
    )
)
def test_a_divided_job_is_the_undivided_one_cut_in_two(split: list[tuple[str, int, int]]) -> None:
    counts = {name: (count, min(cut, count)) for name, count, cut in split}
    whole = job(*(task(name, count) for name, (count, _) in counts.items()), plugins=PLUGINS)
    east = part(whole, tasks={name: (cut, 0, count) for name, (count, cut) in counts.items()})
    west = part(whole, tasks={name: (count - cut, cut, count) for name, (count, cut) in counts.items()})
    undivided = part(whole, tasks={name: (count, 0, count) for name, (count, _) in counts.items()})
    here, there = pods(east), pods(west)
    assert not here.keys() & there.keys()
    assert {key: _without_record(pod) for key, pod in (here | there).items()} == {
        key: _without_record(pod) for key, pod in pods(undivided).items()
    }
    assert objects(east) == objects(west) == objects(undivided)
    told = [env(pod).get("RANK") for key, pod in (here | there).items() if not key.startswith("head")]
    assert sorted(int(rank or "-1") for rank in told) == list(range(counts["master"][0] + counts["worker"][0]))


def _without_record(pod: Doc) -> Doc:
    """The record says how many pods are here, and so is the part's own."""
    return {**pod, "metadata": {**pod["metadata"], "annotations": _other(pod["metadata"]["annotations"])}}


def _other(annotations: Mapping[str, str]) -> Mapping[str, Any]:
    return {name: text for name, text in annotations.items() if name != "volcano-federation.io/run"}


# --- volumes and claims ----------------------------------------------------------------------------------------------

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NAMED = {"mountPath": "/data", "volumeClaimName": "corpus"}
MADE = {"mountPath": "/out", "volumeClaim": SPEC}


def test_claims_are_mounted_in_containers_and_not_in_init_containers() -> None:
    both: Doc = {"containers": [container(), container("side")], "pod": {"initContainers": [container("first")]}}
    manifest = job(task("work", 2, **both), volumes=[NAMED, MADE])
    name = children.volume_names(view(manifest), manifest)[1]
    for made in pods(manifest).values():
        assert made["spec"]["volumes"] == [
            {"name": "corpus", "persistentVolumeClaim": {"claimName": "corpus"}},
            {"name": name, "persistentVolumeClaim": {"claimName": name}},
        ]
        assert mounts(made, 0) == mounts(made, 1) == {"/data": "corpus", "/out": name}
        assert mounts(made, field="initContainers") == {}


def test_a_claim_is_made_under_a_name_that_is_the_same_at_every_look() -> None:
    manifest = job(task("work"), volumes=[NAMED, MADE, {**MADE, "mountPath": "/tmp"}])
    names = children.volume_names(view(manifest), manifest)
    assert names == children.volume_names(view(manifest), manifest)
    assert names[0] == "corpus"
    assert len(set(names)) == 3
    for name in names[1:]:
        prefix, _, letters = name.rpartition("-")
        assert (prefix, len(letters)) == ("train-pvc", 12)
        claim = objects(manifest)["PersistentVolumeClaim", name]
        assert claim["spec"] == SPEC
        assert claim["metadata"]["ownerReferences"][0]["uid"] == UID


def test_a_job_that_is_made_again_gets_claims_of_its_own() -> None:
    manifest = job(task("work"), volumes=[MADE])
    again = {**manifest, "metadata": {**manifest["metadata"], "uid": "another"}}
    assert children.volume_names(view(manifest), manifest) != children.volume_names(view(again), again)


def test_only_a_claim_that_somebody_else_makes_must_exist() -> None:
    manifest = job(task("work"), volumes=[NAMED, MADE, {**NAMED, "mountPath": "/again"}])
    assert set(view(manifest).rules.claims) == {"corpus"}
    assert [kind for kind, _ in objects(manifest)] == ["PersistentVolumeClaim"]


def test_a_claim_with_name_and_spec_is_made_under_that_name() -> None:
    manifest = job(task("work"), volumes=[{**MADE, "volumeClaimName": "train-pvc-old"}])
    assert list(objects(manifest)) == [("PersistentVolumeClaim", "train-pvc-old")]
    assert view(manifest).rules.claims == ()


def test_a_claim_that_is_mounted_twice_is_one_volume() -> None:
    made = pods(job(task("work"), volumes=[NAMED, {**NAMED, "mountPath": "/again"}]))["work-0"]
    assert [each["name"] for each in made["spec"]["volumes"]] == ["corpus"]
    assert mounts(made) == {"/data": "corpus", "/again": "corpus"}


def test_a_claim_whose_name_is_no_name_of_a_volume_gets_a_short_one() -> None:
    long = "corpus.of." + "x" * 70
    made = pods(job(task("work"), volumes=[{**NAMED, "volumeClaimName": long}]))["work-0"]
    volume = made["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"] == {"claimName": long}
    assert len(volume["name"]) <= 63
    assert "." not in volume["name"]
    assert mounts(made) == {"/data": volume["name"]}


def test_volumes_and_mounts_of_the_template_stay() -> None:
    own = container(volumeMounts=[{"name": "scratch", "mountPath": "/data"}])
    manifest = job(
        task("work", containers=[own], pod={"volumes": [{"name": "scratch", "emptyDir": {}}]}), volumes=[NAMED, MADE]
    )
    made = pods(manifest)["work-0"]
    assert [each["name"] for each in made["spec"]["volumes"]][0] == "scratch"
    assert mounts(made)["/data"] == "scratch"
    assert "/out" in mounts(made)


def test_claims_stay_when_a_job_is_killed_and_objects_of_plugins_go() -> None:
    manifest = job(task("work"), volumes=[MADE], plugins={"ssh": []})
    found = children.objects(view(manifest), manifest, keys=lambda: KEYS)
    assert [(each.kind.kind, each.plugin) for each in found] == [("PersistentVolumeClaim", ""), ("Secret", "ssh")]


def test_the_status_lists_what_a_job_controls() -> None:
    manifest = job(task("work"), volumes=[NAMED], plugins={"env": [], "svc": []})
    assert children.controlled(view(manifest), manifest) == {
        "volume-pvc-corpus": "corpus",
        "plugin-env": "env",
        "plugin-svc": "svc",
    }


def test_keys_are_drawn_only_for_a_secret_that_is_made() -> None:
    drawn = []

    def draw() -> children.KeyPair:
        drawn.append(1)
        return KEYS

    manifest = job(task("work"), plugins={"ssh": []})
    found = children.objects(view(manifest), manifest, keys=draw)
    assert drawn == []
    assert found[0].manifest["kind"] == "Secret"
    assert drawn == [1]
