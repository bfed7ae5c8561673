"""The Job controller's benchmark: its cases, its figures, and the documents that the raw side writes."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from typing import Any

import orjson
import pytest

from benchmarks import job_controller
from benchmarks.harness import Write
from benchmarks.job_controller import CASES, row
from benchmarks.jobs import Case, Side, counted, described, shares

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def wrote(verb: str, resource: str, *, subresource: str = "", code: int = 200) -> Write:
    return Write("ours", verb, resource, subresource, "bench", "x", code, NOW)


def test_cases_are_jobs_times_pods() -> None:
    assert [Case.parse(text) for text in CASES.split(",")] == [Case(1000, 1), Case(50, 20), Case(1, 1000)]
    assert (str(Case(50, 20)), Case(50, 20).total) == ("50x20", 1000)


@pytest.mark.parametrize("text", ["", "5", "5x", "x5", "0x5", "-1x2", "axb"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not <Jobs>x<pods>"):
        Case.parse(text)


def test_the_row_compares_pods_per_second() -> None:
    made = row(Case(50, 20), ours=Side(pods=2000, seconds=10), raw=Side(pods=2000, seconds=8))
    assert (made.case, made.ours, made.bound, made.ratio, made.target, made.holds) == ("50x20", 200, 250, 0.8, 0.8, True)


def test_writes_are_told_per_pod_and_per_job() -> None:
    found = [wrote("create", "pods"), wrote("create", "pods"), wrote("create", "pods", code=409)]
    found += [wrote("create", "podgroups.scheduling.volcano.sh"), wrote("patch", "jobs.batch.volcano.sh", subresource="status")]
    writes = counted(found)
    assert writes == {"create pods": 2, "create podgroups": 1, "patch jobs/status": 1}
    text = "\n".join(described(Case(1, 2), "ours", done=Side(2, 1.0, writes), rounds=1))
    assert "1.00 writes per pod, 2.00 further writes per Job" in text


@pytest.mark.parametrize("average", [0.0, 0.4, 1.0, 2.5])
def test_the_raw_side_shares_writes_out_over_jobs(average: float) -> None:
    shared = list(itertools.islice(shares(average), 100))
    assert sum(shared) == round(100 * average)
    assert max(shared) - min(shared) <= 1


def test_the_raw_side_writes_what_ours_wrote_under_its_own_names() -> None:
    calls: list[tuple[str, str, Any]] = []

    class Noting:
        async def raw(self, method: str, path: str, *, body: bytes | dict[str, Any], content_type: str = "") -> bytes:
            calls.append((method, path, orjson.loads(body) if isinstance(body, bytes) else body))
            return b""

    owner = {"kind": "Job", "name": "job-0", "uid": "uid-a"}
    sample = {
        "uid": "uid-a",
        "job": "job-0",
        "pods": 2,
        "pod": {"metadata": {"labels": {"job": "job-0", "template": "job-0-work"}, "ownerReferences": [owner]}},
        "group": {"metadata": {"annotations": {"of": "job-0-uid-a"}}},
        "status": {"pending": 2},
    }
    counts = {"groups": 1, "statuses": 1, "events": 1}
    job = {"name": "job-7", "uid": "uid-b"}

    async def all_of() -> None:
        for call in job_controller._writes(Noting(), job, sample=sample, counts=counts):  # type: ignore[arg-type]
            await call()

    asyncio.run(all_of())
    group, first, second, status, event = calls
    assert group[2]["metadata"] == {"annotations": {"of": "job-7-uid-b"}, "name": "job-7-uid-b"}
    assert [each[2]["metadata"]["name"] for each in (first, second)] == ["job-7-work-0", "job-7-work-1"]
    assert first[2]["metadata"]["labels"] == {"job": "job-7", "template": "job-7-work"}
    assert first[2]["metadata"]["ownerReferences"] == [{"kind": "Job", "name": "job-7", "uid": "uid-b"}]
    assert status[1].endswith("/namespaces/bench/jobs/job-7/status")
    assert event[2]["involvedObject"]["uid"] == "uid-b"
