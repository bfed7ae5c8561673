"""What differs by cluster: order, targets, every overrider, what stays as it was decided, and failures that say where."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import yaml

from policies.overrides import Failure, applicable, overridden, problems
from policies.overrides.views import OverrideView
from policies.selecting import template_of
from tests.policies.build import cluster
from tests.policies.overrides.build import JOB_SELECTOR, container, images, job, pod, policy, read

EAST = cluster("east", provider="aws", region="eu", zones=("eu-1",), labels={"gpu": "yes"})


def on_east(manifest: dict[str, Any], *policies: OverrideView) -> Any:
    """What east gets; the original is left alone."""
    before = json.dumps(manifest)
    outcome = overridden(manifest, cluster=EAST, policies=policies)
    assert outcome.failure is None, outcome.failure
    assert json.dumps(manifest) == before
    return outcome.manifest


def failure(manifest: dict[str, Any], *policies: OverrideView) -> Failure:
    outcome = overridden(manifest, cluster=EAST, policies=policies)
    assert outcome.failure is not None
    assert outcome.manifest is manifest and not outcome.policies
    return outcome.failure


# --- which and in which order ----------------------------------------------------------------------------------------
def label(value: str) -> list[dict[str, Any]]:
    return [{"operator": "add", "value": {"by": value}}]


def test_the_most_exact_policy_of_the_namespace_has_the_last_word_whatever_the_order_of_reading() -> None:
    named, labelled = JOB_SELECTOR | {"name": "train"}, JOB_SELECTOR | {"labelSelector": {"matchLabels": {"team": "ml"}}}
    listed = [
        policy("z", namespace="", select=named, labelsOverrider=label("cluster exact")),
        policy("all", labelsOverrider=label("all")),
        policy("b", select=JOB_SELECTOR, labelsOverrider=label("kind b")),
        policy("a", select=JOB_SELECTOR, labelsOverrider=label("kind a")),
        policy("l", select=labelled, labelsOverrider=label("labels")),
        policy("n", select=named, labelsOverrider=label("exact")),
    ]
    order = [each.name for each in applicable(template_of(job()), policies=listed)]
    assert order == ["z", "all", "a", "b", "l", "n"]
    for shuffled in itertools.islice(itertools.permutations(listed), 0, 720, 97):
        assert on_east(job(), *shuffled)["metadata"]["labels"]["by"] == "exact"
    assert on_east(job(), *listed[:3])["metadata"]["labels"]["by"] == "kind b"


def test_policies_of_other_namespaces_kinds_names_and_leaving_ones_do_not_apply() -> None:
    others = [
        policy("o", namespace="other", labelsOverrider=label("x")),
        policy("k", select=JOB_SELECTOR | {"kind": "CronJob"}, labelsOverrider=label("x")),
        policy("b", select=JOB_SELECTOR | {"apiVersion": "batch/v1"}, labelsOverrider=label("x")),
        policy("n", select=JOB_SELECTOR | {"name": "other"}, labelsOverrider=label("x")),
        policy("s", namespace="", select=JOB_SELECTOR | {"namespace": "other"}, labelsOverrider=label("x")),
    ]
    outcome = overridden(job(), cluster=EAST, policies=others)
    assert outcome.manifest == job() and outcome.annotations() == {}


@pytest.mark.parametrize(
    ("on", "applies"),
    [
        (None, True),
        ({}, True),
        ({"clusterNames": ["east"]}, True),
        ({"clusterNames": ["west"]}, False),
        ({"exclude": ["east"]}, False),
        ({"labelSelector": {"matchLabels": {"gpu": "yes"}}}, True),
        ({"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["eu-1"]}]}}, True),
        ({"fieldSelector": {"matchExpressions": [{"key": "provider", "operator": "NotIn", "values": ["aws"]}]}}, False),
    ],
)
def test_a_rule_applies_to_the_clusters_it_targets(on: Any, applies: bool) -> None:
    outcome = overridden(job(), cluster=EAST, policies=[policy("o", on=on, labelsOverrider=label("x"))])
    assert ("by" in outcome.manifest["metadata"]["labels"]) is applies
    assert (outcome.policies == ("o",)) is applies


def test_the_older_form_of_one_rule_still_works() -> None:
    spec = {"targetCluster": {"clusterNames": ["east"]}, "overriders": {"labelsOverrider": label("old")}}
    assert on_east(job(), read("o", spec=spec))["metadata"]["labels"]["by"] == "old"


def test_a_work_names_the_policies_that_changed_it() -> None:
    outcome = overridden(
        job(),
        cluster=EAST,
        policies=[policy("o", labelsOverrider=label("x")), policy("c", namespace="", labelsOverrider=label("y"))],
    )
    assert outcome.annotations() == {
        "policy.karmada.io/applied-overrides": '{"appliedItems":[{"policyName":"o"}]}',
        "policy.karmada.io/applied-cluster-overrides": '{"appliedItems":[{"policyName":"c"}]}',
    }


def test_overriders_of_a_rule_go_in_upstreams_order_and_plaintext_comes_last() -> None:
    changed = on_east(
        job(),
        policy(
            plaintext=[{"path": "/metadata/labels/by", "operator": "replace", "value": "plaintext"}],
            labelsOverrider=label("labels"),
        ),
    )
    assert changed["metadata"]["labels"]["by"] == "plaintext"


# --- every overrider -------------------------------------------------------------------------------------------------
def test_images_change_in_every_task_and_in_init_containers() -> None:
    changed = on_east(job(), policy(imageOverrider=[{"component": "Registry", "operator": "replace", "value": "mirror:5000"}]))
    assert [each.partition("/")[0] for each in images(changed)] == ["mirror:5000"] * 4


def test_a_predicate_changes_the_one_text_at_its_path() -> None:
    path = {"path": "/spec/tasks/1/template/spec/containers/0/image"}
    change = {"component": "Tag", "operator": "replace", "value": "v2", "predicate": path}
    assert images(on_east(job(), policy(imageOverrider=[change])))[:3] == ["ml/fetch", "docker.io/ml/train:v1", "ml/train:v2"]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "where"),
    [
        ("v1", "Pod", pod(container("main"))["spec"], ("spec",)),
        ("apps/v1", "Deployment", {"template": pod(container("main"))}, ("spec", "template", "spec")),
        ("batch/v1", "Job", {"template": pod(container("main"))}, ("spec", "template", "spec")),
        (
            "batch/v1",
            "CronJob",
            {"jobTemplate": {"spec": {"template": pod(container("main"))}}},
            ("spec", "jobTemplate", "spec", "template", "spec"),
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"template": pod(container("main"))}}},
            ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"),
        ),
        (
            "ray.io/v1",
            "RayCluster",
            {"headGroupSpec": {"template": pod(container("main"))}},
            ("spec", "headGroupSpec", "template", "spec"),
        ),
    ],
)
def test_images_are_found_by_kind(api_version: str, kind: str, spec: dict[str, Any], where: tuple[str, ...]) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    found = on_east(manifest, policy(imageOverrider=[{"component": "Tag", "operator": "replace", "value": "9"}]))
    for step in where:
        found = found[step]
    assert found["containers"][0]["image"] == "nginx:9"


def test_commands_and_arguments_change_by_container_and_where_named_by_task() -> None:
    changed = on_east(
        job(),
        policy(
            commandOverrider=[{"containerName": "fetch", "operator": "add", "value": ["sh", "-c"]}],
            argsOverrider=[
                {"containerName": "main", "operator": "add", "value": ["--b"]},
                {"containerName": "master/main", "operator": "remove", "value": ["--a"]},
                {"containerName": "nobody", "operator": "add", "value": ["--x"]},
            ],
        ),
    )
    master, worker = (task["template"]["spec"] for task in changed["spec"]["tasks"])
    assert master["initContainers"][0]["command"] == ["sh", "-c"]
    assert (master["containers"][0]["args"], worker["containers"][0]["args"]) == (["--b"], ["--b"])
    assert "args" not in worker["containers"][1]


def test_labels_and_annotations_are_added_and_only_what_is_there_is_replaced_or_removed() -> None:
    manifest = job()
    manifest["metadata"]["annotations"] = {"keep": "1", "drop": "1"}
    changed = on_east(
        manifest,
        policy(
            labelsOverrider=[{"operator": "replace", "value": {"team": "ops", "absent": "x"}}],
            annotationsOverrider=[
                {"operator": "add", "value": {"new": "1"}},
                {"operator": "remove", "value": {"drop": "", "absent": ""}},
            ],
        ),
    )
    assert changed["metadata"]["labels"] == {"team": "ops"}
    assert changed["metadata"]["annotations"] == {"keep": "1", "new": "1"}


CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "default"},
    "data": {
        "j": '{"db": {"host": "a"}, "list": [1]}',
        "y": "db:\n  host: a\nday: 2024-01-02\nflag: true\n",
        "t": "no: [yaml",
        "b": "a: &x 1\nb: *x",
    },
}


def test_texts_that_hold_json_or_yaml_are_changed_inside() -> None:
    changed = on_east(
        CONFIG,
        policy(
            fieldOverrider=[
                {
                    "fieldPath": "/data/j",
                    "json": [
                        {"subPath": "/db/host", "operator": "replace", "value": "b"},
                        {"subPath": "/list/-", "operator": "add", "value": 2},
                    ],
                },
                {
                    "fieldPath": "/data/y",
                    "yaml": [
                        {"subPath": "/db/host", "operator": "remove"},
                        {"subPath": "/n", "operator": "add", "value": None},
                    ],
                },
            ]
        ),
    )
    assert json.loads(changed["data"]["j"]) == {"db": {"host": "b"}, "list": [1, 2]}
    assert changed["data"]["y"] == "db: {}\nday: '2024-01-02'\nflag: true\nn: null\n"
    assert yaml.safe_load(changed["data"]["y"])["flag"] is True


def test_plaintext_is_a_json_patch() -> None:
    changed = on_east(
        job(),
        policy(
            plaintext=[
                {"path": "/spec/plugins", "operator": "add", "value": {"env": []}},
                {"path": "/spec/tasks/0/template/spec/nodeSelector", "operator": "add", "value": {"pool": "a"}},
                {"path": "/metadata/labels/team", "operator": "remove"},
            ]
        ),
    )
    assert changed["spec"]["plugins"] == {"env": []}
    assert changed["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert changed["metadata"]["labels"] == {}


# --- failures --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("overriders", "field", "reason"),
    [
        ({"plaintext": [{"path": "/spec/none", "operator": "remove"}]}, "plaintext[0].path", "remove of '/spec/none'"),
        (
            {"plaintext": [{"path": "/spec/none/x", "operator": "add", "value": 1}]},
            "plaintext[0].path",
            "add of '/spec/none/x'",
        ),
        ({"plaintext": [{"path": "/spec/tasks/9", "operator": "replace", "value": 1}]}, "plaintext[0].path", "replace of"),
        (
            {"imageOverrider": [{"component": "Tag", "operator": "remove", "predicate": {"path": "/spec/x"}}]},
            "imageOverrider[0].predicate.path",
            "there is no '/spec/x'",
        ),
        (
            {"imageOverrider": [{"component": "Tag", "operator": "remove", "predicate": {"path": "/spec/tasks"}}]},
            "imageOverrider[0].predicate.path",
            "is no text but list",
        ),
        ({"imageOverrider": [{"component": "Repository", "operator": "remove"}]}, "imageOverrider[0].value", "no repository"),
        ({"fieldOverrider": [{"fieldPath": "/spec/tasks", "json": []}]}, "fieldOverrider[0].fieldPath", "is no text"),
        ({"fieldOverrider": [{"fieldPath": "/spec/queue", "json": []}]}, "fieldOverrider[0].fieldPath", "is no JSON"),
    ],
)
def test_what_cannot_be_carried_out_names_policy_field_and_reason(overriders: Any, field: str, reason: str) -> None:
    told = failure(
        job(),
        policy("good", select=JOB_SELECTOR, labelsOverrider=label("x")),
        policy("wrong", select=JOB_SELECTOR, **overriders),
    )
    assert told.policy == "OverridePolicy default/wrong"
    assert told.field == f"spec.overrideRules[0].overriders.{field}"
    assert reason in told.reason


@pytest.mark.parametrize(("key", "reason"), [("t", "is no YAML"), ("b", "has YAML aliases")])
def test_texts_that_are_no_yaml_or_refer_to_themselves_are_refused(key: str, reason: str) -> None:
    change = {"fieldPath": f"/data/{key}", "yaml": [{"subPath": "/x", "operator": "add", "value": 1}]}
    assert reason in failure(CONFIG, policy(fieldOverrider=[change])).reason


@pytest.mark.parametrize(
    ("overriders", "field"),
    [
        ({"imageOverrider": [{"component": "Tag", "operator": "add"}]}, "imageOverrider[0].value"),
        ({"imageOverrider": [{"component": "Name", "operator": "remove"}]}, "imageOverrider[0].component"),
        (
            {"imageOverrider": [{"component": "Tag", "operator": "remove", "predicate": {"path": "x"}}]},
            "imageOverrider[0].predicate.path",
        ),
        ({"commandOverrider": [{"containerName": "main", "operator": "replace"}]}, "commandOverrider[0].operator"),
        ({"argsOverrider": [{"containerName": "", "operator": "add"}]}, "argsOverrider[0].containerName"),
        ({"labelsOverrider": [{"operator": "set", "value": {}}]}, "labelsOverrider[0].operator"),
        ({"annotationsOverrider": [{"operator": "", "value": {}}]}, "annotationsOverrider[0].operator"),
        ({"fieldOverrider": [{"fieldPath": "/a"}]}, "fieldOverrider[0]"),
        ({"fieldOverrider": [{"fieldPath": "/a", "json": [], "yaml": []}]}, "fieldOverrider[0]"),
        ({"fieldOverrider": [{"fieldPath": "a", "json": []}]}, "fieldOverrider[0].fieldPath"),
        (
            {"fieldOverrider": [{"fieldPath": "/a", "json": [{"subPath": "/x", "operator": "add"}]}]},
            "fieldOverrider[0].json[0].value",
        ),
        (
            {"fieldOverrider": [{"fieldPath": "/a", "yaml": [{"subPath": "/x", "operator": "remove", "value": 1}]}]},
            "fieldOverrider[0].yaml[0].value",
        ),
        ({"plaintext": [{"path": "x", "operator": "remove"}]}, "plaintext[0].path"),
        ({"plaintext": [{"path": "/x", "operator": "replace"}]}, "plaintext[0].value"),
        ({"plaintext": [{"path": "/x", "operator": "move"}]}, "plaintext[0].operator"),
    ],
)
def test_a_policy_that_is_wrong_by_itself_is_told_before_it_is_applied(overriders: Any, field: str) -> None:
    wrong = policy(**overriders)
    assert [each.field for each in problems(wrong)] == [f"spec.overrideRules[0].overriders.{field}"]
    assert failure(job(), wrong).field == f"spec.overrideRules[0].overriders.{field}"


def test_both_forms_at_once_and_foreign_namespaces_are_problems() -> None:
    both: dict[str, Any] = {"overrideRules": [{"overriders": {}}], "overriders": {}}
    assert [each.field for each in problems(read("o", spec=both))] == ["spec.overrideRules"]
    foreign = policy(select=JOB_SELECTOR | {"namespace": "other"})
    assert [each.field for each in problems(foreign)] == ["spec.resourceSelectors[0].namespace"]
    assert problems(policy(labelsOverrider=label("x"), plaintext=[{"path": "/x", "operator": "remove", "value": 1}])) == []


# --- what was decided stays ------------------------------------------------------------------------------------------
def plain(path: str, value: Any) -> dict[str, Any]:
    return {"plaintext": [{"path": path, "operator": "add", "value": value}]}


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("/metadata/name", "other", "may not name another object"),
        ("/metadata/namespace", "kube-system", "may not name another object"),
        ("/kind", "CronJob", "may not name another object"),
        ("/spec/tasks/1/replicas", 20, "what the hub decided"),
        ("/spec/minAvailable", 1, "what the hub decided"),
        ("/spec/tasks/-", {"name": "more", "replicas": 1}, "what the hub decided"),
    ],
)
@pytest.mark.parametrize("namespace", ["default", ""])
def test_no_override_changes_identity_replicas_or_minima(path: str, value: Any, reason: str, namespace: str) -> None:
    assert reason in failure(job(), policy(namespace=namespace, **plain(path, value))).reason


REQUESTS = "/spec/tasks/0/template/spec/containers/0/resources"


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("/spec/queue", "urgent", "spec.queue would change"),
        ("/spec/priorityClassName", "high", "spec.priorityClassName would change"),
        (REQUESTS, {"requests": {"cpu": "64"}}, "would ask for more cpu"),
        (REQUESTS, {"limits": {"nvidia.com/gpu": "8"}}, "would ask for more nvidia.com/gpu"),
        (REQUESTS, {"requests": {"cpu": "plenty"}}, "could not be read"),
    ],
)
def test_a_tenant_gets_round_neither_queue_nor_priority_nor_what_is_charged(path: str, value: Any, reason: str) -> None:
    assert reason in failure(job(), policy(**plain(path, value))).reason
    assert overridden(job(), cluster=EAST, policies=[policy(namespace="", **plain(path, value))]).failure is None
