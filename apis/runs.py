"""The run: (Job UID, cluster UID, epoch), as it is written on bindings, Works, member Jobs and pods (protocol.md 1).

`BindingRun` is the hub's decision and lives in the annotation `run` of the ResourceBinding, written together with
`spec.clusters` in one PUT. `RunRecord` is its copy for one cluster and lives on the Work, the member's Job and its pods.
Both are JSON, versioned; a reader refuses a version it does not know.
"""

from __future__ import annotations

import enum

import msgspec

VERSION = 1


class Failover(enum.StrEnum):
    """What may happen to a run whose cluster is lost."""

    CONTINUE = "Continue"
    FENCE = "Fence"


class PartState(enum.StrEnum):
    """Where one part of a run stands, as the binding records it."""

    GRANTED = "Granted"
    STOPPING = "Stopping"
    GONE = "Gone"


class Ground(enum.StrEnum):
    """Why a part is known to have ended."""

    CONFIRMED = "Confirmed"
    FENCED = "Fenced"
    DECLARED = "Declared"


class Held(enum.StrEnum):
    """Why a Job that is not running must not be granted again until somebody resumes it."""

    SUSPENDED = "Suspended"
    ABORTED = "Aborted"
    LOCALLY_DELETED = "LocallyDeleted"


class RefusalReason(enum.StrEnum):
    """Reasons of the Work condition `Applied=False` (protocol.md 1)."""

    NO_ROOM = "NoRoom"
    QUEUE_CLOSED = "QueueClosed"
    STALE_EPOCH = "StaleEpoch"
    STALE_FENCE = "StaleFence"
    INVALID = "Invalid"
    KIND_MISSING = "KindMissing"
    NAME_TAKEN = "NameTaken"
    DENIED = "Denied"
    EXTENSION_UNSUPPORTED = "ExtensionUnsupported"


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """Camel-case JSON, defaults left out."""


class TaskSlice(_Wire, frozen=True):
    """Which pods of a task a part runs: `offset` is the first index, `total` the replicas over all parts."""

    offset: int
    total: int


class RunRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """The run record of one Work. Durations in whole seconds; None where nothing is set."""

    job: str
    """UID of the hub's Job."""
    epoch: int
    fence: int
    version: int = VERSION
    release: bool = True
    retries: int = 0
    exclusive: bool = True
    failover: Failover = Failover.CONTINUE
    fence_after: int = 600
    max_run_time: int | None = None
    tasks: dict[str, TaskSlice] = {}


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What a part runs of one task: so many pods of `total`, of which `minimum` are needed, from index `offset` on."""

    replicas: int
    minimum: int
    offset: int
    total: int


class Part(_Wire, frozen=True):
    """One part of a run: its cluster is the key it is stored under. Without `shares`, by task, it runs all of the Job."""

    cluster_uid: str
    fence: int
    state: PartState = PartState.GRANTED
    ground: Ground | None = None
    minimum: int = 0
    shares: dict[str, Share] = {}
    by: str = ""
    """Where the ground is Declared: whose word it is, and when it was given (RFC 3339)."""
    at: str = ""


class Past(_Wire, frozen=True):
    """Why one part of an earlier epoch is known to have ended."""

    epoch: int
    cluster: str
    fence: int
    ground: Ground | None = None
    by: str = ""
    at: str = ""


KEPT = 8
"""Parts of earlier epochs that a binding remembers: 70 bytes each, of its 4 KiB (protocol.md 7)."""


class BindingRun(_Wire, frozen=True):
    """The decision about a Job, as recorded in its binding. Epoch 0: never granted.

    `start_timeouts` counts the parts withdrawn because they did not start, per cluster; `refusals` counts refusals. `past`
    keeps the grounds of earlier epochs, the oldest first: the same write that records the last part as Gone may grant anew.
    """

    job: str
    epoch: int = 0
    version: int = VERSION
    parts: dict[str, Part] = {}
    held: Held | None = None
    retries: int = 0
    refusals: int = 0
    start_timeouts: dict[str, int] = {}
    past: tuple[Past, ...] = ()
    least: int = 0
    """The next epoch is above it: a member knows an epoch that this hub forgot."""
    failures: dict[str, int] = {}
    """How often it was taken away from a cluster because it was not whole there."""
    moved_for: str = ""
    """The wish to be placed anew (`spec.rescheduleTriggeredAt`, RFC 3339) that was answered last: once each."""
    order: str = ""
    """UID of the Command that was carried out last: written with what it did, so that it is done once."""
    asked: str = ""
    """Its action, where the members of the present epoch are to carry it out; their Works are told until they were."""

    @property
    def all_gone(self) -> bool:
        """Every part of the current epoch is known to have ended; true before the first grant."""
        return all(part.state is PartState.GONE for part in self.parts.values())


class UnreadableRun(ValueError):
    """A run annotation that is not JSON of a known version; the message says which object and why."""


_record_decoder = msgspec.json.Decoder(RunRecord)
_binding_decoder = msgspec.json.Decoder(BindingRun)
_encoder = msgspec.json.Encoder(order="deterministic")


def encode(run: RunRecord | BindingRun) -> str:
    """The annotation value: JSON with sorted keys, the same bytes for the same run."""
    return _encoder.encode(run).decode()


def decode_record(text: str, *, where: str) -> RunRecord:
    """Read a Work's, Job's or pod's run record; raises UnreadableRun naming `where`."""
    try:
        record = _record_decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise UnreadableRun(f"{where}: run record is not readable: {error}") from error
    if record.version != VERSION:
        raise UnreadableRun(f"{where}: run record has version {record.version}, this program reads {VERSION}")
    return record


def decode_binding(text: str, *, where: str) -> BindingRun:
    """Read a binding's run; raises UnreadableRun naming `where`."""
    try:
        run = _binding_decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise UnreadableRun(f"{where}: run is not readable: {error}") from error
    if run.version != VERSION:
        raise UnreadableRun(f"{where}: run has version {run.version}, this program reads {VERSION}")
    return run
