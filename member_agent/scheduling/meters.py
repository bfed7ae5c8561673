"""What a scheduler tells Prometheus, under the names that the field knows (reference/volcano.md 4.4).

Labels are actions, plugins, results, queues and resources: series that name a Job grow with every Job, and are told only where
somebody asks for them, as long as its PodGroup is there. What is told of queues is read from a session that was made anyway, at
most every few seconds.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from machinery.informer import Key
from machinery.metrics import Metrics
from member_agent.scheduling.decisions import Eviction, Plan
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.scheduling.usage import NOTHING
from member_agent.views import GroupView, PodView
from member_agent.views.pods import seconds_of

MILLISECONDS: Final = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 60_000.0, 600_000.0)
QUEUES_EVERY: Final = 10.0
"""Seconds between two looks at the queues: Prometheus asks seldom more often."""
MILLI: Final = 1000
WAITING: Final = "unschedule_task_count"
NONE: Final[Mapping[str, float]] = MappingProxyType({})


class Meters:
    """The metrics of one scheduler; nothing is told before somebody measures."""

    def __init__(self, *, by_job: bool = False) -> None:
        """`by_job`: gangs are told one by one too."""
        self._by_job = by_job
        self._gangs: dict[Key, list[tuple[str, dict[str, str]]]] = {}
        """Series of each gang."""
        self.metrics: Metrics | None = None
        self._looked = float("-inf")
        self._told: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        """Series of queues that were told last."""

    # --- rounds ------------------------------------------------------------------------------------------------------

    def round(
        self, plan: Plan, *, took: Mapping[str, float], opened: float, total: float, plugins: Mapping[str, float] = NONE
    ) -> None:
        """A round is over; `took` is seconds by action, `plugins` by plugin, `opened` seconds to freeze and open it."""
        if self.metrics is None:
            return
        self._time("e2e_scheduling_latency_milliseconds", "Of a round.", total)
        self._time("open_session_duration_milliseconds", "To freeze a snapshot and open a session.", opened)
        for plugin, seconds in plugins.items():
            text = "To make a plugin for a session, with what it reads of it then."
            self._time("plugin_scheduling_latency_milliseconds", text, seconds, plugin=plugin, OnSession="OnSessionOpen")
        for action, seconds in took.items():
            self._time("action_scheduling_latency_milliseconds", "Of an action in a round.", seconds, action=action)
        self.metrics.gauge("volcano_unschedule_job_count", "Gangs that wait, with a reason.", value=len(plan.waiting))
        self._count(len(plan.bindings), "scheduled")
        self._count(len(plan.waiting), "unschedulable")

    def evicting(self, evictions: Sequence[Eviction]) -> None:
        """A round evicts pods for gangs."""
        beneficiaries = {each.beneficiary for each in evictions if each.beneficiary is not None}
        if self.metrics is None or not beneficiaries:
            return
        victims = sum(each.beneficiary is not None for each in evictions)
        text = "Pods that went in the last round in which any did."
        self.metrics.gauge("volcano_pod_preemption_victims", text, value=victims)
        self.metrics.count("volcano_total_preemption_attempts", "Gangs for which pods were evicted.", by=len(beneficiaries))

    def wasted(self, evicted: int) -> None:
        """Pods were evicted for a gang that did not start."""
        if self.metrics is not None and evicted:
            self.metrics.count("volcano_wasted_evictions", "Pods evicted for gangs that did not start.", by=evicted)

    def refused(self) -> None:
        """The API server refused a binding."""
        self._count(1, "error")

    def bound(self, pod: PodView, *, now: datetime.datetime) -> None:
        """A pod got its node."""
        self._age("task_scheduling_latency_milliseconds", "From a pod to its node.", pod.created, now=now, stage="total")

    def started(self, group: GroupView, *, now: datetime.datetime) -> None:
        """The minimum of a gang has nodes."""
        self._age("e2e_job_scheduling_latency_milliseconds", "From a PodGroup to its minimum.", group.created, now=now)
        if group.created:
            began, labels = (
                seconds_of(group.created),
                {"job_name": group.name, "queue": group.queue, "job_namespace": group.namespace},
            )
            duration = max(now.timestamp() - began, 0.0) * 1000
            self._of_gang(group, "e2e_job_scheduling_duration", "From a PodGroup to its minimum.", duration, labels)
            self._of_gang(group, "e2e_job_scheduling_start_time", "When a PodGroup was made.", began, labels)
            self._of_gang(group, "e2e_job_scheduling_last_time", "When its minimum had nodes.", now.timestamp(), labels)

    def waiting(self, gangs: Iterable[Waiting], *, unplaced: Collection[Key]) -> None:
        """A round found no nodes for pods of these gangs, as far as they are `unplaced`."""
        if self.metrics is None or not self._by_job:
            return
        found = {gang.key: gang for gang in gangs if gang.key in unplaced}
        for key in [key for key in self._gangs if key not in found]:
            self._drop(key, only=WAITING)
        for gang in found.values():
            labels = {"job_id": f"{gang.key[0]}/{gang.key[1]}"}
            self._of_gang(gang.group, WAITING, "Pods of a gang that wait for nodes.", len(gang.pods), labels)

    def gone(self, key: Key) -> None:
        """A PodGroup has gone: nothing is told of it any more."""
        self._drop(key)

    def _of_gang(self, group: GroupView, name: str, text: str, value: float, labels: dict[str, str]) -> None:
        if self.metrics is None or not self._by_job:
            return
        self.metrics.gauge(f"volcano_{name}", text, value=value, **labels)
        listed = self._gangs.setdefault((group.namespace, group.name), [])
        if (name, labels) not in listed:
            listed.append((name, labels))

    def _drop(self, key: Key, *, only: str = "") -> None:
        left = []
        for name, labels in self._gangs.pop(key, ()):
            if self.metrics is not None and only in ("", name):
                self.metrics.forget(f"volcano_{name}", **labels)
            else:
                left.append((name, labels))
        if left:
            self._gangs[key] = left

    def _count(self, number: int, result: str) -> None:
        if self.metrics is not None and number:
            text = "Pods that were scheduled, gangs that could not be, bindings that failed."
            self.metrics.count("volcano_schedule_attempts_total", text, by=number, result=result)

    def _age(self, name: str, text: str, created: str, *, now: datetime.datetime, **labels: str) -> None:
        if self.metrics is not None and created:
            since = datetime.datetime.fromisoformat(created)
            self._time(name, text, max((now - since).total_seconds(), 0.0), **labels)

    def _time(self, name: str, text: str, seconds: float, **labels: str) -> None:
        if self.metrics is not None:
            self.metrics.took(f"volcano_{name}", text, value=seconds * 1000, buckets=MILLISECONDS, **labels)

    # --- queues ------------------------------------------------------------------------------------------------------

    def queues(self, session: OpenSession, *, now: float) -> None:
        """Tell of all queues what the session knows of them, if that was not done a moment ago; `now` is boot-clock seconds."""
        if self.metrics is None or now - self._looked < QUEUES_EVERY:
            return
        self._looked = now
        told = set()
        for name in sorted(session.queues):
            for metric, text, value, labels in _of_queue(session, name):
                self.metrics.gauge(metric, text, value=value, **labels)
                told.add((metric, tuple(sorted(labels.items()))))
        for metric, pairs in self._told - told:
            self.metrics.forget(metric, **dict(pairs))
        self._told = told


Told = tuple[str, str, float, dict[str, str]]
"""Name, description, value and labels of one series."""


def _of_queue(session: OpenSession, name: str) -> Iterator[Told]:
    queue = session.queues[name]
    held, wanted, figures = session.held(name), session.wanted(name), session.tiers.figures(name)
    asked = {each: held.get(each, 0) + wanted.get(each, 0) for each in {*held, *wanted}}
    yield from _amounts("allocated", "What pods of a queue hold.", name, held)
    yield from _amounts("request", "What pods of a queue hold and ask for.", name, asked)
    yield from _amounts("inqueue", "What was promised to groups that were let in.", name, session.promised(name))
    yield from _amounts("capacity", "What a queue may have at most.", name, queue.ceiling)
    yield from _amounts("deserved", "What a queue deserves.", name, figures.deserved if figures is not None else NOTHING)
    yield from _amounts("real_capacity", "What the cluster leaves to a queue.", name, figures.most if figures else NOTHING)
    yield "volcano_queue_weight", "Weight of a queue.", float(queue.weight), {"queue_name": name}
    overused = session.tiers.overused(name) is not None
    yield "volcano_queue_overused", "1 where a queue has its share, else 0.", float(overused), {"queue_name": name}
    if figures is not None:
        yield "volcano_queue_share", "How much of what it deserves a queue has.", figures.share, {"queue_name": name}


def _amounts(what: str, text: str, queue: str, amounts: Mapping[str, int]) -> Iterator[Told]:
    """Milli units of cpu, bytes of memory, and everything else by name."""
    for resource in sorted(amounts):
        amount = amounts[resource]
        if resource == "cpu":
            yield f"volcano_queue_{what}_milli_cpu", text, float(amount), {"queue_name": queue}
        elif resource == "memory":
            yield f"volcano_queue_{what}_memory_bytes", text, amount / MILLI, {"queue_name": queue}
        elif resource != "pods":
            labels = {"queue_name": queue, "resource": resource}
            yield f"volcano_queue_{what}_scalar_resources", text, float(amount), labels
