"""pytorch: where the master listens, how many processes there are, and which of them a pod is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import BadArgument, flag, read
from member_agent.jobs.plugins.draft import Draft
from member_agent.jobs.plugins.protocol import Plugin

MASTER_ADDR: Final = "MASTER_ADDR"
MASTER_PORT: Final = "MASTER_PORT"
WORLD_SIZE: Final = "WORLD_SIZE"
RANK: Final = "RANK"
PORT_NAME: Final = "pytorchjob-port"
WAITER: Final = "wait-for-master"
WAIT: Final = """\
listens() {
  if command -v nc >/dev/null 2>&1; then
    nc -z -w 2 "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null
  else
    bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null
  fi
}
end=$(($(date +%s) + TIMEOUT))
until listens; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "the master $MASTER_ADDR:$MASTER_PORT did not listen within TIMEOUT s" >&2
    exit 1
  fi
  sleep 1
done
"""
"""Waits in an image that has `nc`, or else bash: many images of frameworks have only that."""


@dataclass(frozen=True)
class _Arguments:
    master: str = flag("master", "master")
    worker: str = flag("worker", "worker")
    port: int = flag("port", 23456, port=True)
    wait: bool = flag("wait-master-enabled", False)
    timeout: int = flag("wait-master-timeout", 300)
    image: str = flag("wait-master-image", "busybox:1.36.1")


class Pytorch(Plugin):
    """Ranks: masters first, then workers. A Job without the master's task is left as it is."""

    name = "pytorch"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)
        if self._given.timeout <= 0:
            text = f"{self._given.timeout} is no number of seconds above 0"
            raise BadArgument(text, plugin=self.name, argument="--wait-master-timeout")

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        master = job.tasks.get(self._given.master)
        if master is None:
            return
        common = [
            {"name": MASTER_ADDR, "value": master.host(0)},
            {"name": MASTER_PORT, "value": str(self._given.port)},
        ]
        draft.set_env([*common, {"name": WORLD_SIZE, "value": str(self._world(job))}])
        for container in draft.containers():
            draft.open_port(container, name=PORT_NAME, number=self._given.port)
        if self._given.wait and task.name == self._given.worker:
            draft.add_init_container(self._waiter(common))

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        master = job.tasks.get(self._given.master)
        if master is None or task.name not in (self._given.master, self._given.worker):
            return
        rank = index if task.name == self._given.master else master.replicas + index
        draft.set_env([{"name": RANK, "value": str(rank)}])

    def _world(self, job: JobFacts) -> int:
        return sum(job.tasks[name].replicas for name in {self._given.master, self._given.worker} if name in job.tasks)

    def _waiter(self, env: list[dict[str, Any]]) -> dict[str, Any]:
        script = WAIT.replace("TIMEOUT", str(self._given.timeout))
        return {"name": WAITER, "image": self._given.image, "command": ["sh", "-c", script], "env": env}
