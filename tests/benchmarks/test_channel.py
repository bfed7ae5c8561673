"""The benchmark of the channel: its hub is a process of its own, and those who follow it are really served."""

from __future__ import annotations

from benchmarks.channel import measure


async def test_a_small_run_measures_followers_and_reads_a_long_log_to_its_end() -> None:
    [row] = await measure(followers=3, seconds=0.2, mebibytes=1)
    assert (row.benchmark, row.case, row.unit) == ("channel", "3 quiet logs -f", "% of a core")
    assert row.bound == 10
