"""tensorflow: TF_CONFIG, which names the cluster and the pod's place in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import flag, read
from member_agent.jobs.plugins.draft import Draft
from member_agent.jobs.plugins.protocol import Plugin

CONFIG: Final = "TF_CONFIG"
PORT_NAME: Final = "tfjob-port"


@dataclass(frozen=True)
class _Arguments:
    ps: str = flag("ps", "ps")
    worker: str = flag("worker", "worker")
    chief: str = flag("chief", "chief")
    evaluator: str = flag("evaluator", "evaluator")
    port: int = flag("port", 2222, port=True)


class Tensorflow(Plugin):
    """A Job of one pod is no cluster and is left as it is."""

    name = "tensorflow"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)
        given = self._given
        self._types = {given.evaluator: "evaluator", given.chief: "chief", given.worker: "worker", given.ps: "ps"}
        self._clusters: dict[int, str] = {}

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        if _alone(job):
            return
        for container in draft.containers():
            draft.open_port(container, name=PORT_NAME, number=self._given.port)

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        if _alone(job):
            return
        place = json.dumps({"type": self._types.get(task.name, task.name), "index": index})
        draft.set_env([{"name": CONFIG, "value": f'{{"cluster": {self._cluster(job)}, "task": {place}}}'}])

    def _cluster(self, job: JobFacts) -> str:
        """Hosts by type, as JSON; the same for all pods, so made once per Job."""
        known = self._clusters.get(id(job))
        if known is None:
            found = {}
            for name, kind in sorted(self._types.items(), key=lambda each: each[1]):
                task = job.tasks.get(name)
                if task is not None and task.replicas:
                    found[kind] = [f"{task.host(index)}:{self._given.port}" for index in task.indices]
            known = json.dumps(found)
            self._clusters = {id(job): known}
        return known


def _alone(job: JobFacts) -> bool:
    return job.replicas == 1
