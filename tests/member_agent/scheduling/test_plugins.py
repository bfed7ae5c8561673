"""Every plugin, its arguments and its flags: a story in which turning it off changes the plan."""

from __future__ import annotations

import dataclasses
import math

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.scheduling.configuration import BadConfiguration
from member_agent.scheduling.plugins.conformance import Conformance
from member_agent.scheduling.plugins.protocol import Nothing, Victim
from member_agent.views import project_queue
from member_agent.views.hints import TASK_PRIORITY
from policies.shapes import PodShape, Taint
from tests.member_agent.scheduling.build import (
    Made,
    admitted,
    code,
    configuration,
    decide,
    frozen,
    gang,
    nodes,
    places,
    queue,
    started,
    vector,
    why,
    without,
)
from tests.member_agent.test_room import node, shape

# --- gang ------------------------------------------------------------------------------------------------------------


def test_gang_places_the_minimum_or_nothing() -> None:
    found = gang("g", pods=4, cpu=2)
    assert started(decide(nodes(6), found, by=configuration("gang", "predicates"))) == {}
    assert started(decide(nodes(6), found, by=configuration("predicates"))) == {"g": 3}
    unready = configuration("{name: gang, enableJobReady: false}", "predicates")
    assert started(decide(nodes(6), found, by=unready)) == {"g": 3}


def test_gang_knows_minima_of_tasks() -> None:
    made = gang("g", pods=4, minimum=3)
    pods = [dataclasses.replace(pod, task="ps" if index < 1 else "work") for index, pod in enumerate(made.pods)]
    short = Made(dataclasses.replace(made.group, min_task_member=(("ps", 2), ("work", 1))), tuple(pods), 0)
    found = decide(nodes(9), short)
    assert (code(found, "g"), why(found, "g")) == ("NotEnoughPodsOfTask", "1 of 2 pods of task ps exist")
    enough = Made(dataclasses.replace(made.group, min_task_member=(("ps", 1), ("work", 1))), tuple(pods), 0)
    assert started(decide(nodes(9), enough)) == {"g": 4}


def test_gang_puts_gangs_that_are_not_whole_first() -> None:
    whole = gang("a", pods=4, minimum=1, on=["n0"])
    waiting = gang("b", pods=3, created="2026-01-02T00:00:00Z")
    assert started(decide(nodes(4), whole, waiting, by=configuration("gang", "predicates"))) == {"b": 3}
    unordered = configuration("{name: gang, enableJobOrder: false}", "predicates", actions="enqueue, allocate")
    assert started(decide(nodes(4), whole, waiting, by=unordered)) == {"a": 3}


# --- priority --------------------------------------------------------------------------------------------------------


def test_priority_serves_the_more_important_first() -> None:
    low, high = gang("a", pods=3), gang("b", pods=3, priority=5)
    assert started(decide(nodes(4), low, high)) == {"b": 3}
    assert started(decide(nodes(4), low, high, by=without("priority"))) == {"a": 3}


def test_priority_serves_the_more_important_pods_of_a_gang_first() -> None:
    made = gang("g", pods=3, minimum=1)
    pods = tuple(dataclasses.replace(pod, priority=index) for index, pod in enumerate(made.pods))
    found = decide(nodes(1), Made(made.group, pods, 0))
    assert [binding.pod.index for binding in found.bindings] == [2]
    found = decide(nodes(1), Made(made.group, pods, 0), by=without("priority"))
    assert [binding.pod.index for binding in found.bindings] == [0]


def test_priority_serves_the_more_important_tasks_of_equal_pods_first() -> None:
    made = gang("g", pods=3, minimum=1)
    pods = tuple(dataclasses.replace(pod, hints=((TASK_PRIORITY, text),)) for pod, text in zip(made.pods, "17x", strict=True))
    assert [binding.pod.index for binding in decide(nodes(1), Made(made.group, pods, 0)).bindings] == [1]
    assert [binding.pod.index for binding in decide(nodes(1), Made(made.group, pods, 0), by=without("priority")).bindings] == [
        0
    ]
    off = configuration("{name: priority, enableTaskOrder: false}", "predicates")
    assert [binding.pod.index for binding in decide(nodes(1), Made(made.group, pods, 0), by=off).bindings] == [0]


# --- drf -------------------------------------------------------------------------------------------------------------


def test_drf_serves_the_gang_that_holds_less_of_what_it_uses_most() -> None:
    rich = gang("a", pods=5, minimum=1, on=["n0", "n0"])
    poor = gang("b", pods=5, minimum=1, on=["n0"], created="2026-01-02T00:00:00Z")
    assert started(decide(nodes(4), rich, poor, by=configuration("drf", "predicates"))) == {"b": 1}
    assert started(decide(nodes(4), rich, poor, by=configuration("predicates"))) == {"a": 1}


def test_drf_with_hierarchy_serves_the_group_of_queues_that_holds_less() -> None:
    queues = [
        queue("dev", hierarchy="root/eng/dev", hierarchy_weights="1/1/1"),
        queue("prod", hierarchy="root/eng/prod", hierarchy_weights="1/1/1"),
        queue("sci", hierarchy="root/sci", hierarchy_weights="1/1"),
    ]
    gangs = [
        gang("r1", pods=2, queue="dev", on=["n0", "n0"]),
        gang("r2", pods=1, queue="sci", on=["n0"]),
        gang("w1", pods=1, queue="prod"),
        gang("w2", pods=1, queue="sci"),
    ]
    deep = configuration("{name: drf, enableHierarchy: true}", "predicates")
    assert started(decide(nodes(4), *gangs, queues=queues, by=deep)) == {"w2": 1}
    assert started(decide(nodes(4), *gangs, queues=queues, by=configuration("drf", "predicates"))) == {"w1": 1}


# --- proportion ------------------------------------------------------------------------------------------------------


def test_proportion_shares_by_weight_and_turns_to_the_queue_that_is_further_behind() -> None:
    queues = [queue("a"), queue("b", weight=2)]
    gangs = [gang(f"{name}{index}", queue=name) for name in "ab" for index in range(9)]
    found = decide(nodes(9), *gangs, queues=queues)
    by_queue = {name: sum(gang[0] == name for gang in started(found)) for name in "ab"}
    assert by_queue == {"a": 3, "b": 6}
    alone = decide(nodes(9), *gangs, queues=queues, by=without("proportion"))
    assert sum(gang[0] == "a" for gang in started(alone)) == 9


def test_proportion_says_which_queue_is_at_its_share() -> None:
    queues = [queue("a"), queue("b")]
    gangs = [gang("r", pods=4, queue="a", on=["n0"] * 4), gang("w", queue="a"), gang("other", pods=6, queue="b")]
    found = decide(nodes(8), *gangs, queues=queues)
    assert why(found, "w") == "queue a is at cpu 4 of 4 of its share: cpu 1 asked for"
    idle = [gang("r", pods=4, queue="a", on=["n0"] * 4), gang("e", pods=2, queue="a", shape=PodShape(vector(pods=1)), asks=0)]
    by = configuration("gang", "{name: predicates}", "{name: proportion}", actions="allocate, backfill")
    assert started(decide(nodes(8), *idle, queues=queues, by=by)) == {"e": 2}


def test_proportion_keeps_guarantees_and_ceilings() -> None:
    queues = [queue("idle", guarantee=3), queue("busy", capability=5)]
    gangs = [gang(f"g{index}", queue="busy") for index in range(9)]
    assert len(started(decide(nodes(6), *gangs, queues=queues))) == 3
    assert len(started(decide(nodes(9), *gangs, queues=queues))) == 5
    pending = [gang(f"p{index}", queue="busy", phase="Pending", pods=0, minimum=1) for index in range(9)]
    assert len(admitted(decide(nodes(6), *pending, queues=queues))) == 3


def test_flags_of_proportion() -> None:
    queues = [queue("a"), queue("b")]
    gangs = [gang("r", pods=4, queue="a", on=["n0"] * 4), gang("w", queue="a"), gang("x", pods=9, queue="b", minimum=9)]
    free = "{name: proportion, enabledOverused: false, enabledAllocatable: false}"
    assert started(decide(nodes(8), *gangs, queues=queues, by=configuration("gang", "predicates", free))) == {"w": 1}
    held = "{name: proportion, enabledOverused: false}"
    found = decide(nodes(8), *gangs, queues=queues, by=configuration("gang", "predicates", held))
    assert why(found, "w") == "queue a is at cpu 4 of 4 of its share: cpu 1 asked for"


# --- capacity --------------------------------------------------------------------------------------------------------

CAPACITY = configuration("gang", "predicates", "capacity")
DEEP = configuration("gang", "predicates", "{name: capacity, enableHierarchy: true}")


def test_capacity_lets_a_queue_borrow_up_to_what_it_may_have() -> None:
    queues = [queue("a", deserved=2, capability=6), queue("b", deserved=6, guarantee=1)]
    gangs = [gang(f"g{index}", queue="a") for index in range(9)]
    assert len(started(decide(nodes(8), *gangs, queues=queues, by=CAPACITY))) == 6
    found = decide(nodes(8), *gangs, queues=queues, by=CAPACITY)
    assert why(found, "g6") == "queue a is at cpu 6 of 6 of what it may have: cpu 1 asked for"
    assert len(started(decide(nodes(6), *gangs, queues=queues, by=CAPACITY))) == 5


def test_capacity_serves_the_queue_furthest_below_what_it_deserves_and_last_who_deserves_nothing() -> None:
    queues = [queue("a"), queue("b", deserved=4), queue("c", deserved=2)]
    gangs = [
        gang("r1", pods=1, queue="b", on=["n0"]),
        gang("r2", pods=1, queue="c", on=["n0"]),
        *(gang(f"w{name}", queue=name) for name in "abc"),
    ]
    assert started(decide(nodes(3), *gangs, queues=queues, by=CAPACITY)) == {"wb": 1}
    assert started(decide(nodes(4), *gangs, queues=queues, by=CAPACITY)) == {"wb": 1, "wc": 1}


def test_capacity_with_hierarchy_holds_limits_on_the_whole_way_up() -> None:
    queues = [
        queue("top", capability=4),
        queue("a", parent="top", deserved=4),
        queue("b", parent="top", guarantee=1, deserved=1),
        queue("other"),
    ]
    gangs = [gang(f"g{index}", queue="a") for index in range(9)]
    assert len(started(decide(nodes(16), *gangs, queues=queues, by=DEEP))) == 3
    flat = decide(nodes(16), *gangs, queues=queues, by=CAPACITY)
    assert len(started(flat)) == 9
    pending = [gang(f"p{index}", queue="a", pods=0, minimum=1, phase="Pending") for index in range(9)]
    assert len(admitted(decide(nodes(16), *pending, queues=queues, by=DEEP))) == 3


def test_capacity_leaves_what_a_sibling_holds_to_it() -> None:
    queues = [queue("top", capability=4), queue("a", parent="top"), queue("b", parent="top")]
    gangs = [gang("r", pods=3, queue="b", on=["n0"] * 3), *(gang(f"g{index}", queue="a") for index in range(3))]
    found = decide(nodes(16), *gangs, queues=queues, by=DEEP)
    assert len(started(found)) == 1
    assert why(found, "g1") == "queue top is at cpu 4 of 4 of what it may have: cpu 1 asked for"


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_queue_that_may_have_nothing_of_a_resource_gets_none_of_it(plugin: str) -> None:
    document = {"metadata": {"name": "q"}, "spec": {"capability": {"gpu": "0", "cpu": 8}}}
    none = project_queue(orjson.dumps(document))
    made = node("n", cpu=8)
    machine = dataclasses.replace(made, allocatable=made.allocatable + vector(gpu=8))
    wants = gang("gpu", queue="q", shape=PodShape(vector(cpu=1, gpu=1, pods=1)))
    found = decide([machine], wants, gang("cpu", queue="q"), queues=[none], by=configuration("gang", "predicates", plugin))
    assert started(found) == {"cpu": 1}
    assert "queue q is at gpu 0 of 0" in why(found, "gpu")


# --- overcommit and sla ----------------------------------------------------------------------------------------------


def test_overcommit_lets_in_a_little_more_than_there_is() -> None:
    pending = [gang(f"p{index}", pods=0, minimum=1, asks=1, phase="Pending") for index in range(30)]

    def let_in(*plugins: str) -> int:
        return len(admitted(decide(nodes(10), *pending, by=configuration(*plugins))))

    assert let_in("overcommit") == 12
    assert let_in("{name: overcommit, arguments: {overcommit-factor: 2}}") == 20
    assert let_in("gang") == 30
    assert let_in("{name: overcommit, enableJobEnqueued: false}") == 30
    with pytest.raises(BadConfiguration, match=r"overcommit-factor: input should be greater than or equal to 1"):
        configuration("{name: overcommit, arguments: {overcommit-factor: 0.5}}")


def test_overcommit_counts_what_runs_and_what_was_promised() -> None:
    running = gang("r", pods=4, on=["n0"] * 4)
    promised = gang("i", pods=0, minimum=1, asks=5)
    pending = [gang(f"p{index}", pods=0, minimum=1, asks=1, phase="Pending") for index in range(9)]
    assert len(admitted(decide(nodes(10), running, promised, *pending, by=configuration("overcommit")))) == 3


SLA = """
tiers:
- plugins:
  - name: gang
  - name: sla
    arguments: {sla-waiting-time: 1h}
- plugins:
  - name: overcommit
  - name: predicates
"""


def test_sla_lets_a_group_in_after_its_time_although_it_is_too_big() -> None:
    big = gang("big", pods=0, minimum=1, asks=99, phase="Pending", created="1970-01-01T01:00:00Z")
    patient = gang("patient", pods=0, minimum=1, asks=99, phase="Pending", created="1970-01-01T01:00:00Z", waiting_time="2h")
    by = configuration(tiers=SLA)
    early = decide(nodes(10), big, patient, by=by, now=7199.0)
    assert admitted(early) == []
    assert early.wakes == 7200.0
    late = decide(nodes(10), big, patient, by=by, now=7200.0)
    assert admitted(late) == ["big"]
    assert late.wakes == 10800.0
    assert math.isinf(decide(nodes(10), big, now=7200.0).wakes)


def test_sla_orders_by_deadline() -> None:
    first = gang("a", pods=2, created="1970-01-01T01:00:00Z")
    urgent = gang("b", pods=2, created="1970-01-01T01:10:00Z", waiting_time="5m")
    assert started(decide(nodes(2), first, urgent, by=configuration(tiers=SLA))) == {"b": 2}
    assert started(decide(nodes(2), first, urgent)) == {"a": 2}


@pytest.mark.parametrize("time", ["soon", "-1h", "0"])
def test_a_waiting_time_that_is_none_counts_as_not_given(time: str) -> None:
    odd = gang("odd", pods=0, minimum=1, asks=99, phase="Pending", created="1970-01-01T00:00:00Z", waiting_time=time)
    assert decide(nodes(1), odd, by=configuration(tiers=SLA), now=10.0).wakes == 3600.0
    with pytest.raises(BadConfiguration, match="sla-waiting-time"):
        configuration(tiers=SLA.replace("1h", time))


# --- predicates ------------------------------------------------------------------------------------------------------


def predicates(*off: str) -> object:
    arguments = ", ".join(f"predicate.{each}Enable: false" for each in off)
    return configuration("gang", f"{{name: predicates, arguments: {{{arguments}}}}}")


def test_predicates_look_at_labels_taints_and_ports() -> None:
    chosen = gang("label", pods=1, shape=shape(1, disk="ssd"))
    machines = nodes(4, 4)
    machines[0] = dataclasses.replace(machines[0], taints=(Taint("keep", "", "NoSchedule"),))
    assert started(decide(machines, chosen)) == {}
    assert started(decide(machines, chosen, by=configuration("gang"))) == {"label": 1}
    assert places(decide(machines, chosen, by=predicates("NodeAffinity"))) == {"n1": 1}  # type: ignore[arg-type]
    plain = gang("plain", pods=8)
    assert started(decide(machines, plain)) == {}
    assert started(decide(machines, plain, by=predicates("TaintToleration"))) == {"plain": 8}  # type: ignore[arg-type]
    port = gang("port", pods=3, shape=PodShape(vector(cpu=1, pods=1), one_per_node=True))
    assert started(decide(nodes(4, 4), port)) == {}
    assert started(decide(nodes(4, 4), port, by=predicates("NodePorts"))) == {"port": 3}  # type: ignore[arg-type]


def test_predicates_of_a_later_time_are_noted() -> None:
    by = configuration("{name: predicates, arguments: {predicate.DynamicResourceAllocationEnable: true}}")
    assert "predicate.DynamicResourceAllocationEnable" in by.notes[0]


# --- nodeorder and binpack -------------------------------------------------------------------------------------------


def scored(name: str, **arguments: int) -> object:
    listed = ", ".join(f"{key.replace('__', '.')}: {value}" for key, value in arguments.items())
    return configuration("gang", "predicates", f"{{name: {name}, arguments: {{{listed}}}}}")


def spread(by: object) -> dict[str, int]:
    """Where four pods go: n0 is in use, n1 is larger."""
    running = gang("r", pods=2, on=["n0", "n0"])
    return places(decide(nodes(8, 16), running, gang("g", pods=4), by=by))  # type: ignore[arg-type]


def test_nodeorder_prefers_emptier_nodes_unless_told_otherwise() -> None:
    off = {"balancedresource__weight": 0, "tainttoleration__weight": 0}
    assert spread(scored("nodeorder", **off)) == {"n1": 4}
    assert spread(scored("nodeorder", leastrequested__weight=0, mostrequested__weight=1, **off)) == {"n0": 4}
    assert spread(configuration("gang", "predicates")) == {"n0": 4}


def test_nodeorder_prefers_nodes_used_evenly() -> None:
    machines = [node("a", cpu=8, memory=4), node("b", cpu=8, memory=64)]
    one = gang("g", pods=1, shape=shape(4, 2))
    off = {"leastrequested__weight": 0, "tainttoleration__weight": 0}
    assert places(decide(machines, one, by=scored("nodeorder", **off))) == {"a": 1}  # type: ignore[arg-type]
    least = scored("nodeorder", balancedresource__weight=0)
    assert places(decide(machines, one, by=least)) == {"b": 1}  # type: ignore[arg-type]


def test_nodeorder_avoids_taints_that_ask_to_stay_away() -> None:
    machines = nodes(8, 8)
    machines[0] = dataclasses.replace(machines[0], taints=(Taint("old", "", "PreferNoSchedule"),))
    one = gang("g", pods=1)
    assert places(decide(machines, one, by=scored("nodeorder"))) == {"n1": 1}  # type: ignore[arg-type]
    assert places(decide(machines, one, by=scored("nodeorder", tainttoleration__weight=0))) == {"n0": 1}  # type: ignore[arg-type]


def test_binpack_fills_nodes_up_by_the_resources_it_is_told() -> None:
    spreading = "{name: nodeorder, arguments: {balancedresource.weight: 0}}"
    packing = "{name: binpack, arguments: {binpack.weight: 5}}"
    assert spread(configuration("predicates", spreading, packing)) == {"n0": 4}
    assert spread(configuration("predicates", spreading, "{name: binpack, arguments: {binpack.weight: 0}}")) == {"n1": 4}
    assert spread(configuration("predicates", spreading, "{name: binpack, enableNodeOrder: false}")) == {"n1": 4}
    machines = [node("a", cpu=8, memory=64), node("b", cpu=64, memory=8)]
    one = gang("g", pods=1, shape=shape(2, 2))
    cpu = "{name: binpack, arguments: {binpack.memory: 0}}"
    memory = "{name: binpack, arguments: {binpack.cpu: 0}}"
    assert places(decide(machines, one, by=configuration(cpu))) == {"a": 1}
    assert places(decide(machines, one, by=configuration(memory))) == {"b": 1}


def test_binpack_counts_resources_that_are_named_with_their_weights() -> None:
    def machine(name: str, *, cpu: int, gpu: int) -> object:
        made = node(name, cpu=cpu)
        return dataclasses.replace(made, allocatable=made.allocatable + vector(gpu=gpu))

    machines = [machine("a", cpu=16, gpu=8), machine("b", cpu=8, gpu=16)]
    one = gang("g", pods=1, shape=PodShape(vector(cpu=1, gpu=1, pods=1)))
    heavy = "{name: binpack, arguments: {binpack.resources: gpu, binpack.resources.gpu: 9}}"
    assert places(decide(machines, one, by=configuration(heavy))) == {"a": 1}  # type: ignore[arg-type]
    assert places(decide(machines, one, by=configuration("binpack"))) == {"b": 1}  # type: ignore[arg-type]
    for bad in ("binpack.resources.fpga: 2", "binpack.resources: gpu, binpack.resources.gpu: -1", "binpack.resources: 3"):
        with pytest.raises(BadConfiguration, match=r"binpack\.resources"):
            configuration(f"{{name: binpack, arguments: {{{bad}}}}}")


# --- conformance -----------------------------------------------------------------------------------------------------


def test_conformance_and_priority_name_no_victims_that_matter_more() -> None:
    from member_agent.scheduling.planner import BUILT_IN
    from member_agent.scheduling.session import OpenSession

    waiting = gang("w", priority=5)
    session = OpenSession(
        frozen(nodes(4), [waiting]), configuration=configuration("priority", "conformance"), registry=BUILT_IN
    )
    one = gang("v").pods[0]
    listed = [
        dataclasses.replace(one, uid="low"),
        dataclasses.replace(one, uid="equal"),
        dataclasses.replace(one, uid="system", namespace="kube-system"),
        dataclasses.replace(one, uid="critical", priority=2_000_000_000),
    ]
    victims = [Victim(pod, 0, ("ns", "v"), "default", 5 if pod.uid == "equal" else 0) for pod in listed]
    asked = session.waiting[0]
    assert [each.pod.uid for each in session.tiers.preemptable(asked, victims=victims)] == ["low"]
    conformance = Conformance(Nothing(), session=session)
    assert [each.pod.uid for each in conformance.reclaimable(asked, victims=victims)] == ["low", "equal"]


# --- laws ------------------------------------------------------------------------------------------------------------


@given(
    some.lists(some.tuples(some.sampled_from("abc"), some.integers(1, 4), some.booleans()), min_size=1, max_size=10),
    some.tuples(some.integers(0, 6), some.integers(0, 6), some.integers(0, 6)),
    some.integers(4, 24),
)
@settings(deadline=None, max_examples=60)
def test_nobody_ever_starts_on_what_is_guaranteed_to_others(
    listed: list[tuple[str, int, bool]], guarantees: tuple[int, int, int], cpu: int
) -> None:
    queues = [queue(name, guarantee=amount) for name, amount in zip("abc", guarantees, strict=True) if amount]
    queues += [queue(name) for name in "abc" if name not in {each.name for each in queues}]
    gangs = [gang(f"g{index}", pods=pods, queue=name) for index, (name, pods, _) in enumerate(listed)]
    for by in (None, CAPACITY, DEEP):
        found = started(decide(nodes(cpu), *gangs, queues=queues, by=by))
        for index, name in enumerate("abc"):
            mine = sum(found.get(each.group.name, 0) for each in gangs if each.group.queue == name)
            others = sum(guarantees) - guarantees[index]
            assert mine <= max(cpu - others, guarantees[index])
