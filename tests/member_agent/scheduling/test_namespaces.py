"""Namespaces share a queue: one tenant's flood does not delay another's first gang."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import EMPTY, ResourceVector
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.namespaces import WEIGHT
from member_agent.scheduling.planner import plan
from member_agent.views import QueueView
from member_agent.views.quotas import QuotaView
from policies.shapes import PodShape
from tests.member_agent.scheduling.build import USUAL, Made, configuration, frozen, gang, nodes, queue, started, vector, without

APART = configuration("gang", "predicates", "{name: drf, enableNamespaceOrder: false}", "proportion")


def of(namespace: str, made: Made) -> Made:
    group = dataclasses.replace(made.group, namespace=namespace)
    pods = tuple(dataclasses.replace(pod, namespace=namespace, uid=f"{namespace}-{pod.uid}") for pod in made.pods)
    return Made(group, pods, made.priority)


def flood(namespace: str, count: int, *, on: str = "", day: int = 1, **more: Any) -> list[Made]:
    created = f"2026-01-{day:02}T00:00:00Z"
    made = [gang(f"{namespace}{index}", created=created, on=[on] if on else [], **more) for index in range(count)]
    return [of(namespace, each) for each in made]


def decide(
    cpu: int,
    gangs: list[Made],
    *,
    by: Configuration = USUAL,
    weights: dict[str, int] | None = None,
    line: QueueView | None = None,
) -> Plan:
    quotas = {
        name: [QuotaView(name, "weights", "u", "1", ResourceVector({WEIGHT: 1000 * weight}), EMPTY)]
        for name, weight in (weights or {}).items()
    }
    snapshot = frozen(nodes(cpu), gangs, queues=[line or queue("default")])
    return plan(dataclasses.replace(snapshot, quotas=quotas), configuration=by)


def by_namespace(found: Plan) -> dict[str, int]:
    return dict(Counter(each.pod.namespace for each in found.bindings))


def test_namespaces_take_turns_whoever_came_first() -> None:
    gangs = flood("a", 9) + flood("b", 9, day=2)
    assert by_namespace(decide(6, gangs)) == {"a": 3, "b": 3}
    assert by_namespace(decide(6, gangs, by=APART)) == {"a": 6}
    assert by_namespace(decide(6, gangs, by=without("drf"))) == {"a": 6}


def test_what_a_namespace_holds_already_counts() -> None:
    running, more = flood("a", 3, on="n0"), [of("a", gang(f"more{index}")) for index in range(9)]
    assert by_namespace(decide(8, running + more + flood("b", 9, day=2))) == {"a": 1, "b": 4}


def test_namespaces_share_by_the_weights_that_their_quotas_name() -> None:
    gangs = flood("a", 9) + flood("b", 9)
    assert by_namespace(decide(6, gangs, weights={"a": 2})) == {"a": 4, "b": 2}
    assert by_namespace(decide(6, gangs, weights={"a": 0})) == {"a": 3, "b": 3}


def test_a_flood_of_groups_does_not_keep_another_tenants_first_one_from_being_let_in() -> None:
    gangs = flood("a", 30, phase="Pending") + flood("b", 1, phase="Pending", day=2)
    assert ("b", "b0") in decide(10, gangs).admitted
    assert ("b", "b0") not in decide(10, gangs, by=without("drf")).admitted


def test_a_queue_that_is_first_in_first_out_is_one_line() -> None:
    gangs = flood("a", 9, queue="line") + flood("b", 9, day=2, queue="line")
    assert by_namespace(decide(6, gangs, line=queue("line", fifo=True))) == {"a": 6}
    assert by_namespace(decide(6, gangs, line=queue("line"))) == {"a": 3, "b": 3}


def test_in_such_a_line_pods_that_ask_for_nothing_wait_like_all_others() -> None:
    free = gang("free", pods=2, shape=PodShape(vector(pods=1)), asks=0, queue="line", created="2026-01-02T00:00:00Z")
    large = gang("large", pods=9, cpu=4, queue="line")
    assert started(decide(8, [large, free], line=queue("line", fifo=True))) == {}
    assert started(decide(8, [large, free], line=queue("line"))) == {"free": 2}


def test_in_such_a_line_a_gang_that_has_its_minimum_has_had_its_turn() -> None:
    """Whether it runs since long or starts now: pods beyond its minimum that find no room hold nobody up."""
    small = gang("small", queue="line", created="2026-01-02T00:00:00Z")
    for on in (["n0", "n0"], []):
        elastic = gang("elastic", pods=3, minimum=2, cpu=4, on=on, queue="line", phase="Running" if on else "Inqueue")
        assert started(decide(9, [elastic, small], line=queue("line", fifo=True)))["small"] == 1


def test_in_such_a_line_nobody_is_let_in_before_the_first() -> None:
    big = gang("big", asks=99, pods=0, minimum=1, phase="Pending", queue="line")
    small = gang("small", pods=0, minimum=1, phase="Pending", queue="line", created="2026-01-02T00:00:00Z")
    assert decide(8, [big, small], line=queue("line", fifo=True)).admitted == ()
    assert decide(8, [big, small], line=queue("line")).admitted == (("ns", "small"),)


@given(some.lists(some.tuples(some.sampled_from("abc"), some.integers(1, 5)), max_size=20))
@settings(deadline=None, max_examples=60)
def test_the_namespace_with_the_least_is_always_next_and_each_ones_gangs_stay_in_order(entries: list[tuple[str, int]]) -> None:
    held = Counter[str]()
    lanes = Lanes(lambda name: (held[name], name))
    for number, (name, size) in enumerate(entries):
        lanes.push((number, name, size), namespace=name)
    left = {name: [entry for entry in enumerate(entries) if entry[1][0] == name] for name in "abc"}
    while lanes:
        number, name, size = lanes.pop()
        assert (held[name], name) == min((held[other], other) for other, listed in left.items() if listed)
        assert left[name].pop(0)[0] == number
        held[name] += size
    assert not any(left.values())
