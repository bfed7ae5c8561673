"""resource-strategy-fit: fuller or emptier nodes by resource, scarce resources kept for those who need them."""

from __future__ import annotations

import dataclasses

import orjson
import pytest

from member_agent.scheduling.configuration import BadConfiguration, Configuration
from member_agent.views import NodeView, Projector
from member_agent.views.hints import STRATEGY_TYPE, STRATEGY_WEIGHT, TASK_PRIORITY
from policies.shapes import PodShape
from tests.member_agent.scheduling.build import GIB, Made, configuration, decide, gang, places, started, vector
from tests.member_agent.test_room import node, shape

GPU = "nvidia.com/gpu"


def by(arguments: str) -> Configuration:
    return configuration("gang", "predicates", f"{{name: resource-strategy-fit, arguments: {{{arguments}}}}}")


def machine(name: str, *, cpu: int, gpu: int = 0, memory: int = 64 * GIB) -> NodeView:
    made = node(name, cpu=cpu)
    amounts = {"cpu": cpu, "memory": memory, "pods": 110} | ({GPU: gpu} if gpu else {})
    return dataclasses.replace(made, allocatable=vector(**{key: amount for key, amount in amounts.items()}))


def needs(name: str, *, pods: int = 1, **amounts: int) -> Made:
    return gang(name, pods=pods, shape=PodShape(vector(pods=1, **amounts)))


def hinted(made: Made, *hints: tuple[str, str]) -> Made:
    return dataclasses.replace(made, pods=tuple(dataclasses.replace(pod, hints=hints) for pod in made.pods))


BUSY = gang("busy", pods=2, cpu=2, on=["n0", "n0"])
TWO = [node("n0", cpu=16), node("n1", cpu=16)]


def test_every_resource_is_packed_or_spread_as_it_is_told() -> None:
    one = gang("g", pods=1, cpu=2)
    assert places(decide(TWO, BUSY, one, by=by("resources: {cpu: {type: LeastAllocated}}"))) == {"n1": 1}
    assert places(decide(TWO, BUSY, one, by=by("resources: {cpu: {type: MostAllocated}}"))) == {"n0": 1}


def test_resources_count_by_their_weights() -> None:
    machines = [node("a", cpu=4, memory=64), node("b", cpu=64, memory=4)]
    one = gang("g", shape=shape(2, 2))
    cpu = "resources: {cpu: {type: MostAllocated, weight: 5}, memory: {type: MostAllocated}}"
    memory = "resources: {cpu: {type: MostAllocated}, memory: {type: MostAllocated, weight: 5}}"
    assert places(decide(machines, one, by=by(cpu))) == {"a": 1}
    assert places(decide(machines, one, by=by(memory))) == {"b": 1}


def test_a_name_with_a_star_stands_for_a_family_and_the_longest_that_fits_counts() -> None:
    machines = [machine("a", cpu=16, gpu=8), machine("b", cpu=16, gpu=2)]
    one = needs("g", cpu=1, **{GPU: 1})
    assert places(decide(machines, one, by=by('resources: {"nvidia.com/*": {type: MostAllocated}}'))) == {"b": 1}
    both = 'resources: {"nvidia.com/*": {type: MostAllocated}, "nvidia.com/g*": {type: LeastAllocated}}'
    assert places(decide(machines, one, by=by(both))) == {"a": 1}


def test_the_plugins_weight_counts_beside_other_plugins() -> None:
    def placed(weight: int) -> dict[str, int]:
        fits = f"{{name: resource-strategy-fit, arguments: {{resourceStrategyFitWeight: {weight}}}}}"
        packing = configuration("predicates", "{name: binpack, arguments: {binpack.weight: 5}}", fits)
        return places(decide(TWO, BUSY, gang("g", cpu=2), by=packing))

    assert (placed(0), placed(1), placed(10)) == ({"n0": 1}, {"n0": 1}, {"n1": 1})


def test_a_pod_may_ask_for_another_way_or_other_weights() -> None:
    spreading = by("resources: {cpu: {type: LeastAllocated}}")
    own = hinted(gang("g", pods=1, cpu=2), (STRATEGY_TYPE, "MostAllocated"))
    assert places(decide(TWO, BUSY, own, by=spreading)) == {"n0": 1}
    machines = [node("a", cpu=4, memory=64), node("b", cpu=64, memory=4)]
    one = gang("g", shape=shape(2, 2))
    packing = by("resources: {cpu: {type: MostAllocated, weight: 5}, memory: {type: MostAllocated}}")
    weights = hinted(one, (STRATEGY_WEIGHT, '{"memory": 3}'))
    assert places(decide(machines, weights, by=packing)) == {"b": 1}
    for bad in ("{", '{"memory": "3"}', '{"memory": -3}'):
        assert places(decide(machines, hinted(one, (STRATEGY_WEIGHT, bad)), by=packing)) == {"a": 1}
    assert places(decide(TWO, BUSY, hinted(gang("g", cpu=2), (STRATEGY_TYPE, "Most")), by=spreading)) == {"n1": 1}


def test_pods_keep_away_from_nodes_with_what_is_scarce() -> None:
    machines = [machine("a", cpu=64, gpu=8), machine("b", cpu=8)]
    plain, scarce = needs("g", cpu=1), needs("h", cpu=1, **{GPU: 1})
    keep = f'sra: {{enable: true, resources: "{GPU}", weight: 20}}'
    assert places(decide(machines, plain, by=by(keep))) == {"b": 1}
    assert places(decide(machines, plain, by=by(keep.replace("true", "false")))) == {"a": 1}
    assert places(decide(machines, plain, by=by(keep.replace("20", "0")))) == {"a": 1}
    assert places(decide(machines, scarce, by=by(keep))) == {"a": 1}


def test_scarcer_resources_weigh_more() -> None:
    machines = [machine("a", cpu=8, gpu=8), machine("b", cpu=8)]
    machines[1] = dataclasses.replace(machines[1], allocatable=machines[1].allocatable + vector(fpga=1))
    weighed = f'sra: {{enable: true, resources: "{GPU}, fpga", weight: 20, resourceWeight: {{"{GPU}": 9}}}}'
    assert places(decide(machines, needs("g", cpu=1), by=by(weighed))) == {"b": 1}
    assert places(decide(machines, needs("g", cpu=1), by=by(weighed.replace(GPU + '": 9', 'fpga": 9')))) == {"a": 1}


def test_cpu_and_memory_stay_free_in_proportion_to_what_is_scarce() -> None:
    machines = [machine("a", cpu=16, gpu=2)]
    many = needs("g", pods=16, cpu=1)
    many = dataclasses.replace(many, group=dataclasses.replace(many.group, min_member=1))
    keep = f'proportional: {{enable: true, resources: "{GPU}", resourceProportion: {{"{GPU}.cpu": 4, "{GPU}.memory": 8}}}}'
    assert started(decide(machines, many, by=by(keep))) == {"g": 8}
    assert started(decide(machines, many, by=by(keep.replace("true", "false")))) == {"g": 16}
    assert started(decide(machines, many, by=by(keep.replace('.cpu": 4', '.cpu": 1')))) == {"g": 14}
    tight = [machine("a", cpu=16, gpu=2, memory=16_000_000_000)]
    assert started(decide(tight, needs("g", cpu=1, memory=1), by=by(keep))) == {}
    assert started(decide(tight, needs("g", cpu=1, memory=1), by=by(keep.replace('memory": 8', 'memory": 7')))) == {"g": 1}
    assert started(decide(machines, needs("h", cpu=16, **{GPU: 1}), by=by(keep))) == {"h": 1}


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ("resourceStrategyFitWeight: -1", "resourceStrategyFitWeight"),
        ("resources: {cpu: {type: Middle}}", r"resources\.cpu\.type"),
        ("resources: {cpu: {weight: 0}}", r"resources\.cpu\.weight"),
        ('resources: {"*": {}}', "a star stands at the end"),
        ('resources: {"a*b": {}}', "a star stands at the end"),
        ("sra: {policy: retention}", r"sra\.policy"),
        ('proportional: {resources: "a", resourceProportion: {b.cpu: 1}}', r"resourceProportion\.b\.cpu"),
        ('proportional: {resources: "a", resourceProportion: {a.cpu: -1}}', r"resourceProportion\.a\.cpu"),
    ],
)
def test_arguments_that_mean_nothing_are_refused_by_name(arguments: str, where: str) -> None:
    with pytest.raises(BadConfiguration, match=where):
        by(arguments)


def test_pods_carry_the_annotations_that_plugins_read_and_equal_ones_are_one_object() -> None:
    annotations = {STRATEGY_TYPE: "MostAllocated", TASK_PRIORITY: "3", "other": "x"}
    body = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": []}}
    projector = Projector()
    one, other = (projector.pod(orjson.dumps(body)) for _ in range(2))
    assert one.hints == ((STRATEGY_TYPE, "MostAllocated"), (TASK_PRIORITY, "3"))
    assert one.hints is other.hints
    assert projector.pod(orjson.dumps({"metadata": {"name": "p"}})).hints == ()
