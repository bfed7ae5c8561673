"""The PodGroup of a Job (reference/volcano.md 1.7)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.vectors import ResourceVector
from member_agent.jobs import groups
from member_agent.jobs.groups import counted
from member_agent.views import GroupView, project_group
from policies.shapes import PodShape, Task
from tests.member_agent.making import UID, Doc, container, job, marked, part, task, view

PRIORITIES = {"high": 1000, "low": 10}


def made(manifest: Doc, *, version: int = 0, priorities: Mapping[str, int] = PRIORITIES) -> Doc:
    before = copy.deepcopy(manifest)
    found = groups.pod_group(view(manifest), manifest, priorities=priorities, version=version)
    assert manifest == before
    return found


def asks(cpu: str, *, limit: str | None = None) -> list[Doc]:
    """One container that requests so many cores."""
    limits = {"limits": {"cpu": limit}} if limit else {}
    return [container(resources={"requests": {"cpu": cpu}, **limits})]


def resources(manifest: Doc, **more: Any) -> dict[str, str]:
    found: dict[str, str] = made(manifest, **more)["spec"]["minResources"]
    return found


# --- names and copies ------------------------------------------------------------------------------------------------


def test_the_group_belongs_to_its_job_and_carries_its_labels_and_annotations() -> None:
    manifest = marked(job(task("work", 2)), labels={"team": "blue"}, annotations={"note": "x"})
    found = made(manifest, version=4)
    assert found["metadata"] == {
        "name": f"train-{UID}",
        "namespace": "lab",
        "labels": {"team": "blue"},
        "annotations": {"note": "x", "volcano.sh/job-version": "4"},
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


def test_what_is_said_of_the_job_alone_stays_there() -> None:
    own = {"volcano-federation.io/run-nodes": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert made(marked(job(task("work")), annotations=own))["metadata"]["annotations"] == {"volcano.sh/job-version": "0"}


def test_queue_priority_and_topology_are_the_jobs() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 2}
    spec = made(job(task("work"), queue="lab", priorityClassName="high", networkTopology=topology))["spec"]
    assert (spec["queue"], spec["priorityClassName"], spec["networkTopology"]) == ("lab", "high", topology)


def test_what_the_job_does_not_say_is_not_there() -> None:
    assert set(made(job(task("work")))["spec"]) == {"minMember", "minTaskMember", "queue", "minResources"}


# --- minima and partitions -------------------------------------------------------------------------------------------


def test_minima_are_those_given_and_else_all_replicas() -> None:
    spec = made(job(task("a", 3, minAvailable=1), task("b", 2), minAvailable=3))["spec"]
    assert (spec["minMember"], spec["minTaskMember"]) == (3, {"a": 1, "b": 2})


def test_partitions_are_sub_groups() -> None:
    topology = {"mode": "soft", "highestTierAllowed": 1}
    parted = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3, "networkTopology": topology}
    plain = {"totalPartitions": 2, "partitionSize": 1}
    manifest = job(
        task("work", 8, minAvailable=6, partitionPolicy=parted), task("side", 2, partitionPolicy=plain), task("log", 1)
    )
    assert made(manifest)["spec"]["subGroupPolicy"] == [
        {
            "name": "work",
            "subGroupSize": 2,
            "minSubGroups": 3,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "work"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": topology,
        },
        {
            "name": "side",
            "subGroupSize": 1,
            "minSubGroups": 0,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "side"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
        },
    ]


def test_the_least_partitions_are_the_minimum_of_a_task_that_gives_none() -> None:
    parted = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    spec = made(job(task("work", 8, partitionPolicy=parted)))["spec"]
    assert (spec["minTaskMember"], spec["minMember"]) == ({"work": 6}, 6)


# --- minResources ----------------------------------------------------------------------------------------------------


def test_two_tasks_are_counted_as_a_quota_counts_them() -> None:
    amounts = {"cpu": "1000m", "memory": "1000Mi", "nvidia.com/gpu": "1"}
    containers = [container(resources={"requests": amounts, "limits": amounts})]
    manifest = job(task("task-1", 1, containers=containers), task("task-2", 1, containers=containers))
    assert resources(manifest) == {
        "count/pods": "2",
        "pods": "2",
        "cpu": "2",
        "memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.cpu": "2",
        "requests.memory": "2000Mi",
        "requests.nvidia.com/gpu": "2",
        "limits.cpu": "2",
        "limits.memory": "2000Mi",
    }


def test_a_limit_alone_is_the_request_as_well() -> None:
    assert resources(job(task("work", 1, containers=[container(resources={"limits": {"cpu": "2"}})]))) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "2",
        "requests.cpu": "2",
        "limits.cpu": "2",
    }


def test_pods_that_ask_for_nothing_are_still_pods() -> None:
    assert resources(job(task("work", 3))) == {"count/pods": "3", "pods": "3"}


def test_limits_of_a_pod_are_what_it_may_use_at_once() -> None:
    def limited(cpu: str, **more: Any) -> Doc:
        return container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": cpu}}, **more)

    first = [limited("1", restartPolicy="Always"), limited("5")]
    pod = {"initContainers": first, "overhead": {"cpu": "250m"}}
    found = resources(job(task("work", 2, containers=[limited("2"), limited("1"), container()], pod=pod)))
    assert (found["requests.cpu"], found["limits.cpu"]) == ("6500m", "12500m")


LOW = {"priorityClassName": "low"}
HIGH = {"priorityClassName": "high"}


def test_a_smaller_minimum_of_the_job_takes_the_first_pods_by_priority() -> None:
    tasks = (task("cheap", 2, containers=asks("1"), pod=LOW), task("dear", 2, containers=asks("10"), pod=HIGH))
    assert resources(job(*tasks, minAvailable=3))["cpu"] == "21"


def test_minima_come_first_and_the_rest_by_priority() -> None:
    tasks = (
        task("cheap", 4, minAvailable=1, containers=asks("1"), pod=LOW),
        task("dear", 3, minAvailable=1, containers=asks("10"), pod=HIGH),
    )
    assert resources(job(*tasks, minAvailable=2))["cpu"] == "11"
    assert resources(job(*tasks, minAvailable=3))["cpu"] == "21"
    assert resources(job(*tasks, minAvailable=5))["cpu"] == "32"


def test_a_task_without_a_priority_of_its_own_has_the_jobs() -> None:
    tasks = (task("a", 1, containers=asks("1"), pod=LOW), task("b", 1, containers=asks("10")))
    assert resources(job(*tasks, minAvailable=1))["cpu"] == "1"
    assert resources(job(*tasks, minAvailable=1, priorityClassName="high"))["cpu"] == "10"


def test_tasks_of_equal_or_unknown_priority_count_in_the_order_of_the_manifest() -> None:
    tasks = (task("a", 1, containers=asks("1"), pod={"priorityClassName": "gone"}), task("b", 1, containers=asks("10")))
    assert resources(job(*tasks, minAvailable=1))["cpu"] == "1"


@given(
    tasks=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5),
    share=st.floats(0, 1),
)
def test_the_counted_pods_are_exactly_the_minimum_and_never_more_than_there_are(
    tasks: list[tuple[int, int]], share: float
) -> None:
    shape = PodShape(ResourceVector())
    ordered = [
        Task(f"t{index}", replicas=replicas, minimum=min(minimum, replicas), shape=shape)
        for index, (replicas, minimum) in enumerate(tasks)
    ]
    minimum = int(share * sum(each.replicas for each in ordered))
    found = list(counted(ordered, minimum=minimum))
    assert sum(count for _, count in found) == minimum
    assert all(0 < count <= each.replicas for each, count in found)
    if sum(each.minimum for each in ordered) <= minimum:
        counts = {each.name: count for each, count in found}
        assert all(counts.get(each.name, 0) >= each.minimum for each in ordered)


def test_a_part_of_a_run_asks_for_its_own_pods_alone() -> None:
    whole = job(task("work", 4, containers=asks("1")))
    assert resources(part(whole, tasks={"work": (3, 1, 4)}))["cpu"] == "3"


# --- comparison ------------------------------------------------------------------------------------------------------


def stored(manifest: Doc) -> GroupView:
    return project_group(orjson.dumps(made(manifest)))


TWO = job(task("a", 3, minAvailable=1, containers=asks("1", limit="2")), task("b", 2), queue="lab", priorityClassName="high")


def test_a_group_that_was_just_made_does_not_differ() -> None:
    assert not groups.differs(view(TWO), stored(TWO))


@pytest.mark.parametrize(
    "change",
    [{"minAvailable": 4}, {"queue": "other"}, {"priorityClassName": "low"}, {"priorityClassName": ""}],
)
def test_a_change_of_the_job_is_seen_without_its_manifest(change: Doc) -> None:
    changed = {**TWO, "spec": {**TWO["spec"], **change}}
    assert groups.differs(view(changed), stored(TWO))
    assert not groups.differs(view(changed), stored(changed))


def test_a_change_of_a_tasks_minimum_is_seen() -> None:
    changed = copy.deepcopy(TWO)
    changed["spec"] |= {"minAvailable": 3}
    before = stored(changed)
    changed["spec"]["tasks"][0]["minAvailable"] = 0
    assert groups.differs(view(changed), before)


def merged(target: Doc, patch: Doc) -> Doc:
    """A merge patch as an API server applies it (RFC 7386)."""
    found = dict(target)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name) or {}, value) if isinstance(value, dict) else value
    return found


def test_a_patch_makes_of_any_group_the_one_that_would_be_made() -> None:
    gpu: Doc = {"containers": [container(resources={"requests": {"nvidia.com/gpu": "1"}})]}
    before = job(task("a", 1, **gpu, minAvailable=1), task("b", 1), priorityClassName="high", networkTopology={"mode": "soft"})
    after = job(task("a", 0, **gpu, minAvailable=0), task("b", 1, containers=asks("1")))
    patch = groups.pod_group_patch(view(after), after, stored(before), priorities=PRIORITIES)
    assert merged(made(before), patch)["spec"] == made(after)["spec"]
