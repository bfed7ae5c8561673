"""Pods that have just started are left to run for their cool-down before anybody may evict them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Nothing, Plugin, Session, Victim
from member_agent.scheduling.snapshot import Waiting


class Cdp(Plugin):
    """By annotation or label `volcano.sh/cooldown-time` of the pod; one that has not started yet has nothing to lose."""

    name = "cdp"

    def __init__(self, arguments: Nothing, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._next = math.inf

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return [victim for victim in victims if not self._cools(victim)]

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return self.preemptable(gang, victims=victims)

    def wakes(self) -> float:
        """When the first pod that was asked for may go."""
        return self._next

    def _cools(self, victim: Victim) -> bool:
        pod = victim.pod
        until = pod.since + pod.manner.cooldown
        if not pod.manner.cooldown or not pod.since or until <= self.session.now:
            return False
        self._next = min(self._next, until)
        return True
