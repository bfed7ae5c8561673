"""env: the pod's index in its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import read
from member_agent.jobs.plugins.draft import EVERY, Draft
from member_agent.jobs.plugins.protocol import Plugin

INDEX_ENV: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")
"""The second is what older programs read."""


@dataclass(frozen=True)
class _Arguments:
    pass


class Env(Plugin):
    """Variables in containers and init containers."""

    name = "env"

    def __init__(self, arguments: Sequence[str]) -> None:
        read(_Arguments, arguments, plugin=self.name)

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        draft.set_env([{"name": name, "value": str(index)} for name in INDEX_ENV], *EVERY)
