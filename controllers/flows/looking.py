"""One look at a running flow: what each step came to, and which may begin now.

Steps are gone through with targets before what waits for them, so that one look carries a skip, or an end, as far as it goes.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from controllers.flows.lifecycle import StepEvent, StepPhase
from controllers.flows.plans import ProbeWanted, StepJob
from controllers.flows.snapshot import FlowSnapshot
from controllers.flows.status import StepStatus
from controllers.flows.steps import (
    ENDS,
    Instance,
    Sight,
    Sum,
    by_name,
    decided,
    facts,
    instances,
    moment,
    observed,
    phase_of,
    summed,
    timeout_at,
    values_of,
)
from policies.flows.checked import Checked
from policies.flows.expressions import ExpressionError, filled, holds, item_values
from policies.flows.inputs import Input, bytes_of
from policies.flows.spec import CONTINUE, FAIL, MAX_ITEMS, SKIP_DEPENDENTS, Step

TOLD: Final = 5
"""Names in a sentence before it only counts."""


class Look:
    """What is known of every step, by its Jobs. `cut` ends what lives, for the reason that it gives."""

    def __init__(self, snapshot: FlowSnapshot, checked: Checked, *, now: str, cut: str = "") -> None:
        self._snapshot = snapshot
        self._checked = checked
        self._graph = checked.graph
        self._now = now
        self._cut = cut
        self.steps = {step.name: step for step in (*snapshot.flow.steps, *snapshot.flow.handlers)}
        self.items: dict[str, list[Any]] = dict(snapshot.flow.status.items)
        self.records: dict[str, StepStatus] = {}
        """By the name of the Job, in the order of the spec."""
        self.sums: dict[str, Sum] = {}
        self._instances: dict[str, tuple[Instance, ...]] = {}
        self._inputs: dict[str, Input] = {}
        self.create: list[StepJob] = []
        self.probes: list[ProbeWanted] = []
        self.waiting: dict[str, None] = {}
        """Templates that are missing."""
        self.taken: list[str] = []
        self.full: list[str] = []
        self.probing: dict[str, str] = {}
        self.sure = True
        """Every end that is new is shown by a Job that is kept until it is recorded: who looks next sees the same."""
        self._observe()
        self._alive = sum(phase_of(record) is StepPhase.ALIVE for record in self.records.values()) + len(snapshot.made)

    # --- what there is -----------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        known = by_name(self._snapshot.flow.status.job_status_list)
        for step in self.steps.values():
            self._split(step)
            for instance in self._instances[step.name]:
                recorded = known.get(instance.name)
                if recorded is not None and recorded.ended:
                    self.records[instance.name] = recorded
                    continue
                job = self._snapshot.jobs.get(instance.name) or self._snapshot.ended.get(instance.name)
                refused = self._snapshot.refused.get(instance.name, "")
                sight = Sight(job, refused=refused, placed=self._snapshot.places.get(instance.name))
                record = observed(recorded, instance, sight, now=self._now, cut=self._cut)
                if record is not None:
                    self.records[instance.name] = record
                    self._doubt(record)
            self._sum(step)
        # A step that was taken out of the spec, or an item that is no more, keeps what is recorded of it and counts no more.
        expected = {instance.name for listed in self._instances.values() for instance in listed}
        self.records |= {name: record for name, record in known.items() if name not in expected}

    def _doubt(self, record: StepStatus) -> None:
        if record.ended:
            job = self._snapshot.jobs.get(record.name)
            self.sure = self.sure and job is not None and job.phase in ENDS

    def _split(self, step: Step) -> None:
        """Which Jobs the step is; one, as long as its items are not known."""
        items = self.items.get(step.name)
        if step.fan_out is not None and step.fan_out.items is not None:
            items = step.fan_out.items
        recorded = self._snapshot.flow.status.job_status_list
        whole = step.fan_out is None or any(each.step == step.name and each.item < 0 for each in recorded)
        self._instances[step.name] = instances(self._snapshot.flow.name, step, None if whole else items or None)

    def _sum(self, step: Step) -> None:
        self.sums[step.name] = summed(step, self.found(step.name))

    def found(self, step: str) -> list[StepStatus | None]:
        """What is recorded of each Job of a step."""
        return [self.records.get(instance.name) for instance in self._instances[step]]

    def end(self, step: str, event: StepEvent, message: str) -> None:
        """The step ends without a Job."""
        instance = Instance(self.steps[step], instances(self._snapshot.flow.name, self.steps[step], None)[0].name)
        self._instances[step] = (instance,)
        self.records[instance.name] = decided(instance, event, now=self._now, message=message)
        self._sum(self.steps[step])

    # --- which may begin ---------------------------------------------------------------------------------------------

    def go(self, steps: Sequence[str], *, outcome: str = "", stopped: bool = False) -> None:
        """Begin what may begin of these steps, first the one with the longest path ahead; `stopped`: nothing but retries."""
        ready: list[str] = []
        for step in steps:
            if self.sums[step] is Sum.BEGUN or (not stopped and self._may_begin(step, outcome=outcome)):
                ready.append(step)
        ahead = self._checked.ahead
        for step in sorted(ready, key=lambda name: -ahead.get(name, 0.0)):
            self._begin(self.steps[step], ahead=int(ahead.get(step, 1.0)), stopped=stopped)

    def _may_begin(self, step: str, *, outcome: str) -> bool:
        return self.sums[step] is Sum.OPEN and self._reached(step) and self._wanted(step, outcome=outcome)

    @property
    def _limit(self) -> int:
        return self._snapshot.flow.spec.max_parallel

    def _reached(self, step: str) -> bool:
        """Whether all its targets are, or its probe says so; a target that nobody can do without may end it here."""
        targets = self._graph.targets(step) if step not in self._handlers() else ()
        for target in targets:
            total, policy = self.sums[target], self.steps[target].failure_policy
            lost = total is Sum.FAILED and policy == SKIP_DEPENDENTS
            if lost or (total is Sum.SKIPPED and self._left_out(target)):
                self.end(step, StepEvent.EXCLUDED, f"{LEFT_OUT}step {target} {'failed' if lost else 'is skipped'}")
                return False
        open_ones = [target for target in targets if not self._satisfied(target)]
        return not open_ones or self._probed(step, open_ones)

    def _handlers(self) -> set[str]:
        return {step.name for step in self._snapshot.flow.handlers}

    def _left_out(self, step: str) -> bool:
        """Skipped because of a failure before it, and not by its own condition."""
        return any(record is not None and record.message.startswith(LEFT_OUT) for record in self.found(step))

    def _satisfied(self, target: str) -> bool:
        total = self.sums[target]
        tolerated = total is Sum.FAILED and self.steps[target].failure_policy == CONTINUE
        return tolerated or total in (Sum.DONE, Sum.SKIPPED)

    def _probed(self, step: str, targets: Iterable[str]) -> bool:
        """Whether its probe says of every open target that it is reached although it has not ended."""
        probe = self.steps[step].probe
        if probe is None:
            return False
        jobs: list[str] = []
        for target in targets:
            names = [instance.name for instance in self._instances[target]]
            if any(phase_of(self.records.get(name)) is not StepPhase.ALIVE for name in names):
                return False
            jobs += names
        for status in probe.task_status_list or ():
            if not all(self._all_in(name, status.task_name, status.phase) for name in jobs):
                self.probing[step] = f"pods of task {status.task_name or 'any'} are not all {status.phase}"
                return False
        if not probe.asks_pods or step in self._snapshot.reached:
            return True
        self.probes.append(ProbeWanted(step, tuple(jobs), probe))
        self.probing[step] = self._snapshot.unanswered.get(step, "its pods have not answered yet")
        return False

    def _all_in(self, job: str, task: str, phase: str) -> bool:
        found = self._snapshot.jobs.get(job)
        counts = found.task_status_count if found is not None else {}
        tasks = [counts[task]] if task in counts else [] if task else list(counts.values())
        phases = [each.get("phase", each) for each in tasks]
        total = sum(sum(each.values()) for each in phases)
        return total > 0 and sum(each.get(phase, 0) for each in phases) == total

    def _wanted(self, step: str, *, outcome: str) -> bool:
        """Whether its condition holds and its items are known; else it has ended here."""
        asked = self.steps[step]
        try:
            if asked.when and not holds(asked.when, self._facts(step, outcome=outcome)):
                self.end(step, StepEvent.EXCLUDED, f"its condition does not hold: {asked.when}")
                return False
            if asked.fan_out is not None:
                return self._fan_out(asked)
        except ExpressionError as error:
            self.end(step, StepEvent.SPENT, str(error))
            return False
        return True

    def _facts(self, step: str, *, outcome: str) -> dict[str, Any]:
        flow = self._snapshot.flow
        handler = step in self._handlers()
        targets = [each.name for each in flow.steps] if handler else self._graph.targets(step)
        return {
            "targets": {name: facts(self.steps[name], self.found(name), total=self.sums[name]) for name in targets},
            "flow": {"name": flow.name, "namespace": flow.namespace, "outcome": outcome},
            "parameters": self._parameters(self.steps[step], self._values(step)),
        }

    def _fan_out(self, step: Step) -> bool:
        assert step.fan_out is not None
        items = step.fan_out.items
        if items is None:
            items = self._listed(step.fan_out.from_output)
            self.items[step.name] = items
        if not items:
            self.end(step.name, StepEvent.EXCLUDED, "there are no items")
            return False
        if len(items) > MAX_ITEMS:
            raise ExpressionError(f"{len(items)} items, at most {MAX_ITEMS} become Jobs")
        self._instances[step.name] = instances(self._snapshot.flow.name, step, items)
        return True

    def _listed(self, source: str) -> list[Any]:
        other, _, output = source.rpartition(".")
        text = values_of(other, self.found(other)).get(f"steps.{other}.outputs.{output}")
        if text is None:
            raise ExpressionError(f"step {other} left no output {output}")
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ExpressionError(f"output {source} is no JSON: {error}") from error
        if not isinstance(found, list):
            raise ExpressionError(f"output {source} is no list")
        return found

    # --- making Jobs -------------------------------------------------------------------------------------------------

    def _begin(self, step: Step, *, ahead: int, stopped: bool) -> None:
        """Make what is missing of the step's Jobs, as far as there is place."""
        found = self.found(step.name)
        broken = step.failure_policy != CONTINUE and any(phase_of(record) is StepPhase.FAILED for record in found)
        made = self._snapshot.made
        alive = sum(phase_of(record) is StepPhase.ALIVE for record in found)
        alive += sum(instance.name in made for instance in self._instances[step.name])
        at_once = step.fan_out.max_parallel if step.fan_out is not None else 0
        for instance, record in zip(self._instances[step.name], found, strict=True):
            phase = phase_of(record)
            if phase not in (StepPhase.WAITING, StepPhase.RETRYING) or (broken and phase is StepPhase.WAITING):
                continue
            if instance.name in made or not self._due(record) or (stopped and phase is StepPhase.WAITING):
                continue
            if (at_once and alive >= at_once) or (self._limit and self._alive >= self._limit):
                self.full.append(instance.name)
                continue
            alive += self._make(step, instance, ahead=ahead)

    def _due(self, record: StepStatus | None) -> bool:
        """Whether the Job before it is gone, and its back-off over."""
        if record is None:
            return True
        old = self._snapshot.jobs.get(record.name)
        return old is None and (record.retry_at is None or moment(record.retry_at) <= moment(self._now))

    def _make(self, step: Step, instance: Instance, *, ahead: int) -> int:
        if instance.name in self._snapshot.foreign:
            self.taken.append(instance.name)
            return 0
        nested = step.flow is not None
        source = (step.flow.name if step.flow is not None else "") if nested else step.source
        if source and source not in (self._snapshot.flows if nested else self._snapshot.templates):
            self.waiting[source] = None
            return 0
        values = self._values(step.name)
        if instance.item >= 0:
            values |= item_values(instance.value, index=instance.item)
        try:
            parameters = self._parameters(step, values)
        except ExpressionError as error:
            record = decided(instance, StepEvent.SPENT, now=self._now, message=str(error))
            self.records[instance.name] = record
            self._sum(step)
            return 0
        values |= {f"parameters.{name}": value for name, value in parameters.items()}
        self._alive += 1
        made = StepJob(step, source, instance.name, values, parameters, instance.item, ahead, self._read(step.name))
        self.create.append(made)
        return 1

    def _read(self, step: str) -> tuple[Input, ...]:
        """What its targets left, as far as anybody knows where they ran."""
        targets = self._graph.targets(step) if self._graph.knows(step) else ()
        return tuple(each for target in targets if (each := self._input(target)).jobs)

    def _input(self, target: str) -> Input:
        if target not in self._inputs:
            shares: dict[str, float] = {}
            said: list[int | None] = []
            for record in self.found(target):
                if record is not None and record.clusters:
                    for cluster in record.clusters:
                        shares[cluster] = shares.get(cluster, 0.0) + 1 / len(record.clusters)
                    said.append(bytes_of(record.outputs))
            known = [size for size in said if size is not None]
            self._inputs[target] = Input(target, shares, sum(known) if known else None)
        return self._inputs[target]

    def _values(self, step: str) -> dict[str, str]:
        flow = self._snapshot.flow
        values = {"flow.name": flow.name, "flow.namespace": flow.namespace}
        asked = self.steps[step]
        if not (asked.parameters or asked.fan_out or asked.patch or asked.flow or asked.when):
            return values
        handler = step in self._handlers()
        for other, left in self._left.items():
            if handler or self._graph.comes_before(other, step):
                values |= left
        return values

    @functools.cached_property
    def _left(self) -> dict[str, dict[str, str]]:
        """What steps left, by step; those that left nothing are not in it."""
        known = {record.step for record in self.records.values() if record.outputs}
        return {
            each.name: values_of(each.name, self.found(each.name)) for each in self._snapshot.flow.steps if each.name in known
        }

    @staticmethod
    def _parameters(step: Step, values: Mapping[str, str]) -> dict[str, str]:
        if step.fan_out is not None and "index" not in values:
            return {each.name: each.value for each in step.parameters or ()}
        return {each.name: filled(each.value, values) for each in step.parameters or ()}

    # --- the whole ---------------------------------------------------------------------------------------------------

    def broken(self, steps: Iterable[str]) -> list[str]:
        """Steps whose failure fails the flow."""
        return [step for step in steps if self.sums[step] is Sum.FAILED and self.steps[step].failure_policy == FAIL]

    def over(self, steps: Iterable[str]) -> list[str]:
        """Steps that nothing more happens to."""
        return [step for step in steps if self.sums[step] in (Sum.DONE, Sum.SKIPPED, Sum.FAILED)]

    def busy(self, steps: Iterable[str]) -> bool:
        """Whether some of them go on, or could."""
        return bool(self.create or self.waiting or self.taken or self.probing) or any(
            self.sums[step] is Sum.BEGUN for step in steps
        )

    def doomed(self) -> list[tuple[str, str]]:
        """Jobs that have to go, by name and UID: of attempts that are over, and those that the flow itself ended."""
        found = []
        for name, record in self.records.items():
            job = self._snapshot.jobs.get(name)
            if job is None or job.deleting or job.uid != record.uid:
                continue
            again = phase_of(record) in (StepPhase.RETRYING, StepPhase.WAITING)
            if again or (record.ended and record.message and job.phase not in ENDS):
                found.append((name, job.uid))
        return found

    def wakes(self) -> list[datetime.datetime]:
        """When time alone changes something about a step."""
        found = [moment(record.retry_at) for record in self.records.values() if record.retry_at is not None]
        for step in self.steps.values():
            if step.timeout:
                for record in self.found(step.name):
                    if phase_of(record) is StepPhase.ALIVE and record is not None and record.start_timestamp:
                        late = timeout_at(step, record.start_timestamp)
                        found += [late] if late is not None else []
        return found


LEFT_OUT: Final = "left out: "


def listed(names: Sequence[str]) -> str:
    """The first names, and how many there are beside them."""
    more = len(names) - TOLD
    return ", ".join(names[:TOLD]) + (f" and {more} more" if more > 0 else "")
