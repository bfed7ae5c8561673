"""Law: whatever is lost when a scheduler is killed between evicting and binding, its successor gives no node and no queue away
twice, and comes to rest."""

from __future__ import annotations

import dataclasses
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.earmarks import Earmarks, remembered
from tests.member_agent.scheduling.build import Made, configuration, gang, nodes, queue
from tests.member_agent.scheduling.rounds import Rounds

BY = configuration(
    "priority", "gang", "predicates", "nodeorder", "capacity", actions="enqueue, allocate, backfill, preempt, reclaim"
)
QUEUES = [queue("a", capability=4, deserved=2), queue("b", capability=6, deserved=4)]


class Killed(Rounds):
    """Nominated nodes are on the pods, and all that a successor knows."""

    def round(self, *, seconds: float = 1.0) -> Plan:
        found = super().round(seconds=seconds)
        for each in found.nominated:
            self.pods[each.pod.uid] = dataclasses.replace(self.pods[each.pod.uid], nominated=each.node)
        return found

    def kill(self, *, lost: int) -> None:
        """Every so many-th nomination was not written, every so many-th eviction not carried out."""
        for number, (uid, pod) in enumerate(sorted(self.pods.items())):
            if number % lost:
                continue
            self.pods[uid] = dataclasses.replace(pod, nominated="", deleting=False)
            self._leave.pop(uid, None)
        self.earmarks = Earmarks(wait=120.0)
        queues = {key: each.group.queue for key, each in self.gangs.items()}
        for earmark in remembered(self.pods.values(), queues=queues):
            self.earmarks.keep(earmark, now=self.now)

    def lose(self, name: str) -> None:
        """A node goes with its pods."""
        self.machines = [each for each in self.machines if each.name != name]
        for uid in [uid for uid, pod in self.pods.items() if pod.node == name]:
            del self.pods[uid]
            self._leave.pop(uid, None)
            self.earmarks.gone(uid)

    def judge(self) -> None:
        on, of = Counter[str](), Counter[str]()
        for pod in self.pods.values():
            if pod.node:
                on[pod.node] += pod.shape.requests.get("cpu")
                of[self.gangs[pod.namespace, pod.group].group.queue] += pod.shape.requests.get("cpu")
        for each in self.machines:
            assert on[each.name] <= each.allocatable.get("cpu"), each.name
        for name, found in self.queues.items():
            assert of[name] <= found.capability.get("cpu"), name


@some.composite
def gangs(draw: some.DrawFn) -> list[Made]:
    made = []
    for number in range(draw(some.integers(2, 6))):
        pods = draw(some.integers(1, 4))
        minimum, cpu = draw(some.integers(1, pods)), draw(some.integers(1, 2))
        of, priority = draw(some.sampled_from("ab")), draw(some.sampled_from((0, 10, 20)))
        made.append(gang(f"g{number}", pods=pods, minimum=minimum, cpu=cpu, queue=of, priority=priority))
    return made


STEPS = some.lists(some.tuples(some.sampled_from((1.0, 31.0)), some.sampled_from((0, 0, 1, 2, 3)), some.booleans()), max_size=8)


@settings(max_examples=40, deadline=None)
@given(gangs(), STEPS, some.lists(some.sampled_from((2, 4)), min_size=2, max_size=3))
def test_a_successor_gives_nothing_away_twice(made: list[Made], steps: list[tuple[float, int, bool]], sizes: list[int]) -> None:
    """Gangs come one by one; at some steps the scheduler is killed, at one a node is lost."""
    world = Killed(nodes(*sizes, 4), by=BY, queues=QUEUES)
    for number, (seconds, lost, gone) in enumerate(steps):
        if number < len(made):
            world.add(made[number])
        if lost:
            world.kill(lost=lost)
        if gone and len(world.machines) > len(sizes):
            world.lose("n0")
        world.round(seconds=seconds)
        world.judge()
    world.until_quiet(rounds=120)
    world.judge()
