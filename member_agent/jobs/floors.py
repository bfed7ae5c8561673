"""Which pods of a Job count: the lowest version per scope, and which indices succeeded already. Pure.

A kill raises the version of the Job and the floor of its scope in one status write; whoever looks afterwards knows which pods
are from before, and may be deleted, whatever happened to the one who decided it.
"""

from __future__ import annotations

from collections.abc import Mapping

from member_agent.jobs import ranges
from member_agent.jobs.roster import Roster
from member_agent.views import JobMemory, JobView, PodView, Rules

WHOLE = ""
NOTHING = JobMemory()


class Floors:
    """The floors of one Job as its status remembers them."""

    def __init__(self, job: JobView, *, done: Mapping[str, str] | None = None) -> None:
        """`done`: indices that succeeded, by task, where they are not those that the status remembers."""
        memory = job.status.memory
        floors = memory.floors
        if job.status.version and memory == NOTHING:
            floors = {
                WHOLE: job.status.version
            }  # somebody else's CRD drops the memory: then a kill means all pods, as upstream
        self._floors: Mapping[str, int] = floors
        self._rules: Rules = job.rules
        self._done = {task: ranges.read(text) for task, text in (memory.done if done is None else done).items()}
        self.whole = floors.get(WHOLE, 0)

    def of(self, task: str, index: int) -> int:
        """The lowest version that counts for this place."""
        if not self._floors:
            return 0
        scopes = (WHOLE, task, partition_scope(task, index, rules=self._rules), pod_scope(task, index))
        return max(self._floors.get(scope, 0) for scope in scopes if scope is not None)

    def stale(self, pod: PodView) -> bool:
        """Made before the last kill that meant it."""
        return bool(self._floors) and pod.job_version < self.of(pod.task, pod.index)

    def any_stale(self, roster: Roster) -> bool:
        """A quick look first: no pod is older than the highest floor."""
        if not self._floors or not roster.versions:
            return False
        highest = max(self._floors.values())
        return min(roster.versions) < highest and any(self.stale(pod) for pod in roster.pods.values())

    def done(self, task: str) -> frozenset[int]:
        """Indices that succeeded in the present run, whether or not their pods are still there."""
        return self._done.get(task, frozenset())

    def gone_but_done(self, task: str, *, roster: Roster) -> int:
        """Of these, those whose pods were deleted since."""
        there = roster.there(task)
        return sum(index not in there for index in self.done(task))


def pod_scope(task: str, index: int) -> str:
    """The scope of one pod."""
    return f"{task}#{index}"


def covers(scope: str, task: str, index: int, *, rules: Rules) -> bool:
    """Whether a pod of this place belongs to the scope."""
    return scope in (WHOLE, task, pod_scope(task, index)) or scope == partition_scope(task, index, rules=rules)


def partition_scope(task: str, index: int, *, rules: Rules) -> str | None:
    """The scope of a pod's partition; None where the task has none."""
    size = rules.role(task).partition
    return f"{task}/{index // size}" if size else None
