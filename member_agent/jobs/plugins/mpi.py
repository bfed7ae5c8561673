"""mpi: the master knows its workers, and the workers' ssh port is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import flag, read
from member_agent.jobs.plugins.draft import EVERY, Draft
from member_agent.jobs.plugins.protocol import Plugin

HOSTS: Final = "MPI_HOST"
PORT_NAME: Final = "mpijob-port"


@dataclass(frozen=True)
class _Arguments:
    master: str = flag("master", "master")
    worker: str = flag("worker", "worker")
    port: int = flag("port", 22, port=True)


class Mpi(Plugin):
    """The list of hosts is that at the making of the master's pod."""

    name = "mpi"
    needs = ("svc", "ssh")

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)

    def problems(self, job: JobFacts) -> Iterator[str]:
        if self._given.master not in job.tasks:
            yield f"--master: there is no task {self._given.master!r}"

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        workers = job.tasks.get(self._given.worker)
        if task.name == self._given.master and workers is not None:
            draft.set_env([{"name": HOSTS, "value": ",".join(workers.hosts())}], *EVERY)
        if task.name == self._given.worker:
            for container in draft.containers(*EVERY):
                draft.open_port(container, name=PORT_NAME, number=self._given.port)
