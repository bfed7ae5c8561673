"""A plan: what to write, and what each write relied on. Values only; the applier alone acts on them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from apis.runs import BindingRun, Failover
from federation.dispatch.snapshot import Key
from policies.runs import Effect
from policies.verdicts import Decision


class Act(enum.StrEnum):
    """What a decision does, for people and metrics."""

    PLACE = "Place"
    WAIT = "Wait"
    REFUSE = "Refuse"
    HOLD = "Hold"
    STOP = "Stop"
    RESTAMP = "Restamp"
    RECORD = "Record"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run record says beside the binding (design.md 3). Times in whole seconds."""

    exclusive: bool = True
    failover: Failover = Failover.CONTINUE
    fence_after: int = 600
    max_run_time: int | None = None
    paused: bool = False
    """The policy suspends dispatching: to all clusters, or to those in `paused_on`."""
    paused_on: tuple[str, ...] = ()
    preserves: bool = False
    """What runs stays in its member when the Job is deleted."""

    def pauses(self, cluster: str) -> bool:
        """Whether Works of this cluster take no updates."""
        return self.paused or cluster in self.paused_on


@dataclass(frozen=True, slots=True)
class Relied:
    """The binding that a plan looked at: its UID and resourceVersion must still be these."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Versions:
    """What a grant was decided by, beside Job and binding: each must still be so when it is committed (protocol.md 3)."""

    policy: tuple[str, str, str, str] | None = None
    """Namespace, name, UID and resourceVersion; None for the default."""
    queues: tuple[tuple[str, str, int, bool], ...] = ()
    """Name, UID, generation and whether it is open: of the Job's queue and its ancestors."""
    fences: tuple[tuple[str, int], ...] = ()
    """Cluster and F of its Lease."""


@dataclass(frozen=True, slots=True)
class Governed:
    """The policy that governs a new binding; empty names for the default."""

    namespace: str = ""
    name: str = ""
    placement: bytes = b""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Decide:
    """Write the binding by compare-and-set (create it where `relied` is None), then carry out `effects` in order.

    `proofs`: clusters whose Work must be absent in a quorum read before the write. `queue`: a Queue that must
    refuse Jobs in quorum reads before the Job is refused for it.
    """

    key: Key
    act: Act
    job_uid: str
    relied: Relied | None
    run: BindingRun
    clusters: tuple[str, ...] = ()
    decision: Decision | None = None
    effects: tuple[Effect, ...] = ()
    proofs: tuple[str, ...] = ()
    ungranted: BindingRun | None = None
    """Where this grants: the record without the grant."""
    terms: Terms = Terms()
    governed: Governed = Governed()
    queue: str = ""
    generation: int = 0
    """Of the Job that was packed: what is placed is what was looked at."""
    versions: Versions = Versions()
    """Where this grants: what the choice relied on."""
    sure: bool = False
    """Where this grants: the member's own profile says that it fits."""
    evicted: tuple[str, ...] = ()
    """Clusters from which the hub takes the run away by this."""
    lost: tuple[str, ...] = ()
    """Clusters that are declared lost: what may still arrive there starts nothing (A1)."""


@dataclass(frozen=True, slots=True)
class Carry:
    """Carry out what the binding says already; it must be unchanged in a quorum read."""

    key: Key
    job_uid: str
    relied: Relied
    run: BindingRun
    effects: tuple[Effect, ...]
    terms: Terms = Terms()


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete Works that no binding stands for: (namespace, name, UID) each. `relied` None: there must be no binding; its
    Job, if it lives, remembers the highest of their epochs."""

    key: Key
    relied: Relied | None
    works: tuple[tuple[str, str, str], ...]
    job_uid: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Shrink:
    """Reduce Works of an ended run to identity and result: (namespace, name, resourceVersion) each. That version showed the
    end, and an end never changes."""

    key: Key
    works: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let a binding go that is being deleted: its Works must be absent in quorum reads, then its finalizer is removed."""

    key: Key
    relied: Relied
    job_uid: str
    epoch: int
    proofs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete a binding whose Job is gone, if a quorum read agrees that it is."""

    key: Key
    relied: Relied
    job_uid: str


Item = Decide | Carry | Sweep | Shrink | Release | Discard


@dataclass(frozen=True, slots=True)
class Plan:
    """Items in the order they are to be committed; `rest` are cases left for the next round."""

    items: tuple[Item, ...] = ()
    rest: tuple[Key, ...] = ()
    unclear: tuple[tuple[Key, str], ...] = ()
    """Cases whose story has no edge in the table, each with that story: left alone, and told."""
    asks: tuple[tuple[Key, str, tuple[str, ...]], ...] = ()
    """Cases that wait, each with the hash under which it is asked about and the clusters whose scheduler could tell more."""
    later: tuple[tuple[Key, float], ...] = ()
    """Cases in which something comes due, and in how many seconds."""

    def encoded(self) -> bytes:
        """The plan as bytes: equal for equal snapshots."""
        named = [(type(item).__name__, item) for item in self.items]
        return msgspec.json.encode((named, self.rest, self.unclear, self.asks, self.later), order="deterministic")
