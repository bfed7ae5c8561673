"""All or nothing: a gang is placed when its minimum is, as a whole and of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from machinery.informer import Key
from member_agent.scheduling.plugins.protocol import Ballot, Order, Plugin, Victim, Vote
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import GroupView
from member_agent.views.waits import NOT_ENOUGH_OF_TASK, NOT_ENOUGH_TASKS


def floors(gang: Waiting) -> dict[str, int]:
    """Minimum by task; nothing where the tasks' minima add up to more than the gang's: then only the total counts."""
    return floors_of(gang.group)


def floors_of(group: GroupView) -> dict[str, int]:
    """The same of a group."""
    if not group.min_task_member:
        return {}
    found = dict(group.min_task_member)
    return {} if sum(found.values()) > group.min_member else found


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

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        """Pods without which their gangs still have their minima. A minimum of one binds nobody: such a gang may go whole."""
        standing: dict[Key, dict[str, int]] = {}
        return [victim for victim in victims if self._spares(victim, standing)]

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim]:
        return self.preemptable(gang, victims=victims)

    def _spares(self, victim: Victim, standing: dict[Key, dict[str, int]]) -> bool:
        """Whether the gang can do without it beside those that were counted out before; then it is."""
        group, task = victim.group, victim.pod.task
        if group is None or group.min_member <= 1:
            return True
        left = standing.setdefault(victim.gang, dict(self.session.standing(victim.gang)))
        if sum(left.values()) <= group.min_member or left.get(task, 0) <= floors_of(group).get(task, 0):
            return False
        left[task] -= 1
        return True


def _missing(gang: Waiting, there: Mapping[str, int]) -> Reason | None:
    """What of the minimum is not there."""
    group, total = gang.group, sum(there.values())
    if total < group.min_member:
        return Reason(NOT_ENOUGH_TASKS, f"{total} of {group.min_member} pods of the gang exist")
    if not group.min_task_member:
        return None
    for task, floor in floors(gang).items():
        if there.get(task, 0) < floor:
            return Reason(NOT_ENOUGH_OF_TASK, f"{there.get(task, 0)} of {floor} pods of task {task} exist")
    return None
