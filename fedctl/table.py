"""The table of a flow: one row per step with its cluster, phase, pods and time. Pure: objects in, rows and a rich table out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from rich.table import Table

from apis import keys, naming
from controllers.flows.snapshot import FlowView
from controllers.flows.steps import Instance, expected
from policies.flows.graph import FlowGraph

STYLES = {
    "Completed": "green",
    "Running": "cyan",
    "Failed": "bold red",
    "Terminated": "bold red",
    "Aborted": "yellow",
    "Pending": "yellow",
}


class _State(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: _State = _State()
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class _Task(msgspec.Struct, frozen=True):
    replicas: int = 1


class _JobSpec(msgspec.Struct, frozen=True):
    tasks: list[_Task] = []


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    annotations: dict[str, str] | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


@dataclass(frozen=True, slots=True)
class JobRow:
    """What the table needs of a Job."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    phase: str
    reason: str
    message: str
    since: str
    pods: int
    running: int
    succeeded: int
    failed: int


_job_decoder = msgspec.json.Decoder(_Job)


def project_job(document: bytes) -> JobRow:
    """Projection of a Job for people's tables."""
    job = _job_decoder.decode(document)
    return JobRow(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
        version=job.metadata.resource_version,
        created=job.metadata.creation_timestamp,
        phase=job.status.state.phase,
        reason=job.status.state.reason,
        message=job.status.state.message,
        since=job.status.state.last_transition_time,
        pods=sum(task.replicas for task in job.spec.tasks),
        running=job.status.running,
        succeeded=job.status.succeeded,
        failed=job.status.failed,
    )


class _Target(msgspec.Struct, frozen=True):
    name: str


class _BindingSpec(msgspec.Struct, frozen=True):
    clusters: list[_Target] | None = None


class _Binding(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _BindingSpec = _BindingSpec()


@dataclass(frozen=True, slots=True)
class BindingRow:
    """What the table needs of a ResourceBinding: where its Job went, and the recorded verdicts as JSON."""

    namespace: str
    name: str
    uid: str
    version: str
    clusters: tuple[str, ...]
    verdicts: str


_binding_decoder = msgspec.json.Decoder(_Binding)


def project_binding(document: bytes) -> BindingRow:
    """Projection of a ResourceBinding for people's tables."""
    binding = _binding_decoder.decode(document)
    return BindingRow(
        namespace=binding.metadata.namespace,
        name=binding.metadata.name,
        uid=binding.metadata.uid,
        version=binding.metadata.resource_version,
        clusters=tuple(target.name for target in binding.spec.clusters or ()),
        verdicts=(binding.metadata.annotations or {}).get(keys.VERDICTS, ""),
    )


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row: a step, or one item of it (`item` is its index, else -1). `seconds` is None for what has not started."""

    step: str
    after: tuple[str, ...]
    cluster: str
    phase: str
    pods: str
    seconds: float | None
    note: str
    name: str = ""
    item: int = -1


def rows(
    flow: FlowView, *, jobs: Mapping[str, JobRow], bindings: Mapping[str, BindingRow], now: datetime.datetime
) -> list[StepRow]:
    """Rows in the order of the graph's layers; an invalid graph keeps the order of the spec."""
    targets = {step.name: step.targets for step in flow.steps}
    graph = FlowGraph(targets)
    order: Sequence[str] = list(targets) if graph.problems() else [step for layer in graph.layers() for step in layer]
    parts: dict[str, list[Instance]] = {}
    for instance in expected(flow):
        parts.setdefault(instance.step.name, []).append(instance)
    shown = [*order, *(step.name for step in flow.handlers)]
    return [
        _row(flow, instance, targets.get(step, []), jobs=jobs, bindings=bindings, now=now)
        for step in shown
        for instance in parts[step]
    ]


def _row(
    flow: FlowView,
    instance: Instance,
    targets: Sequence[str],
    *,
    jobs: Mapping[str, JobRow],
    bindings: Mapping[str, BindingRow],
    now: datetime.datetime,
) -> StepRow:
    name, step = instance.name, instance.step.name
    shown = f"{step}[{instance.item}]" if instance.item >= 0 else step
    job = jobs.get(name)
    binding = bindings.get(naming.binding_name(name))
    cluster = ", ".join(binding.clusters) if binding else ""
    if job is None:
        recorded = next((status for status in flow.status.job_status_list if status.name == name), None)
        state, note = (recorded.state, recorded.message) if recorded else ("Waiting", "")
        return StepRow(shown, tuple(targets), cluster, state, "", None, note, name=step, item=instance.item)
    ended = job.phase in ("Completed", "Failed", "Terminated")
    until = _moment(job.since) if ended and job.since else now
    done = job.succeeded if ended or job.succeeded else job.running
    return StepRow(
        step=shown,
        after=tuple(targets),
        cluster=cluster,
        phase=job.phase or "Pending",
        pods=f"{done}/{job.pods}",
        seconds=max(0.0, (until - _moment(job.created)).total_seconds()),
        note=job.message if job.phase not in ("Running", "Completed") else "",
        name=step,
        item=instance.item,
    )


def render(flow: FlowView, found: Sequence[StepRow]) -> Table:
    """The rich table of a flow."""
    phase = flow.status.state.phase or "Pending"
    table = Table(title=f"JobFlow {flow.namespace}/{flow.name}: {phase}", title_justify="left", expand=False)
    for column, justify in (
        ("STEP", "left"),
        ("AFTER", "left"),
        ("CLUSTER", "left"),
        ("PHASE", "left"),
        ("PODS", "right"),
        ("TIME", "right"),
    ):
        table.add_column(column, justify="right" if justify == "right" else "left")
    noted = any(row.note for row in found)
    if noted:
        table.add_column("WHY", overflow="fold", max_width=60)
    for row in found:
        style = STYLES.get(row.phase, "dim")
        cells = [
            row.step,
            ", ".join(row.after) or "-",
            row.cluster or "-",
            f"[{style}]{row.phase}[/]",
            row.pods or "-",
            "-" if row.seconds is None else f"{row.seconds:.0f}s",
        ]
        table.add_row(*cells, *([row.note] if noted else []))
    return table


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
