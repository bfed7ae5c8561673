"""hcclrank: the rank as an annotation."""

from __future__ import annotations

from tests.member_agent.making import Doc, container, job, part, pods, task

TWO = (task("master", 2), task("worker", 2))


def ranks(manifest: Doc) -> dict[str, str | None]:
    return {key: pod["metadata"]["annotations"].get("hccl/rankIndex") for key, pod in pods(manifest).items()}


def test_masters_come_first_and_workers_after_all_of_them() -> None:
    manifest = job(*TWO, task("log", 1), plugins={"hcclrank": []})
    assert ranks(manifest) == {"master-0": "0", "master-1": "1", "worker-0": "2", "worker-1": "3", "log-0": None}


def test_workers_alone_begin_with_zero() -> None:
    assert ranks(job(task("worker", 2), plugins={"hcclrank": []})) == {"worker-0": "0", "worker-1": "1"}


def test_tasks_may_have_other_names() -> None:
    manifest = job(task("a", 1), task("b", 1), plugins={"hcclrank": ["--master=a", "--worker", "b"]})
    assert ranks(manifest) == {"a-0": "0", "b-0": "1"}


def test_a_rank_that_a_container_has_is_taken_over() -> None:
    own = container(env=[{"name": "RANK", "value": "7"}])
    assert ranks(job(task("worker", 1, containers=[container("side"), own]), plugins={"hcclrank": []})) == {"worker-0": "7"}


def test_an_annotation_of_the_template_stays() -> None:
    named = task("worker", 1)
    named["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "9"}}
    assert ranks(job(named, plugins={"hcclrank": []})) == {"worker-0": "9"}


def test_the_rank_is_that_of_pytorch_in_whatever_order_the_two_are_named() -> None:
    tasks = (task("master", 1), task("worker", 2))
    for first, second in (("hcclrank", "pytorch"), ("pytorch", "hcclrank")):
        assert ranks(job(*tasks, plugins={first: [], second: []})) == {"master-0": "0", "worker-0": "1", "worker-1": "2"}


def test_ranks_go_on_over_clusters() -> None:
    whole = job(*TWO, plugins={"hcclrank": []})
    west = part(whole, tasks={"master": (0, 2, 2), "worker": (1, 1, 2)})
    assert ranks(west) == {"worker-1": ranks(whole)["worker-1"]}
