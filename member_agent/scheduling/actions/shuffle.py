"""Evicts whom plugins name, whoever waits: to empty nodes, or to move pods to better ones.

Nobody is kept room for; the pods are placed anew like any others. Protected pods and those that the hub runs stay.
"""

from __future__ import annotations

from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession

REASON = "MovedByScheduler"
"""Of the pods' condition DisruptionTarget."""


def shuffle(session: OpenSession) -> None:
    """Each pod once, and none that goes already or could not be evicted."""
    turnover = session.turnover
    gone = turnover.holders.stuck | turnover.holders.going.keys() | {each.pod.uid for each in turnover.evictions}
    victims = [victim for victim in session.tiers.victims() if victim.pod.uid not in gone and _may_go(session, victim)]
    reasons = {each.pod.uid: Reason(REASON, f"pod {each.pod.name} is moved: a plugin wants it elsewhere") for each in victims}
    turnover.evict(victims, action="shuffle", reason=reasons, beneficiary=None)


def _may_go(session: OpenSession, victim: Victim) -> bool:
    stands = session.turnover.holders.one(victim.gang)
    if stands is None or stands.group.admitted or not stands.group.preemptable:
        return False
    return victim.pod.manner.preemptable and not victim.pod.deleting
