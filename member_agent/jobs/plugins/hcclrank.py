"""hcclrank: the rank of a pod for Huawei's collective communication library, as an annotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import flag, read
from member_agent.jobs.plugins.draft import Draft
from member_agent.jobs.plugins.protocol import Plugin

ANNOTATION: Final = "hccl/rankIndex"
RANK: Final = "RANK"


@dataclass(frozen=True)
class _Arguments:
    master: str = flag("master", "master")
    worker: str = flag("worker", "worker")


class HcclRank(Plugin):
    """An annotation or a RANK that is there already is the rank; else masters come first, then workers."""

    name = "hcclrank"

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        rank = draft.annotations.get(ANNOTATION) or draft.env(RANK) or self._rank(job, task, index)
        if rank:
            draft.annotations[ANNOTATION] = rank

    def _rank(self, job: JobFacts, task: TaskFacts, index: int) -> str:
        if task.name == self._given.master:
            return str(index)
        if task.name != self._given.worker:
            return ""
        master = job.tasks.get(self._given.master)
        return str((master.replicas if master else 0) + index)
