"""A small cluster over many rounds: what is decided happens, evicted pods go after their grace and come back without nodes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from machinery.informer import Change
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Eviction, Plan
from member_agent.scheduling.earmarks import Earmarks, Ended
from member_agent.scheduling.planner import plan
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Gangs, Snapshot
from member_agent.views import GroupStatus, NodeView, PodView, QueueView
from member_agent.views.budgets import BudgetView
from tests.member_agent.scheduling.build import Made, queue
from tests.member_agent.test_room import inventory

GRACE = 30.0
LATE = Reason("GaveUp", "it did not start in time")


class Rounds:
    """`round()` decides and does; time passes between rounds."""

    def __init__(
        self,
        machines: Sequence[NodeView],
        *gangs: Made,
        by: Configuration,
        queues: Sequence[QueueView] = (),
        budgets: Sequence[BudgetView] = (),
        wait: float = 120.0,
    ) -> None:
        self.machines = list(machines)
        self.gangs = {(each.group.namespace, each.group.name): each for each in gangs}
        self.pods = {pod.uid: pod for each in gangs for pod in each.pods}
        self.by = by
        self.queues = {each.name: each for each in queues or [queue("default")]}
        self.budgets = budgets
        self.earmarks = Earmarks(wait=wait)
        self.now = 1000.0
        self.evictions: list[Eviction] = []
        self.ended: list[Ended] = []
        self.started: set[tuple[str, str]] = set()
        """Gangs whose earmarks ended because they started."""
        self.plan = Plan()
        self._leave: dict[str, float] = {}
        self._made = 0

    def add(self, made: Made) -> None:
        """A gang comes."""
        self.gangs[made.group.namespace, made.group.name] = made
        self.pods.update({pod.uid: pod for pod in made.pods})

    def freeze(self) -> Snapshot:
        found = inventory(self.machines)
        kept = Gangs(found, scheduler="volcano")
        groups = {key: each.group for key, each in self.gangs.items()}
        for key, group in groups.items():
            kept.group_changed(Change(key, None, group))
        for _, pod in sorted(self.pods.items()):
            change = Change((pod.namespace, pod.name), None, pod)
            found.pod_changed(change)
            kept.pod_changed(change)
        pending = {key: group for key, group in groups.items() if group.phase in ("Pending", "Inqueue")}
        budgets: dict[str, list[BudgetView]] = {}
        for budget in self.budgets:
            budgets.setdefault(budget.namespace, []).append(budget)
        return kept.freeze(
            groups=groups.get,
            pending=pending,
            priority=lambda name: int(name.removeprefix("p") or 0),
            queues=self.queues,
            held_back=lambda pod: False,
            now=self.now,
            budgets=budgets,
            earmarks=self.earmarks.told(),
            spent=self.earmarks.spent({key: 0 for key in self.gangs}),
            reservation=self.plan.reservation,
        )

    def round(self, *, seconds: float = 1.0) -> Plan:
        """Time passes, a round is decided and done."""
        self.now += seconds
        self._end()
        self.plan = plan(self.freeze(), configuration=self.by)
        for binding in self.plan.bindings:
            self.pods[binding.pod.uid] = dataclasses.replace(binding.pod, node=binding.node, phase="Running", nominated="")
        for key, reason in self.plan.ended.items():
            if reason is None:
                self.started.add(key)
                self.earmarks.started(key)
            elif (ended := self.earmarks.drop(key, reason=reason)) is not None:
                self.ended.append(ended)
        for earmark in self.plan.earmarks:
            mine = [each.pod for each in self.plan.evictions if each.beneficiary == earmark.gang]
            self.earmarks.keep(earmark, victims=mine, now=self.now)
        assert len({each.pod.uid for each in self.plan.evictions}) == len(self.plan.evictions), "evicted twice"
        for eviction in self.plan.evictions:
            assert not self.pods[eviction.pod.uid].deleting, "evicted again"
            self.pods[eviction.pod.uid] = dataclasses.replace(self.pods[eviction.pod.uid], deleting=True)
            self._leave[eviction.pod.uid] = self.now + GRACE
        self.evictions += self.plan.evictions
        self._phases()
        return self.plan

    def until_quiet(self, *, rounds: int = 60, seconds: float = 31.0) -> int:
        """Rounds until one decides nothing and nobody is on the way out."""
        for number in range(rounds):
            found = self.round(seconds=seconds)
            if not (found.bindings or found.evictions or self._leave or self.earmarks.told()):
                return number
        raise AssertionError(f"still busy after {rounds} rounds: {self.plan}")

    def _end(self) -> None:
        for uid in [uid for uid, at in self._leave.items() if at <= self.now]:
            del self._leave[uid]
            gone = self.pods.pop(uid)
            self.earmarks.gone(uid)
            self._made += 1
            again = dataclasses.replace(gone, uid=f"{gone.name}-again{self._made}", node="", deleting=False, phase="Pending")
            self.pods[again.uid] = again
        for key in self.earmarks.overdue(now=self.now):
            ended = self.earmarks.drop(key, reason=LATE, was=0)
            if ended is not None:
                self.ended.append(ended)

    def _phases(self) -> None:
        """A group that has its minimum runs, and one that lost it waits again."""
        placed = self.standing()
        for key, each in self.gangs.items():
            phase = "Running" if placed.get(key[1], 0) >= each.group.min_member else "Inqueue"
            if each.group.phase != "Pending":
                self.gangs[key] = dataclasses.replace(
                    each, group=dataclasses.replace(each.group, status=GroupStatus(phase=phase))
                )

    def standing(self) -> Mapping[str, int]:
        """Pods with nodes that stay, by gang."""
        return Counter(pod.group for pod in self.pods.values() if pod.node and not pod.deleting)

    def on(self, name: str) -> list[str]:
        """Nodes of a gang's pods."""
        return sorted(pod.node for pod in self.pods.values() if pod.group == name and pod.node and not pod.deleting)


def victims(found: Plan) -> list[str]:
    """Names of the pods that go."""
    return sorted(each.pod.name for each in found.evictions)


def of(made: Made, **more: object) -> Made:
    """The gang with other pods: all of them changed alike."""
    return dataclasses.replace(made, pods=tuple(dataclasses.replace(pod, **more) for pod in made.pods))  # type: ignore[arg-type]


def pod_of(rounds: Rounds, name: str) -> PodView:
    return next(pod for pod in rounds.pods.values() if pod.name == name)
