"""Who is more important goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from member_agent.scheduling.plugins.protocol import Order, Plugin, Victim
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from member_agent.views.hints import TASK_PRIORITY, hint


class Priority(Plugin):
    """Gangs by the priority of their PriorityClass; pods by their own, then by that of their task, as annotated."""

    name = "priority"

    def job_order(self, gang: Waiting) -> Order:
        return -gang.priority

    def task_order(self, pod: PodView) -> Order:
        return -pod.priority, -_of_task(hint(pod.hints, TASK_PRIORITY))

    def job_starving(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        return bool(gang.pods)

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        """Strictly lower only, so that no two gangs evict each other in turns."""
        return [victim for victim in victims if victim.priority < gang.priority]


def _of_task(text: str) -> int:
    """A whole number; what is none counts as not given."""
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
