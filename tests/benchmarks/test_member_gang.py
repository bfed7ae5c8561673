"""The gang benchmark of a member: its rows, what the raw side writes for a Job, and how bound pods are counted."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections import Counter
from typing import Any

import orjson

from benchmarks.harness import Write
from benchmarks.jobs import Case, split
from benchmarks.member_gang import CASES, Done, apart, bound_name, chains, per_job, rows

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_cases_are_those_of_the_design() -> None:
    assert [Case.parse(text) for text in CASES.split(",")] == [Case(10, 100), Case(1, 1000), Case(50, 20), Case(500, 1)]


def test_rows_compare_rates_and_hold_writes_to_their_budgets() -> None:
    wrote = Counter({"create pods": 20, "create pods/binding": 20, "create podgroups": 1, "patch jobs/status": 3})
    ours = Done(pods=20, seconds=2.0, all_writes=wrote)
    found = rows(Case(1, 20), ours=ours, raw=Done(pods=20, seconds=1.5), rounds=1)
    assert [(row.case, row.ours, row.bound, row.holds) for row in found] == [
        ("1x20", 10, 13.33, False),
        ("1x20 writes per pod", 2, 2, True),
        ("1x20 writes per Job", 4, 5, True),
    ]


def test_pods_and_what_belongs_to_them_are_counted_apart() -> None:
    pods, others = split({"create pods": 1, "create pods/binding": 1, "patch podgroups": 2})
    assert (pods, others) == ({"create pods": 1, "create pods/binding": 1}, {"patch podgroups": 2})


def test_leases_events_and_queues_are_no_part_of_the_budgets() -> None:
    found = [
        Write("ours", "update", resource, "", "n", "x", 200, NOW)
        for resource in ("leases.coordination.k8s.io", "events", "events.events.k8s.io", "queues.scheduling.volcano.sh", "pods")
    ]
    assert [write.resource for write in apart(found)] == ["pods"]


def test_a_pod_counts_as_bound_from_the_event_that_names_its_node() -> None:
    def line(node: str) -> bytes:
        spec = {"nodeName": node} if node else {}
        pod = {"kind": "Pod", "metadata": {"name": "job-1-work-0", "labels": {"name": "x"}}, "spec": spec}
        return orjson.dumps({"type": "MODIFIED", "object": pod})

    assert bound_name(line("")) == b""
    assert bound_name(line("east-1")) == b"job-1-work-0"


def test_what_ours_wrote_is_shared_out_over_jobs() -> None:
    writes = {
        "create pods": 40,
        "create pods/binding": 40,
        "create podgroups": 4,
        "patch podgroups": 8,
        "patch jobs/status": 6,
        "patch queues/status": 2,
        "create events": 4,
        "delete podgroups": 1,
    }
    assert per_job(writes, jobs=4) == {"groups": 2.0, "statuses": 1.5, "queues": 0.5, "events": 1.0}


def test_the_raw_side_makes_the_same_writes_each_after_what_it_needs() -> None:
    calls: list[tuple[str, str, Any]] = []

    class Noting:
        async def raw(self, method: str, path: str, *, body: bytes | dict[str, Any], content_type: str = "") -> bytes:
            calls.append(
                (method, path.rpartition("/bench/")[2] or path, orjson.loads(body) if isinstance(body, bytes) else body)
            )
            return b""

    sample = {
        "uid": "uid-a",
        "job": "job-0",
        "pods": 2,
        "pod": {"metadata": {"annotations": {"group": "job-0-uid-a"}}},
        "group": {"metadata": {}, "spec": {"minMember": 2}},
        "group_status": {"phase": "Running"},
        "status": {"running": 2},
    }
    counts = {"groups": 2, "statuses": 1, "queues": 1, "events": 1}
    nodes = itertools.cycle(["east-1", "east-2"])

    async def all_of() -> None:
        made = chains(Noting(), {"name": "job-7", "uid": "uid-b"}, sample=sample, counts=counts, nodes=nodes)  # type: ignore[arg-type]
        for chain in made:
            for call in chain:
                await call()

    asyncio.run(all_of())
    assert [(method, path.rpartition("/v1beta1/")[2]) for method, path, _ in calls] == [
        ("POST", "podgroups"),
        ("PATCH", "podgroups/job-7-uid-b"),
        ("PATCH", "podgroups/job-7-uid-b"),
        ("POST", "pods"),
        ("POST", "pods/job-7-work-0/binding"),
        ("POST", "pods"),
        ("POST", "pods/job-7-work-1/binding"),
        ("PATCH", "jobs/job-7/status"),
        ("PATCH", "queues/default/status"),
        ("POST", "events"),
    ]
    assert calls[3][2]["metadata"] == {"annotations": {"group": "job-7-uid-b"}, "name": "job-7-work-0"}
    assert [calls[at][2]["target"]["name"] for at in (4, 6)] == ["east-1", "east-2"]
