"""What one decision about a Work looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from apis import keys
from member_agent.views import JobView, Meta, QueueView, WorkView
from member_agent.works.remains import Left, Trace

LEASE_HUB = "hub"
"""Holder that the hub writes when it fences (protocol.md 2, H3)."""


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """What a quorum read of the member Lease returned: who holds it, for which cluster, and the fence number F."""

    holder: str
    fence: int

    @property
    def cluster(self) -> str:
        """UID of the cluster whose fencer holds it; "" before the first renewal and after a fence by the hub."""
        return "" if self.holder in ("", LEASE_HUB) else self.holder.split("/", 1)[0]


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str = ""
    lease_transitions: int = 0


class _Lease(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta
    spec: _LeaseSpec = _LeaseSpec()


_lease = msgspec.json.Decoder(_Lease).decode


def read_lease(document: bytes) -> LeaseAnswer:
    """The parts of a Lease that A1 asks for."""
    spec = _lease(document).spec
    return LeaseAnswer(holder=spec.holder_identity, fence=spec.lease_transitions)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Work and everything known about its run here.

    `job` is the local Job of the manifest's name, whoever made it; `asked`: a quorum read has just said that there is none.
    `offered` is the manifest read as a Job. `traces` are pods that may run, `left` what of them is not known to be gone.
    `quiet` is how long nothing may be confirmed yet (A5), in seconds.
    """

    work: WorkView
    cluster_uid: str
    scheduler: str = keys.DEFAULT_SCHEDULER
    """Who gives pods of hub-run Jobs their node here."""
    upstream: bool = False
    """A Volcano runs the Jobs of this member."""
    job: JobView | None = None
    asked: bool = False
    offered: JobView | None = None
    offered_error: str = ""
    refused_edit: str = ""
    """Digest of the manifest that this member's API server would not have the Job changed to, "" for none."""
    lease: LeaseAnswer | None = None
    newest_epoch: int = 0
    queue: QueueView | None = None
    lacking: str = ""
    """What the Job names and is still on its way here: queue, priority class; "" once nobody waits for it any more."""
    listed: bool = False
    traces: Mapping[str, Trace] = field(default_factory=dict)
    recorded: Mapping[str, Trace] = field(default_factory=dict)
    endangered: Mapping[str, Trace] = field(default_factory=dict)
    to_stop: tuple[str, ...] = ()
    """UIDs of pods that run or wait and were not told to stop yet."""
    left: Left = Left()
    quiet: float = 0.0

    @property
    def ours(self) -> bool:
        """The local Job is this very run: same hub Job, same epoch."""
        job, record = self.job, self.work.record
        if job is None or not job.managed:
            return False
        if record is None or job.record is None:
            return job.work_uid == self.work.uid
        return (job.record.job, job.record.epoch) == (record.job, record.epoch)
