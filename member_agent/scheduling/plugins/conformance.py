"""What keeps the cluster itself alive is never evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from member_agent.scheduling.plugins.protocol import Plugin, Victim
from member_agent.scheduling.snapshot import Waiting

SYSTEM: Final = "kube-system"
CRITICAL: Final = 2_000_000_000
"""Lowest value of the system-critical PriorityClasses; people's own end at a billion."""


class Conformance(Plugin):
    """Pods of kube-system and of system-critical priority."""

    name = "conformance"

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return [victim for victim in victims if victim.pod.namespace != SYSTEM and victim.pod.priority < CRITICAL]

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return self.preemptable(gang, victims=victims)
