"""How answers of several plugins become one, and own plugins from a package."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from apis.vectors import ResourceVector
from member_agent.room import Amounts, Columns, Layout, Mask, Room, Scores, Shortage, Spot
from member_agent.scheduling.configuration import parse
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import GATES, Allowance, Ballot, Nothing, Order, Plugin, Session, Victim, Vote
from member_agent.scheduling.plugins.registry import GROUP, Registry, installed
from member_agent.scheduling.plugins.tiers import Tiers
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape
from tests.member_agent.test_room import inventory, node, pod, shape, waiting

NO_SESSION = cast(Session, None)
NO = Reason("No", "because")
EXAMPLE = Path(__file__).parents[3] / "examples" / "scheduler-plugin"


def gang(name: str = "g", *, priority: int = 0) -> Waiting:
    return waiting(name, [pod("p", shape(1))], minimum=1, priority=priority)


class Says(Plugin):
    """Answers everything with what it was given."""

    def __init__(self, *, hooks: frozenset[Hook] = frozenset(Hook), **said: Any) -> None:
        super().__init__(Nothing(), session=NO_SESSION, hooks=hooks)
        self._said = said


class Orders(Says):
    def job_order(self, gang: Waiting) -> Order:
        found: Order = self._said["jobs"].get(gang.key[1], 0)
        return found

    def queue_order(self, queue: str) -> Order:
        found: Order = self._said["queues"].get(queue, 0)
        return found

    def task_order(self, pod: PodView) -> Order:
        return -pod.priority


class Votes(Says):
    def job_enqueueable(self, gang: Waiting) -> Ballot:
        return cast(Ballot, self._said["vote"])

    def job_pipelined(self, gang: Waiting, *, placed: Mapping[str, int]) -> Ballot:
        return cast(Ballot, self._said["vote"])


class Judges(Says):
    def job_ready(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        return bool(self._said["yes"])

    def job_starving(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        return bool(self._said["yes"])

    def overused(self, queue: str) -> Reason | None:
        return None if self._said["yes"] else NO

    def allocatable(self, queue: str, *, request: ResourceVector, pods: int) -> Allowance:
        return Allowance(pods) if self._said["yes"] else Allowance(2, NO)


class Names(Says):
    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim] | None:
        names = self._said["names"]
        return None if names is None else [victim for victim in victims if victim.pod.name in names]


class Nodes(Says):
    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        return np.array([name in self._said["on"] for name in layout.names])

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        return np.full(len(columns.rows), self._said.get("most", 100), dtype=np.int64)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        return np.array([float(self._said["on"].index(columns.layout.names[row])) for row in columns.rows])


def test_the_first_plugin_that_tells_two_apart_orders_them_and_age_and_uid_settle_the_rest() -> None:
    first = Orders(jobs={"a": 1, "b": 1}, queues={})
    second = Orders(jobs={"a": 2, "b": 1, "c": 9}, queues={})
    tiers = Tiers([[first], [second]])
    older = dataclasses.replace(gang("d"), group=dataclasses.replace(gang("d").group, created="0"))
    ordered = sorted([gang("a"), gang("b"), gang("c"), gang("f"), gang("e"), older], key=tiers.job_order)
    assert [each.key[1] for each in ordered] == ["d", "e", "f", "c", "b", "a"]


def test_queues_are_ordered_and_ties_go_by_name() -> None:
    tiers = Tiers([[Orders(jobs={}, queues={"x": 2, "y": 1})]])
    assert sorted(["z", "x", "y", "w"], key=tiers.queue_order) == ["w", "z", "y", "x"]


def test_pods_go_by_priority_then_index() -> None:
    pods = [dataclasses.replace(pod(f"p-{index}", shape(1)), index=index, priority=index // 11) for index in range(12)]
    tiers = Tiers([[Orders(jobs={}, queues={})]])
    assert [each.index for each in sorted(reversed(pods), key=tiers.task_order)] == [11, *range(11)]


@pytest.mark.parametrize(
    ("ballots", "expected"),
    [
        ([[Vote.ABSTAIN], [Vote.ABSTAIN]], None),
        ([[Vote.PERMIT], [NO]], None),
        ([[Vote.PERMIT, NO], [Vote.PERMIT]], NO),
        ([[Vote.ABSTAIN], [NO, Vote.PERMIT]], NO),
        ([[NO]], NO),
        ([], None),
    ],
)
def test_votes_tier_by_tier(ballots: list[list[Ballot]], expected: Reason | None) -> None:
    tiers = Tiers([[Votes(vote=each) for each in tier] for tier in ballots])
    assert tiers.job_enqueueable(gang()) == expected
    assert tiers.job_pipelined(gang(), placed={}) == expected


def test_ready_overused_and_allocatable_need_everybody_and_starving_the_first_tier() -> None:
    yes, no = Judges(yes=True), Judges(yes=False)
    assert Tiers([[yes], [yes]]).job_ready(gang(), placed={})
    assert not Tiers([[yes], [no]]).job_ready(gang(), placed={})
    assert Tiers([[yes], [no]]).overused("q") == NO
    assert Tiers([[yes]]).overused("q") is None
    assert Tiers([[yes], [no]]).allocatable("q", request=ResourceVector(), pods=5) == Allowance(2, NO)
    assert Tiers([[yes], [no]]).job_starving(gang(), placed={})
    assert not Tiers([[yes, no]]).job_starving(gang(), placed={})
    assert not Tiers([]).job_starving(gang(), placed={})
    assert Tiers([]).job_ready(gang(), placed={})


def test_a_flag_switches_an_answer_off() -> None:
    off = Judges(yes=False, hooks=frozenset(Hook) - {Hook.JOB_READY, Hook.OVERUSED})
    assert Tiers([[off]]).job_ready(gang(), placed={})
    assert Tiers([[off]]).overused("q") is None
    assert Tiers([[off]]).allocatable("q", request=ResourceVector(), pods=5).pods == 2


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([[["a", "b"], ["b", "c"]], [["a"]]], ["b"]),
        ([[["a"], ["b"]], [["a"]]], []),
        ([[None, ["a", "c"]]], ["a", "c"]),
        ([[None], [["c"]]], ["c"]),
        ([[[]], [["a"]]], []),
        ([], []),
    ],
)
def test_victims_are_those_on_which_a_tier_agrees(named: list[list[list[str] | None]], expected: list[str]) -> None:
    victims = [Victim(pod(name, shape(1)), 0, ("ns", "g"), "q", 0) for name in "abc"]
    tiers = Tiers([[Names(names=each) for each in tier] for tier in named])
    assert [victim.pod.name for victim in tiers.preemptable(gang(), victims=victims)] == expected
    assert tiers.reclaimable(gang(), victims=victims) == []


def test_masks_meet_limits_are_the_least_and_scores_add() -> None:
    found = inventory([node(name, cpu=8) for name in "abcd"])
    tiers = Tiers([[Nodes(on=["a", "b", "c"], most=3)], [Nodes(on=["c", "b", "a"], most=2)]])
    room = found.room.copy(rules=tiers)
    assert room.capacity(shape(1)).tolist() == [2, 2, 2, 0]
    columns = Columns(room.layout, np.arange(3), room.free[:3], room.allocatable[:3])
    assert tiers.node_order(columns, shape(1)).tolist() == [2.0, 2.0, 2.0]


def test_every_question_has_its_gate_and_is_declared() -> None:
    assert all(hasattr(Plugin, question) for question in GATES)


# --- packages --------------------------------------------------------------------------------------------------------


def entries() -> list[importlib.metadata.EntryPoint]:
    """What the example's package declares."""
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    return [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in declared.items()]


def test_the_example_plugin_is_found_configured_and_changes_where_pods_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    own = installed(entries())
    registry = Registry(built_in=[], actions={"allocate": lambda session: None}, own=own)
    prices = {"a": "4", "b": "3", "c": "1", "d": "cheap"}
    label = "example.com/price-per-hour"
    priced = [dataclasses.replace(node(name, cpu=2), labels={label: price}) for name, price in prices.items()]
    found = inventory(priced)

    def room(arguments: str) -> Room:
        text = f"actions: allocate\ntiers: [plugins: [{{name: cheap-nodes, arguments: {arguments}}}]]"
        tiers = registry.open(parse(text, known=registry.known), session=NO_SESSION)
        return found.room.copy(rules=tiers)

    def placed(arguments: str, *, count: int) -> list[str] | str:
        spots = room(arguments).place([(shape(1), count)])
        if isinstance(spots, Shortage):
            return spots.sentence
        return [room(arguments).layout.names[spot.row] for spot in spots]

    assert placed("{}", count=5) == ["d", "c", "b"]
    assert placed("{most: 2}", count=4) == ["d", "c"]
    assert "room for 4 of 5 pods" in str(placed("{most: 2}", count=5))


def test_an_entry_point_that_is_no_plugin_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="text of .* is no scheduler plugin"):
        installed([importlib.metadata.EntryPoint("text", f"{__name__}:EXAMPLE", GROUP)])
    with pytest.raises(TypeError, match="names its plugin"):
        Orders.name = "orders"
        installed([importlib.metadata.EntryPoint("other", f"{__name__}:Orders", GROUP)])


class Keeps(Says):
    """Keeps books of its own: pods by row."""

    def took(self, spot: Spot) -> None:
        self._said["book"][spot.row] = self._said["book"].get(spot.row, 0) + spot.count

    def gave_back(self, spot: Spot) -> None:
        self._said["book"][spot.row] -= spot.count


def test_who_keeps_books_hears_of_every_spot_before_the_next_question() -> None:
    book: dict[int, int] = {}
    tiers = Tiers([[Keeps(book=book)]])
    found = inventory([node("n", cpu=4)])
    room = found.room.copy(rules=tiers)
    room.told = tiers.told
    assert tiers.keeps_books
    assert isinstance(room.place([(shape(1), 2), (shape(3), 1)]), Shortage)
    assert book == {0: 0}
    room.place([(shape(1), 2), (shape(2), 1)])
    assert book == {0: 3}
