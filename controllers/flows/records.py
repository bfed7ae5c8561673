"""Which ends of steps are recorded in their flows: until then the Job of a step may not leave, because its end would be lost
with it (protocol.md 2: a success that was not recorded may run again)."""

from __future__ import annotations

from collections.abc import Callable

from controllers.flows.lifecycle import FlowPhase, StepPhase
from controllers.flows.snapshot import FlowJob, FlowView
from controllers.flows.status import StepStatus
from controllers.flows.steps import phase_of
from machinery.informer import Change, Informer, Key

FINAL = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
"""Phases after which nothing of a flow runs again, recorded or not."""


def recorded(job: FlowJob, *, flow: FlowView | None) -> bool:
    """Whether nothing is lost when the ended Job goes: its flow keeps its end, is over, or is no more."""
    if flow is None or flow.uid != job.owner_uid or flow.deleting or flow.status.state.phase in FINAL:
        return True
    return any(each.name == job.name and (each.ended or _superseded(each, job)) for each in flow.status.job_status_list)


def _superseded(record: StepStatus, job: FlowJob) -> bool:
    """The failure of this very Job is recorded, and another attempt is to follow."""
    return record.uid == job.uid and phase_of(record) in (StepPhase.RETRYING, StepPhase.WAITING)


class Records:
    """Answers for the Jobs of one program; `flows` is its own informer of JobFlows."""

    def __init__(self, flows: Informer[FlowView]) -> None:
        self._flows = flows

    async def wait_synced(self) -> None:
        """Return once it knows every flow: before that an absent flow proves nothing."""
        await self._flows.wait_synced()

    def may_leave(self, job: FlowJob) -> bool:
        """True for a Job that belongs to no flow."""
        namespace, _, name = job.created_by_flow.partition(".")
        return not name or recorded(job, flow=self._flows.get(namespace, name))

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call with the key of every Job whose end a flow has recorded, and of all its steps once it is over or gone."""

        def changed(change: Change[FlowView]) -> None:
            flow = change.new or change.old
            for each in flow.status.job_status_list if flow is not None else ():
                handler((change.key[0], each.name))

        self._flows.subscribe(changed)
