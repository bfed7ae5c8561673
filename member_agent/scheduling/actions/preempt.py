"""Evicts less important pods for gangs that wait in the same queue, and less important tasks of a gang for more important ones.

Strictly lower priority only, whatever plugins say: so that no two gangs evict each other in turns (protocol.md 6). A gang that
starves is given what it needs whole, or nobody goes for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from member_agent.scheduling.actions.starving import Starving
from member_agent.scheduling.candidates import Candidates, candidates_of
from member_agent.scheduling.clearing import Clearing
from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView

REASON = "PreemptionByScheduler"
"""Of the pods' condition DisruptionTarget."""


def preempt(session: OpenSession) -> Iterator[None]:
    """Between gangs of one queue first, then within gangs."""
    starving = Starving(session)
    if not starving:
        return
    with Clearing(session, action="preempt") as clearing:
        known: dict[tuple[str, int, int], Candidates] = {}
        for gang in starving.in_order():
            yield
            key = (gang.group.queue, gang.priority, len(session.turnover.evictions))
            among = known.get(key)
            if among is None:
                among = known[key] = _below(session, gang)
            starving.serve(gang, partial(_between, session, clearing, gang, among))
        for gang in starving.in_order():
            _within(session, clearing, gang)


def _below(session: OpenSession, gang: Waiting) -> Candidates:
    """Pods of less important gangs of its queue."""
    return candidates_of(session, session.turnover.holders.of(gang.group.queue, gang.priority))


def _between(session: OpenSession, clearing: Clearing, gang: Waiting, among: Candidates, pods: Sequence[PodView]) -> bool:
    def why(victim: Victim) -> Reason:
        text = f"pod {victim.pod.name} of priority {victim.priority} made room for {gang.group.name}"
        return Reason(REASON, f"{text} of priority {gang.priority} in queue {gang.group.queue}")

    def ask(asking: Waiting, victims: Sequence[Victim]) -> Sequence[Victim]:
        return session.tiers.preemptable(asking, victims=victims)

    return bool(len(among)) and clearing.clear(gang, pods, among=among, ask=ask, why=why)


def _within(session: OpenSession, clearing: Clearing, gang: Waiting) -> None:
    """Pods of the gang that wait take the room of less important ones of the gang, one by one."""
    stands = session.turnover.holders.one(gang.key)
    if stands is None or gang.group.admitted or not stands.group.preemptable:
        return
    for pod in session.tiers.tasks_in_order(gang.pods):
        lower = replace(stands, pods=tuple(each for each in stands.pods if each.priority < pod.priority))
        if not lower.pods:
            continue
        found = candidates_of(session, [lower])
        among = Candidates([replace(each, priority=each.pod.priority) for each in found], columns=session.room.layout.columns)
        _between(session, clearing, replace(gang, priority=pod.priority), among, [pod])
