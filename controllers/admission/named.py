"""Which Queues and PriorityClasses an object asks for, and where it says so (design.md 5). Pure.

A Job names them itself; a CronJob, a JobTemplate and the patches of a JobFlow name them for Jobs that our own programs make
later, whose right is therefore that of whoever wrote the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from apis.kinds import Kind
from controllers.admission import documents
from controllers.admission.documents import Manifest

USE: Final = "use"
"""The verb that is asked for."""


@dataclass(frozen=True, slots=True)
class Named:
    """One name, and the field that it stands in."""

    field: str
    kind: Kind
    name: str

    def refused(self, *, user: str) -> str:
        """For people: what is missing, and how it is given."""
        where = f"{self.kind.plural}.{self.kind.group}"
        return (
            f"{user} may not use {self.kind.kind} {self.name}: a ClusterRole with verb {USE} on {where} named {self.name} "
            "would allow it"
        )


def named(kind: Kind, new: Manifest, *, old: Manifest | None = None) -> tuple[Named, ...]:
    """What `new` names and `old` did not, each once; the default queue and no class are everybody's."""
    before = {(each.kind, each.name) for each in _all(kind, old)} if old is not None else set()
    found: dict[tuple[Kind, str], Named] = {}
    for each in _all(kind, new):
        if (each.kind, each.name) not in before:
            found.setdefault((each.kind, each.name), each)
    return tuple(found.values())


def _all(kind: Kind, manifest: Manifest) -> Iterator[Named]:
    spec = documents.mapping(manifest.get("spec"))
    if kind in (kinds.JOB, kinds.JOB_TEMPLATE):
        yield from _of_job(spec, field="spec")
    elif kind == kinds.CRON_JOB:
        template = documents.mapping(spec.get("jobTemplate"))
        yield from _of_job(documents.mapping(template.get("spec")), field="spec.jobTemplate.spec")
        flow = documents.mapping(documents.mapping(spec.get("flowTemplate")).get("spec"))
        yield from _of_flow(flow, field="spec.flowTemplate.spec")
    elif kind == kinds.JOB_FLOW:
        yield from _of_flow(spec, field="spec")


def _of_job(spec: Mapping[str, Any], *, field: str) -> Iterator[Named]:
    queue, priority = str(spec.get("queue") or ""), str(spec.get("priorityClassName") or "")
    if queue and queue != keys.DEFAULT_QUEUE:
        yield Named(f"{field}.queue", kinds.QUEUE, queue)
    if priority:
        yield Named(f"{field}.priorityClassName", kinds.PRIORITY_CLASS, priority)
    for index, task in enumerate(documents.listing(spec.get("tasks"))):
        pod = documents.mapping(documents.mapping(documents.mapping(task).get("template")).get("spec"))
        if pod.get("priorityClassName"):
            place = f"{field}.tasks[{index}].template.spec.priorityClassName"
            yield Named(place, kinds.PRIORITY_CLASS, str(pod["priorityClassName"]))


def _of_flow(spec: Mapping[str, Any], *, field: str) -> Iterator[Named]:
    for steps in ("flows", "onExit"):
        for index, step in enumerate(documents.listing(spec.get(steps))):
            patch = documents.mapping(documents.mapping(documents.mapping(step).get("patch")).get("jobSpec"))
            yield from _of_job(patch, field=f"{field}.{steps}[{index}].patch.jobSpec")
