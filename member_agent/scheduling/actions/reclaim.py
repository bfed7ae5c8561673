"""Takes back what other queues borrow, for gangs of queues that hold less than they deserve.

Only for a gang that its queue is entitled to, and only from queues that are reclaimable and hold more than they deserve:
what is deserved or guaranteed is taken from nobody, whatever tier has the first word (protocol.md 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from apis.vectors import total
from member_agent.scheduling.actions.starving import Starving
from member_agent.scheduling.candidates import Candidates, candidates_of
from member_agent.scheduling.clearing import Clearing
from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView

REASON = "ReclaimByScheduler"
"""Of the pods' condition DisruptionTarget."""


def reclaim(session: OpenSession) -> Iterator[None]:
    """Queue by queue, who holds least first."""
    starving = Starving(session)
    if not starving:
        return
    with Clearing(session, action="reclaim") as clearing:
        known: dict[tuple[str, int], Candidates] = {}
        for gang in starving.in_order():
            yield
            if _overused(session, gang):
                continue
            key = (gang.group.queue, len(session.turnover.evictions))
            among = known.get(key)
            if among is None:
                among = known[key] = _of_others(session, gang)
            if len(among):
                starving.serve(gang, partial(_back, session, clearing, gang, among))


def _overused(session: OpenSession, gang: Waiting) -> bool:
    return not gang.group.admitted and session.tiers.overused(gang.group.queue) is not None


def _of_others(session: OpenSession, gang: Waiting) -> Candidates:
    """Pods of other queues that lend; the queue furthest over what it deserves first."""
    holders = session.turnover.holders
    others = [name for name in holders.queues() if name != gang.group.queue and _lends(session, name)]
    others.sort(key=session.tiers.queue_order, reverse=True)
    return candidates_of(session, [each for name in others for each in holders.of(name, None)], queues=others)


def _lends(session: OpenSession, queue: str) -> bool:
    found = session.queues.get(queue)
    return found is not None and found.reclaimable


def _back(session: OpenSession, clearing: Clearing, gang: Waiting, among: Candidates, pods: Sequence[PodView]) -> bool:
    """Clear room for these pods, if their queue deserves it."""
    request = total(pod.shape.requests for pod in pods)
    if not gang.group.admitted:
        refused = session.tiers.entitled(gang, request=request)
        if refused is not None:
            return False

    def why(victim: Victim) -> Reason:
        text = f"pod {victim.pod.name} of queue {victim.queue} made room for {gang.group.name}"
        return Reason(REASON, f"{text} of queue {gang.group.queue}, which takes back what it deserves")

    def ask(asking: Waiting, victims: Sequence[Victim]) -> Sequence[Victim]:
        return session.tiers.reclaimable(asking, victims=victims)

    return clearing.clear(gang, pods, among=among, ask=ask, why=why)
