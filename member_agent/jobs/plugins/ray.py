"""ray: head and workers start a Ray cluster, and a Service leads to its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import flag, read
from member_agent.jobs.plugins.draft import Draft
from member_agent.jobs.plugins.protocol import Child, KeyMaker, Plugin, object_of

GCS: Final = "gcs"
DASHBOARD: Final = "dashboard"
CLIENT: Final = "client-server"


@dataclass(frozen=True)
class _Arguments:
    head: str = flag("head", "head")
    worker: str = flag("worker", "worker")
    head_container: str = flag("headContainer", "head")
    worker_container: str = flag("workerContainer", "worker")
    port: int = flag("port", 6379, port=True)
    dashboard_port: int = flag("dashboardPort", 8265, port=True)
    client_port: int = flag("clientPort", 10001, port=True)


class Ray(Plugin):
    """The commands of the two named containers are Ray's own; other containers and tasks are left as they are."""

    name = "ray"
    needs = ("svc",)

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)

    def problems(self, job: JobFacts) -> Iterator[str]:
        if self._given.head not in job.tasks:
            yield f"--head: there is no task {self._given.head!r}"

    def objects(self, job: JobFacts, *, keys: KeyMaker) -> Iterator[Child]:
        name = f"{job.name}-head-svc"
        yield Child(
            kinds.SERVICE, name, lambda: object_of(kinds.SERVICE, name, job=job, spec=self._service(job)), plugin=self.name
        )

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        given = self._given
        for container in draft.containers():
            if (task.name, container.get("name")) == (given.head, given.head_container):
                for name, number in self._ports().items():
                    draft.open_port(container, name=name, number=number)
                container["command"] = ["sh", "-c", self._start_head()]
            elif (task.name, container.get("name")) == (given.worker, given.worker_container):
                address = f"{job.tasks[given.head].host(0)}:{given.port}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def _start_head(self) -> str:
        given = self._given
        flags = f"--port={given.port} --dashboard-port={given.dashboard_port} --ray-client-server-port={given.client_port}"
        return f"ray start --head --block --dashboard-host=0.0.0.0 {flags}"

    def _ports(self) -> dict[str, int]:
        return {GCS: self._given.port, DASHBOARD: self._given.dashboard_port, CLIENT: self._given.client_port}

    def _service(self, job: JobFacts) -> dict[str, Any]:
        declared = self._declared(job)
        return {
            "selector": {keys.JOB_NAME: job.name, keys.JOB_NAMESPACE: job.namespace, keys.TASK_SPEC: self._given.head},
            "ports": [
                # A port that the template declares itself keeps its own name, so only its number leads to it.
                {"name": name, "port": number, "protocol": "TCP", "targetPort": number if number in declared else name}
                for name, number in self._ports().items()
            ],
        }

    def _declared(self, job: JobFacts) -> set[int]:
        head = job.tasks.get(self._given.head)
        containers = ((head.template.get("spec") or {}).get("containers") or []) if head else []
        return {port.get("containerPort") for each in containers for port in each.get("ports") or []}
