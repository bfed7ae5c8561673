"""All or nothing: a gang is placed when its minimum is, as a whole and of every task."""

from __future__ import annotations

from collections.abc import Mapping

from member_agent.scheduling.plugins.protocol import Ballot, Order, Plugin, Vote
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.views.waits import NOT_ENOUGH_OF_TASK, NOT_ENOUGH_TASKS


def floors(gang: Waiting) -> dict[str, int]:
    """Minimum by task; nothing where the tasks' minima add up to more than the gang's: then only the total counts."""
    if not gang.group.min_task_member:
        return {}
    found = dict(gang.group.min_task_member)
    return {} if sum(found.values()) > gang.group.min_member else found


class Gang(Plugin):
    """Minima of the gang and of its tasks."""

    name = "gang"

    def job_order(self, gang: Waiting) -> Order:
        """Gangs that are not whole go first."""
        return int(self.job_ready(gang, placed=gang.tally.placed))

    def job_valid(self, gang: Waiting) -> Reason | None:
        there = dict(gang.tally.placed)
        for pod in gang.pods:
            there[pod.task] = there.get(pod.task, 0) + 1
        return _missing(gang, there)

    def job_ready(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        return not _missing(gang, placed)

    def job_pipelined(self, gang: Waiting, *, placed: Mapping[str, int]) -> Ballot:
        return _missing(gang, placed) or Vote.PERMIT

    def job_starving(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        return not self.job_ready(gang, placed=placed)


def _missing(gang: Waiting, there: Mapping[str, int]) -> Reason | None:
    """What of the minimum is not there."""
    total = sum(there.values())
    if total < gang.group.min_member:
        return Reason(NOT_ENOUGH_TASKS, f"{total} of {gang.group.min_member} pods of the gang exist")
    for task, floor in floors(gang).items():
        if there.get(task, 0) < floor:
            return Reason(NOT_ENOUGH_OF_TASK, f"{there.get(task, 0)} of {floor} pods of task {task} exist")
    return None
