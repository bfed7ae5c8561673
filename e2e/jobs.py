"""Stories about single Jobs at one cluster: manifests of examples/jobs applied as they are, and what is to be seen of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from apis import keys, kinds
from apis.kinds import Kind
from e2e.apply import PATIENCE, Doc, apply, phase, wait_for
from e2e.controlplane.api import Api
from e2e.controlplane.cluster import RunningCluster
from machinery.kube import KubePort
from machinery.port import PatchType

EXAMPLES = Path(__file__).parents[1] / "examples" / "jobs"


def example(name: str) -> str:
    """A manifest of examples/jobs, as it is."""
    return (EXAMPLES / f"{name}.yaml").read_text()


async def tell(*stories: Coroutine[Any, Any, None]) -> None:
    """All stories at once. Each is told to its end, whatever becomes of the others; what went wrong is raised together."""
    told = await asyncio.gather(*stories, return_exceptions=True)
    if wrong := [each for each in told if isinstance(each, Exception)]:
        raise ExceptionGroup(f"{len(wrong)} of {len(told)} stories", wrong)


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace of one cluster, as a person with kubectl sees it."""

    port: KubePort
    api: Api
    namespace: str

    async def apply(self, name: str) -> None:
        """`kubectl apply -f examples/jobs/<name>.yaml`."""
        await apply(self.port, example(name), namespace=self.namespace)

    async def apply_only(self, name: str, *, kind: Kind) -> None:
        """Of a manifest, what is of this kind."""
        found = [doc for doc in yaml.safe_load_all(example(name)) if doc["kind"] == kind.kind]
        await apply(self.port, yaml.safe_dump_all(found), namespace=self.namespace)

    async def until(
        self, condition: Callable[[Doc], bool], name: str, *, kind: Kind = kinds.JOB, timeout: float = PATIENCE
    ) -> Doc:
        """The object, once it is there and as wanted."""
        found = await wait_for(
            self.port,
            kind,
            name,
            namespace=self.namespace,
            until=lambda doc: doc is not None and condition(doc),
            timeout=timeout,
        )
        assert found is not None
        return found

    async def reach(self, name: str, *phases: str, timeout: float = PATIENCE) -> Doc:
        """The Job in one of these phases."""
        return await self.until(lambda doc: phase(doc) in phases, name, timeout=timeout)

    async def gone(self, name: str, *, kind: Kind = kinds.JOB, timeout: float = PATIENCE) -> None:
        await wait_for(self.port, kind, name, namespace=self.namespace, until=lambda doc: doc is None, timeout=timeout)

    async def get(self, kind: Kind, name: str) -> Doc:
        found: Doc = orjson.loads(await self.port.get(kind, name, namespace=self.namespace))
        return found

    async def all(self, kind: Kind, *, labels: str = "") -> list[Doc]:
        page = await self.port.list(kind, namespace=self.namespace, labels=labels)
        return sorted((orjson.loads(item) for item in page.items), key=lambda doc: doc["metadata"]["name"])

    async def pods(self, job: str) -> dict[str, Doc]:
        """Pods of a Job by name without that of the Job: `worker-0`."""
        found = await self.all(kinds.POD, labels=f"{keys.JOB_NAME}={job}")
        return {pod["metadata"]["name"].removeprefix(f"{job}-"): pod for pod in found}

    async def pods_until(
        self, job: str, condition: Callable[[dict[str, Doc]], bool], *, timeout: float = PATIENCE
    ) -> dict[str, Doc]:
        """Its pods, once they are as wanted."""
        pods: dict[str, Doc] = {}
        try:
            async with asyncio.timeout(timeout):
                while not condition(pods := await self.pods(job)):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"pods of {job} within {timeout:.0f} s; last seen: {described(pods)}") from None
        return pods

    async def started(self, job: str, *, pods: int) -> Doc:
        """The Job when so many of its pods are made: its PodGroup and what its plugins make are there while it runs."""
        await self.pods_until(job, lambda found: len(found) >= pods)
        return await self.get(kinds.JOB, job)

    async def log(self, pod: str, *, container: str = "") -> str:
        """What a container said."""
        query = f"?container={container}" if container else ""
        return (await self.api.raw("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log{query}")).decode()

    async def told(self, name: str, *, reason: str, says: str = "", timeout: float = 20) -> None:
        """An event about an object, with these words in it; events may be written a little after what they tell."""
        seen: list[str] = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = await self.events(name, reason=reason)
                    if any(says in text for text in seen):
                        return
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"event {reason} of {name} saying {says!r} within {timeout:.0f} s; seen: {seen}") from None

    async def events(self, name: str, *, reason: str) -> list[str]:
        """Messages of the events about an object."""
        page = await self.port.list(kinds.EVENT, namespace=self.namespace, fields=f"involvedObject.name={name},reason={reason}")
        return [orjson.loads(item)["message"] for item in page.items]

    async def change(self, name: str, body: Doc, *, kind: Kind = kinds.JOB) -> None:
        """A merge patch."""
        await self.port.patch(kind, name, body, type=PatchType.MERGE, namespace=self.namespace)

    async def delete(self, name: str, *, kind: Kind = kinds.JOB) -> None:
        await self.port.delete(kind, name, namespace=self.namespace)


@contextlib.asynccontextmanager
async def place(cluster: RunningCluster, port: KubePort, *, namespace: str) -> AsyncIterator[Place]:
    """A namespace of a cluster to tell stories in."""
    async with cluster.api(connections=20) as api:
        yield Place(port, api, namespace)


def reason(job: Doc) -> str:
    """`status.state.reason`, "" when there is none."""
    return str(((job.get("status") or {}).get("state") or {}).get("reason", ""))


def phases(job: Doc) -> list[str]:
    """Phases that the Job has been in, in the order in which it was last in them."""
    return [each["status"] for each in job["status"].get("conditions") or []]


def counted(job: Doc, name: str) -> int:
    """A counter of the status; what is not written is 0."""
    return int(job["status"].get(name) or 0)


def ended(pod: Doc) -> dict[str, int]:
    """Exit codes of its containers that have ended, init containers included."""
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return {each["name"]: each["state"]["terminated"]["exitCode"] for each in every if "terminated" in each["state"]}


def uids(pods: dict[str, Doc]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def in_phase(pods: dict[str, Doc], wanted: str) -> list[str]:
    """Names of the pods in a phase that are not being deleted."""
    return [
        name
        for name, pod in pods.items()
        if pod["status"].get("phase") == wanted and "deletionTimestamp" not in pod["metadata"]
    ]


def described(pods: dict[str, Doc]) -> str:
    words = {
        name: pod["status"].get("phase", "") + (" deleting" if "deletionTimestamp" in pod["metadata"] else "")
        for name, pod in pods.items()
    }
    return str(words)


def environment(pod: Doc, *, container: int = 0) -> dict[str, str]:
    """Environment that the manifest of the pod gives a container."""
    found = pod["spec"]["containers"][container].get("env") or []
    return {each["name"]: each.get("value", "") for each in found}
