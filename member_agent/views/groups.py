"""PodGroups as the agent keeps them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from apis import keys
from apis.vectors import ResourceVector
from machinery.port import Document
from member_agent.views.hints import OF_GROUPS, Hints, hints_of
from member_agent.views.holds import HoldRecord, hold_of
from member_agent.views.meta import Meta, Wire, may_be_evicted, number

SCHEDULED = "Scheduled"
"""Condition of a PodGroup: True while its minimum has nodes, False once it had."""


PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
"""Words for `status.phase` of a PodGroup."""


class GroupCondition(Wire, frozen=True, omit_defaults=True):
    """A condition of a PodGroup."""

    type: str
    status: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class GroupStatus(Wire, frozen=True, omit_defaults=True):
    """`status` of a PodGroup (reference/volcano.md 2.1)."""

    phase: str = ""
    conditions: list[GroupCondition] = []
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class _GroupSpec(Wire, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, Any] | None = None


class _Group(Wire, frozen=True):
    metadata: Meta
    spec: _GroupSpec = _GroupSpec()
    status: GroupStatus | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A PodGroup. `admitted`: the hub admitted it, the member's queues only account for it (protocol.md 6). `owner_kind`: the
    kind of its controller."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    owner: str
    deleting: bool
    admitted: bool
    min_member: int
    min_task_member: tuple[tuple[str, int], ...]
    queue: str
    priority_class: str
    min_resources: ResourceVector
    status: GroupStatus
    owner_kind: str = ""
    job_version: int = 0
    """Version of its Job when it was made."""
    waiting_time: str = ""
    """How long it may wait to be let in, as annotated; for the scheduler's plugin sla."""
    hints: Hints = ()
    """Annotations that plugins of the scheduler read."""
    preemptable: bool = True
    """False: its pods may not be evicted for others, as its annotation or label says."""

    hold_wanted: int = 0
    """Number of the hold that is wished for; 0 for none (protocol.md 5)."""
    hold: HoldRecord | None = None
    """The answer to such a wish."""

    @property
    def phase(self) -> str:
        """A word that is none, the empty one too, counts as Pending: it is written anew."""
        return self.status.phase if self.status.phase in PHASES else PHASES[0]

    @property
    def once_whole(self) -> bool:
        """Its minimum had nodes at some time: a gang that lost pods since is the Job's affair, not the scheduler's."""
        return any(each.type == SCHEDULED for each in self.status.conditions)


_group = msgspec.json.Decoder(_Group).decode


def project_group(document: Document) -> GroupView:
    """A PodGroup as the agent keeps it; raises InvalidQuantity."""
    group = _group(document)
    meta, spec = group.metadata, group.spec
    return GroupView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        owner=meta.controller,
        deleting=meta.deletion_timestamp is not None,
        admitted=bool(meta.annotation(keys.RUN) and meta.annotation(keys.WORK_UID)),
        min_member=spec.min_member,
        min_task_member=tuple(sorted((spec.min_task_member or {}).items())),
        queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
        priority_class=sys.intern(spec.priority_class_name),
        min_resources=ResourceVector.from_quantities(spec.min_resources),
        status=group.status or GroupStatus(),
        owner_kind=sys.intern(meta.controller_kind),
        job_version=number(meta.annotation(keys.JOB_VERSION), otherwise=0),
        waiting_time=meta.annotation("sla-waiting-time") or meta.annotation("volcano.sh/sla-waiting-time"),
        **hold_of(meta),
        hints=hints_of(meta, OF_GROUPS),
        preemptable=may_be_evicted(meta),
    )
