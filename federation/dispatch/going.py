"""Runs that leave a cluster before they have ended, or that it took with it: eviction (H2) and the word of a person (H4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from apis.cluster_orders import Declaration
from apis.runs import Ground, Part, PartState
from federation.dispatch.look import Look
from federation.dispatch.snapshot import Case, Member
from policies.departures import AILING, REBALANCED, Departure, departure
from policies.placements import PolicyView
from policies.runs import Evicted, Gone, Lost, RunState, Stayed
from policies.verdicts import Decision, Outcome, shortened
from policies.views import WorkView

Leaving = Callable[[str], Departure | None]
"""Why the run has to leave a cluster, and when; None: it may stay."""


def nobody_leaves(_: str) -> Departure | None:
    """Every cluster keeps what it has."""
    return None


class Departures:
    """Of one round: why runs have to leave, one after the other, so that what is placed again does not come all at once.
    `settle` in seconds, `rate` in runs a second and cluster."""

    def __init__(self, members: Mapping[str, Member], *, settle: float, rate: float) -> None:
        self._members = members
        self._settle = settle
        self._rate = rate
        self._left = {name: member.leaves for name, member in members.items()}

    def __call__(self, case: Case, *, policy: PolicyView) -> Leaving:
        """The question for one case."""
        return lambda cluster: self._of(case, cluster, policy=policy)

    def _of(self, case: Case, cluster: str, *, policy: PolicyView) -> Departure | None:
        member = self._members.get(cluster)
        if member is None:
            return None
        found = departure(
            member.cluster,
            policy=policy,
            standing=member.standing,
            ailing=case.ailing.get(cluster),
            settle=self._settle,
            ready_for=member.ready_for,
        )
        if found is None or found.due > 0:
            return found
        return replace(found, due=self.turn(cluster))

    def turn(self, cluster: str) -> float:
        """Seconds until one more may leave the cluster; whoever waits has its place in the row."""
        lacking = 1.0 - self._left[cluster]
        self._left[cluster] -= 1.0
        return max(lacking, 0.0) / self._rate


def buried(work: WorkView, member: Member | None) -> bool:
    """It stands for a run of a cluster that is declared lost, and waits for an agent that may never come (H4)."""
    lost = member.lost if member is not None else None
    return lost is not None and work.deleting and (work.record is None or work.record.fence < lost.fence)


def wishes_anew(seen: Look, case: Case) -> tuple[str, ...]:
    """The clusters where it runs, if somebody has asked since it was looked at last that it is placed anew."""
    binding, record = case.binding, seen.run.record
    if binding is None or not binding.reschedule > record.moved_for or seen.run.state is not RunState.GRANTED or seen.changed:
        return ()
    return tuple(name for name, part in sorted(record.parts.items()) if part.state is PartState.GRANTED)


def placed_anew(seen: Look, homes: tuple[str, ...], *, wish: str, better: tuple[str, ...], due: float) -> None:
    """A wish is answered: it stays where nothing is better, else it leaves, when it is its turn (`due` in seconds)."""
    if not better or set(better) == set(homes):
        seen.apply(Stayed(wish))
        text = f"{', '.join(homes)}: looked at anew, and best where it is"
        seen.why = Decision(outcome=Outcome.PLACED, reason="Placed", message=shortened(text))
        return
    if due > 0:
        seen.due = min(seen.due, due)
        return
    leaves = next((name for name in homes if name not in better), homes[0])
    seen.apply(Evicted(leaves, moved_for=wish))
    seen.evicted.append(leaves)
    text = f"{', '.join(homes)}: placed anew as somebody asked, {', '.join(better)} is better; stopped to be placed again"
    seen.why = Decision(outcome=Outcome.WAITING, reason=REBALANCED, message=shortened(text))


def declared(seen: Look, cluster: str, part: Part, *, lost: Declaration, spent: int) -> None:
    """H4: the word of a person is the ground, and the fence number sees to it that nothing of it starts any more."""
    if part.state is PartState.STOPPING:
        seen.apply(Gone(cluster, Ground.DECLARED, by=lost.by, at=lost.at))
    else:
        seen.apply(Lost(cluster, by=lost.by, at=lost.at, spent=spent))
    by = f" by {lost.by}" if lost.by else ""
    text = f"{cluster} was declared lost{by} at {lost.at}" + (f": {lost.why}" if lost.why else "")
    seen.why = Decision(outcome=Outcome.WAITING, reason="ClusterLost", message=shortened(text))


def leaves(seen: Look, cluster: str, *, leaving: Leaving, spent: int = 0) -> bool:
    """Whether the part is taken away now; when it will have to go otherwise."""
    if seen.run.record.parts[cluster].state is not PartState.GRANTED:
        return False
    found = leaving(cluster)
    if found is None:
        return False
    if found.due > 0:
        seen.due = min(seen.due, found.due)
        return False
    seen.apply(Evicted(cluster, spent=spent, failed=found.reason == AILING))
    seen.evicted.append(cluster)
    text = f"{found.message}; stopped to be placed again"
    seen.why = Decision(outcome=Outcome.WAITING, reason=found.reason, message=shortened(text))
    return True
