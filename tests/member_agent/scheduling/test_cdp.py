"""cdp: pods are left to run for their cool-down after their start."""

from __future__ import annotations

import json
import math

import pytest

from member_agent.views import Projector
from member_agent.views.pods import PLAIN, Manner
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, nodes
from tests.member_agent.scheduling.rounds import of, victims

ACTIONS = "enqueue, allocate, backfill, preempt"
BY = configuration("priority", "cdp", "predicates", actions=ACTIONS)


def young(*, since: float = 1000.0) -> Made:
    return of(gang("young", on=["n0"], priority=1, phase="Running"), manner=Manner(cooldown=60.0), since=since)


@pytest.mark.parametrize(("now", "gone"), [(1010.0, []), (1059.0, []), (1060.0, ["young-0"])])
def test_nobody_is_evicted_before_its_cool_down_is_over(now: float, gone: list[str]) -> None:
    found = decide(nodes(1), young(), gang("high", priority=9), by=BY, now=now)
    assert victims(found) == gone
    assert found.wakes == (math.inf if gone else 1060.0), "time alone changes the answer"


def test_without_the_plugin_or_before_its_start_a_pod_may_go() -> None:
    off = configuration("priority", "predicates", actions=ACTIONS)
    assert victims(decide(nodes(1), young(), gang("high", priority=9), by=off, now=1010.0)) == ["young-0"]
    waiting = young(since=0.0)
    assert victims(decide(nodes(1), waiting, gang("high", priority=9), by=BY, now=1010.0)) == ["young-0"]


@pytest.mark.parametrize(
    ("where", "text", "manner", "since"),
    [
        ("annotations", "90s", Manner(cooldown=90.0), 1767225600.0),
        ("labels", "1h30m", Manner(cooldown=5400.0), 1767225600.0),
        ("annotations", "soon", PLAIN, 0.0),
    ],
)
def test_the_cool_down_stands_on_the_pod(where: str, text: str, manner: Manner, since: float) -> None:
    document = {
        "metadata": {"name": "p", "namespace": "ns", where: {"volcano.sh/cooldown-time": text}},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }
    read = Projector().pod(json.dumps(document).encode())
    assert (read.manner, read.since) == (manner, since)


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_pod_says_that_nobody_may_evict_it_and_how_long_it_takes_to_end(where: str) -> None:
    document = {
        "metadata": {"name": "p", "namespace": "ns", where: {"volcano.sh/preemptable": "false"}},
        "spec": {"terminationGracePeriodSeconds": 5},
        "status": {"nominatedNodeName": "n7"},
    }
    read = Projector().pod(json.dumps(document).encode())
    assert read.manner == Manner(preemptable=False, grace=5)
    assert read.nominated == "n7"
