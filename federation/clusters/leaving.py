"""What becomes of a member that people drain, declare lost or remove from the federation. Pure: from what is known to one step
and to the words that people read.

Whoever has runs there keeps them until they are known to have ended (protocol.md 2): of a member that answers, its agent
confirms; of one that does not, a person has to declare it lost (H4).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apis.cluster_orders import Order
from apis.runs import PartState
from federation.clusters.health import ALIVE, SILENT
from policies.members import ClusterView, LeaseView
from policies.views import BindingView, WorkView

DRAINED: Final = "Drained"
LOST: Final = "DeclaredLost"
"""Types of the conditions of a Cluster that tell of it."""

Said = tuple[str, str, str]
"""Status, reason and message of a condition."""


class Step(enum.Enum):
    """What is to be done next."""

    NOTHING = "nothing"
    FENCE = "put F + 1 on the Lease: its runs are declared lost"
    FORGET = "the order has been carried out, or refused: take it off the Cluster"
    EMPTY = "delete what Works are left there: no run needs them"
    STRIP = "let the Works of a lost member go: nobody is there to confirm"
    LEAVE = "delete its namespace with what was exchanged there, and let the Cluster go"


@dataclass(frozen=True, slots=True)
class Left:
    """What of the hub is at a member: runs that are granted and that stop, other Works, and Works of all kinds."""

    granted: int = 0
    stopping: int = 0
    works: tuple[WorkView, ...] = ()

    @property
    def runs(self) -> int:
        """Runs that are not known to have ended."""
        return self.granted + self.stopping

    @property
    def text(self) -> str:
        """For people."""
        if not self.runs:
            return "no run is left"
        words = [f"{self.stopping} stopping"] if self.stopping else []
        words += [f"{self.granted} waiting for their turn"] if self.granted else []
        return f"{_runs(self.runs)} left ({', '.join(words)})"


def left_at(cluster: str, *, bindings: Iterable[BindingView], works: Iterable[WorkView]) -> Left:
    """What is at a member by the decisions of the bindings; a Job that has ended runs nowhere."""
    states = [
        binding.run.parts[cluster].state
        for binding in bindings
        if binding.run is not None and not binding.ended and cluster in binding.run.parts
    ]
    return Left(
        granted=states.count(PartState.GRANTED),
        stopping=states.count(PartState.STOPPING),
        works=tuple(sorted((work for work in works if work.cluster == cluster), key=lambda work: work.name)),
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One member. `pulse`: whether it is heard from (`health`); `renewed`: its Lease was renewed since this leader first saw
    that it is to be declared lost. `left` is asked for only of one that is drained or leaves."""

    cluster: ClusterView
    lease: LeaseView | None
    pulse: str
    renewed: bool = False
    left: Left = Left()


@dataclass(frozen=True, slots=True)
class Plan:
    """The step, and conditions to be said: None takes one away."""

    step: Step = Step.NOTHING
    says: tuple[tuple[str, Said | None], ...] = ()


def plan(snapshot: Snapshot) -> Plan:
    """A person's word first, then unjoining, then what is told of a drain."""
    step, lost = _declared(snapshot)
    says: tuple[tuple[str, Said | None], ...] = ((DRAINED, _drained(snapshot)),)
    if lost is not None:
        says = (*says, (LOST, lost))
    if step is Step.NOTHING and snapshot.cluster.deleting:
        step = _leaving(snapshot)
    return Plan(step, says)


def _declared(snapshot: Snapshot) -> tuple[Step, Said | None]:
    """H4. An order is carried out once, or refused once: one that stood would act at the next silence."""
    cluster, lease = snapshot.cluster, snapshot.lease
    holds = lease.lost if lease is not None else None
    told = cluster.conditions.get(LOST, ("", ""))
    if Order.DECLARE_LOST not in cluster.orders:
        if holds is not None:
            return Step.NOTHING, _word(holds.by, holds.at, holds.why)
        returned = ("False", "Returned", "it has renewed its Lease since: what was granted before is stopped there")
        return Step.NOTHING, returned if told[0] == "True" else None
    stamp, why = cluster.stamp(Order.DECLARE_LOST), cluster.orders[Order.DECLARE_LOST]
    if holds is not None:
        return Step.FORGET, _word(holds.by, holds.at, holds.why)
    if snapshot.renewed:
        text = f"declared lost{_by(stamp.by)}, and it has renewed its Lease since: drain it, or unjoin it"
        return Step.FORGET, ("False", "MemberAlive", text)
    if snapshot.pulse == ALIVE:
        return Step.NOTHING, ("False", "WaitingForSilence", f"{why or 'declared lost'}: it was heard from a moment ago")
    if lease is None:
        return Step.FORGET, ("False", "NotRegistered", "it has no Lease, and so nothing was ever granted to it")
    return Step.FENCE, None


def _word(by: str, at: str, why: str) -> Said:
    return ("True", "Declared", f"declared lost{_by(by)} at {at}" + (f": {why}" if why else ""))


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def _drained(snapshot: Snapshot) -> Said | None:
    cluster, left = snapshot.cluster, snapshot.left
    if not cluster.draining:
        return None
    lost = snapshot.lease.lost if snapshot.lease is not None else None
    whose = "" if cluster.deleting else _by(cluster.stamp(Order.DRAIN).by)
    said = f"{left.text}; drained{whose}" if whose else left.text
    if not left.runs:
        return ("True", "Unjoining" if cluster.deleting else "Drained", said)
    if snapshot.pulse == SILENT and lost is None:
        text = f"{left.text}; it is not heard from: they stay until it is, or until it is declared lost"
        return ("False", "MemberAbsent", text)
    return ("False", "Unjoining" if cluster.deleting else "Draining", said)


def _leaving(snapshot: Snapshot) -> Step:
    """Bounded and resumable: runs first, then what else was sent, then the place where it was exchanged."""
    left, lost = snapshot.left, snapshot.lease.lost if snapshot.lease is not None else None
    if not snapshot.cluster.finalized or left.runs:
        return Step.NOTHING
    if any(not work.deleting for work in left.works):
        return Step.EMPTY
    if left.works:
        # Nothing of a run is left: what waits is the word of an agent, and a lost or never seen member has none.
        return Step.STRIP if lost is not None and snapshot.pulse != ALIVE else Step.NOTHING
    return Step.LEAVE


def _runs(count: int) -> str:
    return "1 run is" if count == 1 else f"{count} runs are"
