"""The benchmark of fedctl runs, at a small size."""

from __future__ import annotations

from benchmarks import fedctl


def test_help_a_job_and_a_list_are_measured() -> None:
    rows = fedctl.measure(jobs=3, rounds=1)
    assert [row.case for row in rows] == ["help", "get one Job", "list 3 Jobs"]
    assert all(row.ours > 0 and row.unit == "ms" for row in rows)
