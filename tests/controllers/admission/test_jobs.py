"""Jobs: what is filled in, which Queue may be named, what may change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.batch import PLUGINS, Job
from controllers.admission import (
    Problem,
    QueueFacts,
    default_job,
    queue_problems,
    summary,
    validate_job,
    validate_job_update,
)
from controllers.admission.problems import first_cycle
from tests.manifests import GOOD_JOB


def job(name: str = "train", **spec: Any) -> Job:
    return Job.of(name, namespace="ns", spec={**deepcopy(GOOD_JOB), **spec})


def says(problems: list[Problem], text: str) -> bool:
    return any(text in str(problem) for problem in problems)


def test_a_bare_job_is_completed() -> None:
    spec = default_job(Job.of("j", spec={"tasks": [{"replicas": 2}, {"name": "ps", "replicas": 3, "minAvailable": 1}]})).spec
    assert (spec.queue, spec.scheduler_name, spec.max_retry, spec.min_available) == ("default", "volcano", 3, 3)
    assert [(task.name, task.min_available, task.max_retry) for task in spec.tasks or []] == [("default0", 2, 3), ("ps", 1, 3)]


def test_what_is_given_is_kept_and_the_original_stays_as_it_was() -> None:
    given = job(queue="q", schedulerName="mine", maxRetry=7, minAvailable=1)
    before = given.to_json()
    spec = default_job(given).spec
    assert (spec.queue, spec.scheduler_name, spec.max_retry, spec.min_available) == ("q", "mine", 7, 1)
    assert given.to_json() == before


def test_zero_retries_and_a_zero_minimum_count_as_not_given() -> None:
    spec = default_job(job(maxRetry=0, minAvailable=0)).spec
    assert (spec.max_retry, spec.min_available) == (3, 3)


def test_a_partitioned_task_needs_its_least_partitions() -> None:
    tasks = [{"name": "a", "replicas": 8, "partitionPolicy": {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}}]
    spec = default_job(job(tasks=tasks)).spec
    assert spec.min_available == 6


def test_pods_on_the_host_network_find_the_cluster_by_name() -> None:
    tasks = [{"name": "a", "replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": True}}}]
    filled = (default_job(job(tasks=tasks)).spec.tasks or [])[0].template
    assert filled == {"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"mpi": ["--port=22"]}, {"mpi": ["--port=22"], "svc": [], "ssh": []}),
        ({"pytorch": []}, {"pytorch": [], "svc": []}),
        ({"ray": [], "svc": ["--disable-network-policy"]}, {"ray": [], "svc": ["--disable-network-policy"]}),
        ({"env": []}, {"env": []}),
    ],
)
def test_plugins_bring_those_they_need(given: dict[str, list[str]], filled: dict[str, list[str]]) -> None:
    assert default_job(job(plugins=given)).spec.plugins == filled


jobs = st.builds(
    lambda tasks, plugins, numbers: Job.of("j", spec={"tasks": tasks, "plugins": {name: [] for name in plugins}, **numbers}),
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["a", "b", "default0"]),
                "replicas": st.integers(0, 5),
                "minAvailable": st.integers(0, 5),
            },
        ),
        max_size=4,
    ),
    st.sets(st.sampled_from(PLUGINS)),
    st.fixed_dictionaries({}, optional={"maxRetry": st.integers(0, 4), "minAvailable": st.integers(0, 9)}),
)


@given(jobs)
def test_law_completing_twice_is_completing_once(given: Job) -> None:
    once = default_job(given)
    assert default_job(once) == once


@given(jobs)
def test_law_completing_keeps_a_sound_job_sound(given: Job) -> None:
    def problems(of: Job) -> set[str]:
        return {problem.field for problem in validate_job(of) if not problem.field.endswith(".containers")}

    if not problems(given):
        assert problems(default_job(given)) == set()


def test_a_missing_queue_is_named() -> None:
    problems = validate_job(job(queue="ghost"), queue={"default": QueueFacts()}.get)
    assert summary(problems) == "spec.queue: unable to find job queue: queue 'ghost' does not exist"


def test_a_job_that_names_no_queue_is_judged_by_the_default_one() -> None:
    assert says(validate_job(job(queue=None), queue=lambda name: None), "queue 'default' does not exist")
    assert validate_job(job(queue=None), queue={"default": QueueFacts()}.get) == []


@pytest.mark.parametrize(
    ("name", "facts", "reason"),
    [
        ("root", QueueFacts(), "can not submit job to root queue"),
        ("q", QueueFacts(state="Closed"), "`q` is `Closed`"),
        ("q", QueueFacts(state="Closing"), "`q` is `Closing`"),
        ("q", QueueFacts(leaf=False), "leaf queue"),
    ],
)
def test_a_queue_that_takes_no_jobs_says_why(name: str, facts: QueueFacts, reason: str) -> None:
    assert says(queue_problems(name, facts=facts), reason)


def test_a_queue_nobody_closed_is_open() -> None:
    assert queue_problems("q", facts=QueueFacts(state="")) == []


def test_a_name_too_long_for_a_label_is_refused() -> None:
    assert says(validate_job(job("j" * 64)), "metadata.name")
    assert says(validate_job(job("j" * 60)), "spec.tasks[0].name: its pods would be called")


def test_the_mpi_master_may_be_named_in_any_way_a_flag_is_written() -> None:
    for arguments in (["--master=a"], ["--master", "a"], ["-master=a"], ["--worker=b --master=a"]):
        assert validate_job(job(plugins={"mpi": arguments})) == [], arguments
    assert says(validate_job(job(plugins={"mpi": []})), "'master' is not a task")
    assert says(validate_job(job(plugins={"mpi": ["--x='unclosed"]})), "'master' is not a task")


def test_a_flat_minimum_of_a_sum_is_allowed() -> None:
    assert validate_job(job(minAvailable=3)) == []


def test_whole_cores_may_come_from_the_limit() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}}
    tasks = [{"name": "a", "replicas": 1, "topologyPolicy": "single-numa-node", "template": template}]
    assert validate_job(job(tasks=tasks)) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": " busybox"}, "needs an image"),
        ({"imagePullPolicy": "Perhaps"}, "'Perhaps' is not one of"),
        ({"volumeMounts": [{"name": "ghost", "mountPath": "/a"}]}, "'ghost' is not a volume of the pod"),
        ({"volumeMounts": [{"name": "v"}]}, "volumeMounts[0].mountPath: should be at least 1 chars long"),
        ({"ports": [{"containerPort": 0}]}, "should be between 1 and 65535"),
        ({"resources": {"requests": {"cpu": "-1"}}}, "should be greater than or equal to 0"),
        ({"resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}}, "must equal its limit"),
        ({"name": "Main"}, "should match a DNS-1123 label"),
    ],
)
def test_a_container_that_no_node_would_run_is_refused(change: dict[str, Any], reason: str) -> None:
    container = {"name": "c", "image": "i", **change}
    pod = {"containers": [container], "volumes": [{"name": "v"}]}
    assert says(validate_job(job(tasks=[{"name": "a", "replicas": 1, "template": {"spec": pod}}])), reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dnsPolicy": "Oracle"}, "'Oracle' is not one of"),
        ({"terminationGracePeriodSeconds": -1}, "should be greater than or equal to 0"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "duplicate volume name"),
        ({"volumes": [{"name": "V"}]}, "should match a DNS-1123 label"),
        ({"containers": "none"}, "at least one container"),
    ],
)
def test_a_pod_that_no_node_would_run_is_refused(change: dict[str, Any], reason: str) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], **change}
    assert says(validate_job(job(tasks=[{"name": "a", "replicas": 1, "template": {"spec": pod}}])), reason)


def test_everything_wrong_is_said_at_once() -> None:
    problems = validate_job(job(minAvailable=-1, maxRetry=-1, policies=[{}], plugins={"x": []}))
    assert len(problems) >= 5


@pytest.mark.parametrize("spec", [{"minAvailable": 2}, {"priorityClassName": "high"}])
def test_what_may_change_is_taken(spec: dict[str, Any]) -> None:
    assert validate_job_update(job(), new=job(**spec)) == []


def test_scaling_and_a_claim_filled_in_are_no_change_of_the_job() -> None:
    volume = {"mountPath": "/a", "volumeClaim": {}}
    old, new = job(volumes=[volume]), job(volumes=[{**volume, "volumeClaimName": "made"}])
    (new.spec.tasks or [])[0].replicas = 9
    (new.spec.tasks or [])[0].min_available = 4
    assert validate_job_update(old, new=new) == []


def test_the_same_manifest_applied_again_is_no_change_of_the_job() -> None:
    bare: dict[str, Any] = {
        "tasks": [{"replicas": 2, "template": GOOD_JOB["tasks"][0]["template"]}],
        "plugins": {"mpi": ["--master=default0"]},
    }
    completed = default_job(job(**bare))
    assert completed.spec != job(**bare).spec
    assert validate_job_update(completed, new=job(**bare)) == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"queue": "other"}, "job updates may not change fields other than"),
        ({"tasks": GOOD_JOB["tasks"][:1]}, "job updates may not add or remove tasks"),
        ({"tasks": [{**GOOD_JOB["tasks"][0], "name": "c"}, GOOD_JOB["tasks"][1]]}, "may not change fields other than"),
        ({"minAvailable": 4}, "job 'minAvailable' should not be greater than total replicas"),
        ({"minAvailable": -4}, "should be greater than or equal to 0"),
        ({"tasks": [{**GOOD_JOB["tasks"][0], "minAvailable": 3}, GOOD_JOB["tasks"][1]]}, "'minAvailable' is greater than"),
        ({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "x"}}, "simultaneously"),
    ],
)
def test_what_may_not_change_is_refused(spec: dict[str, Any], reason: str) -> None:
    assert says(validate_job_update(job(), new=job(**spec)), reason)


def test_a_cycle_starts_at_the_step_named_first_and_reads_in_the_order_of_waiting() -> None:
    assert first_cycle({"a": [], "b": ["d"], "c": ["b"], "d": ["c"]}) == ["b", "d", "c", "b"]
    assert first_cycle({"a": ["b"], "b": []}) is None


@given(st.dictionaries(st.integers(0, 12).map(str), st.lists(st.integers(0, 12).map(str), max_size=3), min_size=1))
def test_law_a_cycle_that_is_named_is_one(graph: dict[str, list[str]]) -> None:
    graph = {name: [each for each in targets if each in graph] for name, targets in graph.items()}
    cycle = first_cycle(graph)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert all(later in graph[earlier] for earlier, later in zip(cycle, cycle[1:], strict=False))
