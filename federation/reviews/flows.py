"""A JobFlow reviewed: each Job where it would run, when, and for how much; nothing is created. Pure, and step by step.

The Jobs are gone through in time, as the flow's controller would begin them: what is ready is planned in the order of the
longest way ahead, beside the Jobs of the flow that run at that time; what finds no place is tried again whenever one ends. What
else runs in the clusters is taken to stay as it is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from apis import keys
from apis.batch import PLUGINS
from federation.reviews.graphs import StepNode, Unfolded
from federation.reviews.questions import ReviewView, completed, viewed
from policies.flows.graph import FlowGraph
from policies.flows.inputs import Input, reads_with
from policies.trials import Answer, Assumed, Trial, Trier
from policies.views import JobView, Projections

MOST_LOOKS: Final = 1000
"""Looks of the planner for one flow."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One Job. `start` and `finish` are seconds from now, None where it does not run; `answer`: what the planner said last."""

    node: StepNode
    answer: Answer | None = None
    start: float | None = None
    finish: float | None = None
    reason: str = ""
    message: str = ""

    @property
    def clusters(self) -> tuple[str, ...]:
        """Where it would run."""
        return tuple(part.cluster for part in self.answer.parts) if self.answer is not None else ()


@dataclass(frozen=True, slots=True)
class FlowFindings:
    """All Jobs in the order of the flow. `path`: names of the Jobs on the critical path, `money` None where nobody knows."""

    steps: tuple[PlannedStep, ...]
    path: tuple[str, ...] = ()
    money: float | None = None
    finish: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def blocked(self) -> tuple[PlannedStep, ...]:
        """Jobs that find no place by themselves, and not because they wait for others."""
        return tuple(each for each in self.steps if each.start is None and each.reason not in ("", WAITS))


READS: Final = keys.READS.removeprefix(f"{keys.GROUP}/")
WAITS: Final = "WaitsForSteps"
"""Reason of a Job whose targets do not run."""


@dataclass(slots=True)
class _Running:
    """What runs at the time that is looked at: (finish, node) as a heap, and gangs by node."""

    ends: list[tuple[float, str]] = field(default_factory=list)
    gangs: dict[str, tuple[Assumed, ...]] = field(default_factory=dict)

    def assumed(self) -> tuple[Assumed, ...]:
        return tuple(gang for name in sorted(self.gangs) for gang in self.gangs[name])


class FlowReview:
    """`advance` until it is False, then `result`."""

    def __init__(
        self,
        flow: Unfolded,
        *,
        view: ReviewView,
        trier: Trier,
        projections: Projections,
        plugins: Collection[str] = PLUGINS,
    ) -> None:
        self._flow = flow
        self._plugins = plugins
        self._trier = trier
        self._nodes = {node.name: node for node in flow.nodes}
        # What stands beyond the Jobs that are reckoned is not waited for.
        self._targets = {
            node.name: tuple(name for name in node.targets if name in self._nodes) for node in self._nodes.values()
        }
        self._graph = FlowGraph(self._targets)
        self._planned: dict[str, PlannedStep] = {}
        self._jobs: dict[str, JobView] = {}
        self._view, self._projections = view, projections
        self._unread = deque(self._nodes.values())
        self._ahead: dict[str, float] = {}
        self._now = 0.0
        self._running = _Running()
        self._done: set[str] = set()
        self._blocked: dict[str, Answer] = {}
        self._ready: deque[str] = deque()
        self._looks = 0

    def advance(self) -> bool:
        """Read one more Job, plan one more, or go on to the next end; False when nothing more can begin."""
        if self._unread:
            self._read(self._unread.popleft())
            if not self._unread:
                self._ahead = self._graph.ahead({name: self._seconds(job) for name, job in self._jobs.items()})
                self._ready = deque(self._to_begin())
            return True
        if self._ready and self._looks < MOST_LOOKS and not self._full():
            self._plan(self._ready.popleft())
            return True
        if not self._running.ends:
            return False
        self._now, name = heapq.heappop(self._running.ends)
        self._done.add(name)
        self._running.gangs.pop(name, None)
        self._blocked.clear()
        self._ready = deque(self._to_begin())
        return True

    def result(self) -> FlowFindings:
        """What would become of the flow."""
        steps = tuple(self._planned.get(name) or self._left(name) for name in self._graph.ordered())
        lengths = {each.node.name: (each.finish or 0.0) - (each.start or 0.0) for each in steps}
        known = [each.answer.money if each.answer is not None and each.start is not None else None for each in steps]
        whole = all(each.finish is not None for each in steps)
        notes = list(self._flow.notes)
        if self._looks >= MOST_LOOKS:
            notes.append(f"the planner was asked {MOST_LOOKS} times: what is left was not reckoned")
        return FlowFindings(
            steps=steps,
            path=tuple(self._graph.critical_path(lengths)) if whole else (),
            money=None if None in known else sum(each for each in known if each is not None),
            finish=max((each.finish for each in steps if each.finish is not None), default=None) if whole else None,
            notes=tuple(notes),
        )

    # --- in time -----------------------------------------------------------------------------------------------------

    def _read(self, node: StepNode) -> None:
        if node.manifest is None:
            self._planned[node.name] = PlannedStep(node, reason="NotMade", message=node.problem)
            return
        manifest, problems = completed(node.manifest, view=self._view, plugins=self._plugins)
        manifest["metadata"] |= {"uid": f"{self._view.uid}/{node.name}"}
        if problems:
            text = f"{problems[0].field}: {problems[0].message}"
            self._planned[node.name] = PlannedStep(node, reason="InvalidSpec", message=text)
            return
        self._jobs[node.name] = viewed(manifest, projections=self._projections)

    def _seconds(self, job: JobView) -> float:
        return self._trier.run_time(job).seconds

    def _to_begin(self) -> list[str]:
        """What waits for nothing any more, the longest way ahead first; else in the order of the flow."""
        ready = [
            name
            for name in self._graph.ordered()
            if name not in self._planned and all(target in self._done for target in self._targets[name])
        ]
        return sorted(ready, key=lambda name: -self._ahead[name])

    def _full(self) -> bool:
        limit = self._flow.max_parallel
        return bool(limit) and len(self._running.gangs) >= limit

    def _plan(self, name: str) -> None:
        job = self._reading(name)
        self._looks += 1
        answer = self._trier.answer(Trial(job, assumed=self._running.assumed()))
        if not answer.starts:
            self._blocked[name] = answer
            return
        lasts = answer.finish if answer.finish is not None else (answer.begin or 0.0) + answer.run_time.seconds
        start, finish = self._now + (answer.begin or 0.0), self._now + lasts
        self._planned[name] = PlannedStep(self._nodes[name], answer, start, finish, "Placed", answer.message)
        heapq.heappush(self._running.ends, (finish, name))
        self._running.gangs[name] = tuple(
            Assumed(cluster, job.namespace, job.queue, gang) for cluster, gang in sorted(answer.shares.items())
        )

    def _reading(self, name: str) -> JobView:
        """The Job with the places of what it reads from its targets, as the flow's controller will write them."""
        job, shares = self._jobs[name], dict[str, dict[str, float]]()
        own = job.settings.get(READS, "")
        for target in self._targets[name] if own else ():
            clusters = self._planned[target].clusters
            there = shares.setdefault(self._nodes[target].step.rpartition("/")[2], {})
            for cluster in clusters:
                there[cluster] = there.get(cluster, 0.0) + 1 / len(clusters)
        placed = reads_with(own, [Input(step, there) for step, there in shares.items()])
        return job if placed == own else replace(job, settings={**job.settings, READS: placed})

    def _left(self, name: str) -> PlannedStep:
        node, answer = self._nodes[name], self._blocked.get(name)
        if answer is not None:
            return PlannedStep(node, answer, reason=answer.reason, message=answer.message)
        missing = [target for target in self._targets[name] if target not in self._done]
        return PlannedStep(node, reason=WAITS, message=f"it waits for {', '.join(missing[:3])}" if missing else "not reckoned")
