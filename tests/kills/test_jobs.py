"""The agent is killed before and after every write of representative lives of Jobs, and writes land late; the end is the same.

A clean run says which writes there are. Each strike is one run; it must come to the outcome of the clean one: phase, retries,
evictions, counters, pods and objects that are left, and no container started that the clean run did not start.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from simulator.faults import Action, Kill, Late, Moment, Write
from tests.kills.lives import TALES, Outcome, Strike, Tale, live

pytestmark = pytest.mark.timeout(300)  # each test is some thirty runs
LATE = 15.0
"""Seconds: longer than a request is waited for."""
LATE_TALES = ("restarted", "aborted", "scaled", "with_plugins")
"""Lives in which a write that lands late could do the most."""


def named(tale: Tale) -> str:
    """The name of a case."""
    return tale.__name__


@functools.cache
def clean(tale: Tale) -> tuple[Outcome, tuple[Write, ...]]:
    """The life without accidents."""
    outcome, writes = live(tale)
    return outcome, tuple(writes)


def judge(tale: Tale, write: Write, *, moment: Moment, action: Action) -> None:
    """One run with one strike against the clean one."""
    wanted, _ = clean(tale)
    found, _ = live(tale, strike=Strike(write.number, moment, action))
    more = Counter(found.starts) - Counter(wanted.starts)
    assert not more, f"{type(action).__name__} {moment} {write}: started {dict(more)} beyond {wanted.starts}"
    compared = [name for name in Outcome.__dataclass_fields__ if name != "starts"]
    same = {name: (getattr(found, name), getattr(wanted, name)) for name in compared}
    wrong = {name: pair for name, pair in same.items() if pair[0] != pair[1]}
    assert not wrong, f"{type(action).__name__} {moment} {write}: (found, wanted) {wrong}"


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("tale", TALES, ids=named)
def test_a_kill_at_any_write_of_a_life_changes_nothing_in_its_end(tale: Tale, moment: Moment) -> None:
    for write in clean(tale)[1]:
        judge(tale, write, moment=moment, action=Kill())


@pytest.mark.parametrize("tale", [tale for tale in TALES if tale.__name__ in LATE_TALES], ids=named)
def test_a_write_that_lands_late_changes_nothing_in_the_end(tale: Tale) -> None:
    for write in clean(tale)[1]:
        judge(tale, write, moment=Moment.BEFORE, action=Late(LATE))


def test_the_lives_meet_every_write_that_a_job_needs() -> None:
    met = {(write.verb, write.kind.split(".")[0], write.subresource) for tale in TALES for write in clean(tale)[1]}
    assert {
        ("create", "podgroups", ""),
        ("create", "pods", ""),
        ("bind", "pods", "binding"),
        ("delete", "pods", ""),
        ("delete", "podgroups", ""),
        ("patch", "podgroups", ""),
        ("patch", "jobs", "status"),
        ("delete", "commands", ""),
        ("create", "persistentvolumeclaims", ""),
        ("create", "services", ""),
        ("create", "configmaps", ""),
        ("create", "networkpolicies", ""),
        ("create", "secrets", ""),
        ("delete", "jobs", ""),
    } <= met


@pytest.mark.parametrize(
    ("name", "phase", "retries", "evictions", "starts"),
    [
        ("plain", "Completed", 0, 0, 2),
        ("restarted", "Failed", 2, 0, 2),
        ("task_restarted", "Failed", 2, 0, 3),
        ("aborted", "Completed", 0, 0, 2),
        ("suspended", "Completed", 0, 0, 2),
        ("scaled", "Completed", 0, 0, 3),
        ("enough", "Completed", 0, 0, 2),
        ("short_lived", "", 0, 0, 1),
    ],
)
def test_the_clean_lives_end_as_told(name: str, phase: str, retries: int, evictions: int, starts: int) -> None:
    outcome = clean(next(tale for tale in TALES if tale.__name__ == name))[0]
    found = (outcome.phase, outcome.retries, outcome.evictions, sum(outcome.starts.values()))
    assert found == (phase, retries, evictions, starts)
