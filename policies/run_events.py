"""What happens to a run, and what follows for its Works: the words of the table in `policies.runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apis.runs import Ground, Held, RefusalReason, Share

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """The planner chose: cluster name to (cluster UID, fence number). `shares`: minimum and shares of tasks of each part that
    is not all of the Job."""

    parts: Mapping[str, tuple[str, int]]
    shares: Mapping[str, tuple[int, Mapping[str, Share]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restamp:
    """A part that has not started gets the fence number of now."""

    cluster: str
    fence: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The member refused the Work; `spent` retries of this epoch. `newest`: the epoch it knows, where that was the reason."""

    cluster: str
    reason: RefusalReason
    spent: int = 0
    newest: int = 0


@dataclass(frozen=True, slots=True)
class StartTimedOut:
    """The part did not start within its start time-out."""

    cluster: str
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Somebody else deleted the Work; it is going."""

    cluster: str
    spent: int = 0


@dataclass(frozen=True, slots=True)
class LocallyDeleted:
    """The member's Job was deleted in the member, and the agent knows its pods to be gone (A6). `again`: its policy says to
    place it again."""

    cluster: str
    spent: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class Evicted:
    """The hub takes the part away from its cluster (drain, taint, failover, rebalance): H2, then elsewhere. `moved_for`: the
    wish to be placed anew that this answers; `failed`: it was not whole there."""

    cluster: str
    spent: int = 0
    moved_for: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Stayed:
    """A wish to be placed anew was looked at: it is best where it is."""

    moved_for: str


@dataclass(frozen=True, slots=True)
class Lost:
    """H4: a person has said that the cluster is lost, and its Lease is fenced: `by` whom and when (`at`, RFC 3339)."""

    cluster: str
    by: str
    at: str
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """A person, or the annotation `suspend`, wants it not to run."""

    held: Held
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """It may be granted again."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The part is known to have ended."""

    cluster: str
    ground: Ground
    by: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """A terminal phase was folded; it is recorded in the binding's status."""

    phase: str


Event = (
    Grant
    | Restamp
    | Refused
    | StartTimedOut
    | Withdrawn
    | LocallyDeleted
    | Evicted
    | Stayed
    | Lost
    | Hold
    | Resume
    | Gone
    | End
)


# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateWork:
    """Create the Work of this part, with its run record copied from the binding just written."""

    cluster: str


@dataclass(frozen=True, slots=True)
class RewriteRecord:
    """Copy the run record to the Work again."""

    cluster: str


@dataclass(frozen=True, slots=True)
class DeleteWork:
    """Delete the Work of this part, its UID as precondition: the order to stop."""

    cluster: str


@dataclass(frozen=True, slots=True)
class RewriteManifest:
    """Make the Work's manifest anew from the Job as it is now: it was edited."""

    cluster: str


@dataclass(frozen=True, slots=True)
class PassOn:
    """Write on the Work of this part what the binding says that its member is asked to do."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Say on the Work of this part whether it takes updates: its policy suspends dispatching, or no longer."""

    cluster: str
    paused: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Delete the Work of this part and let what runs stay: the member's own from then on (`preserveResourcesOnDeletion`)."""

    cluster: str


Effect = Pause | Leave | CreateWork | RewriteRecord | RewriteManifest | PassOn | DeleteWork
