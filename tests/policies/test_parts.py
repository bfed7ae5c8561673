"""Jobs over several clusters: every task divided, and parts that are gangs of their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies import fit
from policies.division import Strategy
from policies.fit import Room
from policies.parts import Minima, Part, Parts, Site, divide_gang, gang_of, revised, units_of
from policies.shapes import Gang, Pool, Task
from tests.policies.build import gang, nodes, shape

ALONE, TOGETHER = Minima.ALONE, Minima.TOGETHER
DYNAMIC, AGGREGATED, STATIC, DUPLICATED = Strategy.DYNAMIC, Strategy.AGGREGATED, Strategy.STATIC, Strategy.DUPLICATED


def site(name: str, cpu: int, **more: Any) -> Site:
    """A cluster of nodes of one core each."""
    return Site(name, Room(nodes((cpu, "1"))), **more)


def counts(parts: Parts) -> dict[str, int]:
    return {each.cluster: each.replicas for each in parts.parts}


def minima(parts: Parts) -> dict[str, int]:
    return {each.cluster: each.minimum for each in parts.parts}


ELASTIC = gang(("work", 12, shape()), least=2)
RIGID = gang(("work", 12, shape()))


def test_one_task_is_divided_as_upstream_divides_replicas() -> None:
    sites = [site("a", 6), site("b", 12), site("c", 18)]
    assert counts(divide_gang(ELASTIC, sites, strategy=DYNAMIC, minima=ALONE)) == {"a": 2, "b": 4, "c": 6}
    assert counts(divide_gang(ELASTIC, sites, strategy=AGGREGATED, minima=ALONE)) == {"c": 12}


def test_parts_that_stand_alone_each_meet_the_whole_minimum() -> None:
    parts = divide_gang(ELASTIC, [site("a", 6), site("b", 12), site("c", 18)], strategy=DYNAMIC, minima=ALONE)
    assert minima(parts) == {"a": 2, "b": 2, "c": 2}


def test_a_part_below_the_minimum_is_left_out_and_its_pods_go_to_the_others() -> None:
    needs_four = gang(("work", 12, shape()), least=4)
    parts = divide_gang(needs_four, [site("a", 6), site("b", 12), site("c", 18)], strategy=DYNAMIC, minima=ALONE)
    assert counts(parts) == {"b": 5, "c": 7}


def test_a_job_that_needs_all_its_pods_goes_whole_unless_its_parts_start_together() -> None:
    sites = [site("a", 9), site("b", 15)]
    assert counts(divide_gang(RIGID, sites, strategy=DYNAMIC, minima=ALONE)) == {"b": 12}
    together = divide_gang(RIGID, sites, strategy=DYNAMIC, minima=TOGETHER)
    assert (counts(together), minima(together)) == ({"a": 5, "b": 7}, {"a": 5, "b": 7})
    crowded = divide_gang(RIGID, [site("a", 7), site("b", 7)], strategy=DYNAMIC, minima=ALONE)
    assert not crowded.parts and crowded.text == "5 of 12 pods of task work find no room in 1 clusters"


def test_a_single_master_keeps_its_workers_where_it_is() -> None:
    job = Pool().gang((Task("master", 1, 1, shape()), Task("worker", 8, 4, shape())), minimum=5)
    parts = divide_gang(job, [site("a", 9), site("b", 9)], strategy=DYNAMIC, minima=ALONE)
    assert counts(parts) in ({"a": 9}, {"b": 9})


def test_minima_of_parts_that_start_together_add_up_task_by_task() -> None:
    job = Pool().gang((Task("master", 1, 1, shape()), Task("worker", 8, 4, shape())), minimum=6)
    parts = divide_gang(job, [site("a", 5), site("b", 9)], strategy=DYNAMIC, minima=TOGETHER)
    assert sum(minima(parts).values()) == 6
    assert sum(task.minimum for part in parts.parts for task in part.tasks if task.name == "worker") == 4


def test_tasks_compete_for_the_same_nodes() -> None:
    """Room for either task on either cluster, but not for both tasks on one."""
    job = gang(("big", 2, shape("2")), ("small", 4, shape("1")), least=1)
    rows = nodes((2, "2"))
    parts = divide_gang(job, [Site("a", Room(rows)), Site("b", Room(rows))], strategy=AGGREGATED, minima=TOGETHER)
    assert counts(parts) == {"a": 2, "b": 4}


def test_indices_go_on_from_part_to_part() -> None:
    parts = divide_gang(ELASTIC, [site("a", 6), site("b", 12), site("c", 18)], strategy=DYNAMIC, minima=ALONE)
    assert [(each.tasks[0].offset, each.tasks[0].replicas, each.tasks[0].total) for each in parts.parts] == [
        (0, 2, 12),
        (2, 4, 12),
        (6, 6, 12),
    ]


def test_growth_keeps_every_part_and_shrinking_adds_to_none() -> None:
    held = {"a": 4, "b": 8}
    sites = [site(name, 10, assigned={"work": count}) for name, count in held.items()]
    more = counts(divide_gang(gang(("work", 18, shape()), least=1), sites, strategy=DYNAMIC, minima=ALONE))
    assert all(more[name] >= count for name, count in held.items()) and sum(more.values()) == 18
    fewer = counts(divide_gang(gang(("work", 6, shape()), least=1), sites, strategy=DYNAMIC, minima=ALONE))
    assert fewer == {"a": 2, "b": 4}


def test_pods_that_stay_through_a_rebalance_need_no_new_room() -> None:
    sites = [site("a", 1, assigned={"work": 5}), site("b", 6)]
    parts = divide_gang(ELASTIC, sites, strategy=DYNAMIC, minima=ALONE, fresh=True)
    assert (counts(parts), parts.beyond) == ({"a": 6, "b": 6}, {})


def test_partitions_stay_whole() -> None:
    job = gang(("work", 12, shape()), least=4)
    sites = [site("a", 6), site("b", 11)]
    parts = divide_gang(job, sites, strategy=DYNAMIC, minima=ALONE, units={"work": 4})
    assert counts(parts) == {"a": 4, "b": 8}


def test_copies_are_whole_jobs_everywhere() -> None:
    parts = divide_gang(RIGID, [site("a", 20), site("b", 7)], strategy=DUPLICATED, minima=ALONE)
    assert (counts(parts), minima(parts), parts.beyond) == ({"a": 12, "b": 12}, {"a": 12, "b": 12}, {"b": 5})


def test_static_weights_tell_what_finds_no_room() -> None:
    parts = divide_gang(ELASTIC, [site("a", 2, weight=1), site("b", 20, weight=2)], strategy=STATIC, minima=ALONE)
    assert (counts(parts), parts.beyond) == ({"a": 4, "b": 8}, {"a": 2})


def test_without_clusters_or_pods_the_reason_is_told() -> None:
    assert divide_gang(ELASTIC, [], strategy=DYNAMIC, minima=ALONE).text == "no cluster may run it"
    assert divide_gang(gang(), [site("a", 1)], strategy=DYNAMIC, minima=ALONE).text == "it has no pods"
    assert "12 of 12 pods" in divide_gang(ELASTIC, [Site("a")], strategy=DYNAMIC, minima=ALONE).text


# --- manifests -------------------------------------------------------------------------------------------------------
def manifest() -> dict[str, Any]:
    partitioned = {"totalPartitions": 3, "partitionSize": 4, "minPartitions": 1}
    tasks = [{"name": "work", "replicas": 12, "partitionPolicy": partitioned}, {"replicas": 1, "template": {"x": 1}}]
    return {"kind": "Job", "spec": {"minAvailable": 5, "minSuccess": 7, "queue": "q", "tasks": tasks}}


def test_the_manifest_of_a_part_says_its_own_replicas_minima_and_partitions() -> None:
    job = manifest()
    assert units_of(job) == {"work": 4}
    made = Pool().gang((Task("work", 12, 4, shape()), Task("default1", 1, 1, shape())), minimum=5)
    parts = divide_gang(made, [site("a", 5), site("b", 9)], strategy=DYNAMIC, minima=TOGETHER, units=units_of(job))
    assert counts(parts) == {"a": 5, "b": 8}
    small, large = (revised(job, part, replicas=13)["spec"] for part in parts.parts)
    assert [task["replicas"] for task in small["tasks"]] == [4, 1]
    assert small["tasks"][0]["partitionPolicy"] == {"totalPartitions": 1, "partitionSize": 4, "minPartitions": 0}
    assert large["tasks"][0]["partitionPolicy"] == {"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1}
    assert [task["replicas"] for task in large["tasks"]] == [8, 0]
    assert (small["minSuccess"], large["minSuccess"], large["queue"]) == (3, 5, "q")
    assert small["minAvailable"] + large["minAvailable"] == 5
    assert job == manifest()


# --- laws ------------------------------------------------------------------------------------------------------------
cores = some.sampled_from(["1", "2", "3"])
tasks = some.lists(some.tuples(some.integers(1, 9), some.integers(0, 9), cores), min_size=1, max_size=3)
spaces = some.lists(some.tuples(some.integers(0, 6), some.integers(0, 6)), min_size=1, max_size=4)


def made_of(listed: list[tuple[int, int, str]], least: int) -> Gang:
    made = tuple(Task(f"t{at}", count, min(floor, count), shape(cpu)) for at, (count, floor, cpu) in enumerate(listed))
    return Pool().gang(made, minimum=min(max(1, least), sum(each.replicas for each in made)))


@given(tasks, some.integers(1, 20), spaces, some.sampled_from([DYNAMIC, AGGREGATED]), some.sampled_from(Minima))
@settings(max_examples=50, deadline=None)
def test_no_pod_is_lost_or_doubled_and_every_part_is_a_gang_that_fits(
    listed: list[tuple[int, int, str]],
    least: int,
    given_spaces: list[tuple[int, int]],
    strategy: Strategy,
    kind: Minima,
) -> None:
    job = made_of(listed, least)
    rows = {f"c{at}": nodes((large, "4"), (small, "2")) for at, (large, small) in enumerate(given_spaces)}
    parts = divide_gang(job, [Site(name, Room(each)) for name, each in rows.items()], strategy=strategy, minima=kind)
    if not parts.parts:
        assert parts.text
        return
    for index, task in enumerate(job.tasks):
        shares = [part.tasks[index] for part in parts.parts]
        assert sum(each.replicas for each in shares) == task.replicas
        assert [each.offset for each in shares] == [sum(each.replicas for each in shares[:at]) for at in range(len(shares))]
    for part in parts.parts:
        check_part(part, job, rows[part.cluster], kind)
    if kind is TOGETHER:
        assert sum(part.minimum for part in parts.parts) >= job.minimum
        starved = any(part.minimum == 1 for part in parts.parts)
        assert starved or sum(part.minimum for part in parts.parts) == job.minimum


def check_part(part: Part, job: Gang, rows: fit.Rows, kind: Minima) -> None:
    assert 1 <= part.minimum <= part.replicas
    assert all(0 <= each.minimum <= each.replicas for each in part.tasks)
    made = gang_of(part, job, pool=Pool())
    assert sum(count for _, count in made.least()) == part.minimum
    room = Room(rows)  # in the order in which tasks were divided
    assert all(room.take(task.shape, pods=task.replicas) == task.replicas for task in made.tasks)
    if kind is ALONE:
        assert part.minimum == job.minimum


@pytest.mark.parametrize("kind", list(Minima))
def test_the_same_question_has_the_same_answer_in_any_order(kind: Minima) -> None:
    sites = [site("a", 6), site("b", 12), site("c", 18)]
    assert divide_gang(ELASTIC, sites, strategy=DYNAMIC, minima=kind) == divide_gang(
        ELASTIC, sites[::-1], strategy=DYNAMIC, minima=kind
    )
