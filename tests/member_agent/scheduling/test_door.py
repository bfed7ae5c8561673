"""Who is let in: nothing that passes a group which waits at the door delays it, and tenants are let in in turn."""

from __future__ import annotations

import dataclasses
from typing import Any

from member_agent.scheduling.decisions import Plan
from tests.member_agent.scheduling.build import (
    Made,
    admitted,
    code,
    configuration,
    decide,
    gang,
    nodes,
    queue,
    vector,
    why,
    without,
)
from tests.member_agent.test_room import node

LATER = "2026-01-02T00:00:00Z"


def pending(name: str, *, asks: int = 1, members: int = 1, **more: Any) -> Made:
    return gang(name, pods=0, minimum=members, asks=asks, phase="Pending", **more)


def busy(pods: int) -> Made:
    return gang("busy", pods=pods, on=["n0"] * pods)


def late(count: int, **more: Any) -> list[Made]:
    return [pending(f"z{index}", created=LATER, **more) for index in range(count)]


def test_small_groups_do_not_pass_a_large_one_that_waits_for_room() -> None:
    waits = [busy(4), pending("large", asks=8), *late(3)]
    found = decide(nodes(8), *waits)
    assert admitted(found) == []
    assert code(found, "large") == "NotEnoughResources"
    assert (code(found, "z0"), "what large needs is kept for it" in why(found, "z0")) == ("RoomKept", True)
    assert admitted(decide(nodes(8), *waits, by=without("backfill"))) == ["z0", "z1", "z2"]


def test_they_are_let_in_beside_it() -> None:
    def asking(made: Made, **amounts: int) -> Made:
        return dataclasses.replace(made, group=dataclasses.replace(made.group, min_resources=vector(**amounts)))

    machine = node("n0", cpu=8)
    machine = dataclasses.replace(machine, allocatable=machine.allocatable + vector(gpu=8))
    early, large = asking(gang("early", pods=0, minimum=1), gpu=4), asking(pending("large"), gpu=8)
    others = [*late(2), asking(pending("zz", created=LATER), gpu=1)]
    found = decide([machine], early, large, *others)
    assert admitted(found) == ["z0", "z1"]
    assert (code(found, "large"), code(found, "zz")) == ("NotEnoughResources", "RoomKept")


def test_nothing_is_kept_for_a_group_that_the_empty_cluster_could_not_hold() -> None:
    assert admitted(decide(nodes(8), busy(4), pending("huge", asks=9), *late(3))) == ["z0", "z1", "z2"]


def test_what_a_queue_keeps_for_its_first_group_is_its_own_affair() -> None:
    queues = [queue("q", capability=4), queue("r")]
    waits = [gang("r", pods=2, queue="q", on=["n0", "n0"]), pending("large", asks=3, queue="q")]
    found = decide(nodes(99), *waits, *late(2, queue="q"), pending("other", queue="r"), queues=queues)
    assert admitted(found) == ["other"]
    assert code(found, "z0") == "RoomKept"
    impossible = [waits[0], pending("large", asks=5, queue="q")]
    assert admitted(decide(nodes(99), *impossible, *late(2, queue="q"), queues=queues)) == ["z0", "z1"]


def test_nobody_is_let_in_beyond_what_there_is_while_pods_of_a_gang_are_being_made() -> None:
    early = gang("early", pods=0, minimum=6)
    keeping = configuration("overcommit", actions="enqueue, backfill")
    found = decide(nodes(8), early, *late(4), by=keeping)
    assert admitted(found) == ["z0", "z1"]
    assert why(found, "z2") == "the gang asks for cpu 1, of which cpu 1 is kept for early, whose pods are being made"
    made = gang("early", pods=6, on=["n0"] * 6)
    assert admitted(decide(nodes(8), made, *late(4), by=keeping)) == ["z0", "z1", "z2"]
    by = configuration("overcommit", actions="enqueue")
    assert admitted(decide(nodes(8), early, *late(4), by=by)) == ["z0", "z1", "z2"]
    assert admitted(decide(nodes(8), pending("large", asks=7, members=7), *late(4), by=keeping)) == ["large", "z0"]


def test_queues_are_let_in_by_weight_before_anybody_holds_anything() -> None:
    queues = [queue("a"), queue("b", weight=2)]
    waits = [pending(f"{name}{index}", queue=name) for name in "ab" for index in range(9)]

    def by_queue(found: Plan) -> dict[str, int]:
        return {name: sum(each[0] == name for each in admitted(found)) for name in "ab"}

    assert by_queue(decide(nodes(5), *waits, queues=queues)) == {"a": 2, "b": 4}
    deserving = [queue("a", deserved=2), queue("b", deserved=4)]
    by = configuration("gang", "overcommit", "capacity")
    assert by_queue(decide(nodes(5), *waits, queues=deserving, by=by)) == {"a": 2, "b": 4}


def test_what_was_promised_before_counts_when_the_next_ones_are_let_in() -> None:
    queues = [queue("a"), queue("b")]
    waits = [pending(f"{name}{index}", queue=name) for name in "ab" for index in range(9)]
    promised = gang("early", pods=0, minimum=1, asks=2, queue="a")
    assert vector(cpu=2) == promised.group.min_resources
    assert [each[0] for each in admitted(decide(nodes(5), promised, *waits, queues=queues))] == ["b", "b", "a", "b"]
