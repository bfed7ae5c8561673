"""A stage for a story about scheduling: a namespace of its own, and a resource of its own on the nodes of a member.

Stories about full clusters run side by side on the same few nodes, because each fills only its own resource, which no other
asks for (`e2e.example.com/<story>`, an extended resource as any device plugin would offer it).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from apis import kinds, naming
from apis.kinds import Kind
from e2e.apply import PATIENCE, Doc, apply, wait_for
from e2e.controlplane.cluster import RunningCluster
from e2e.controlplane.fleet import Federation
from e2e.flows import text
from e2e.jobs import Place, in_phase, place, tell
from machinery import errors
from machinery.kube import KubePort
from machinery.port import PatchType

DOMAIN = "e2e.example.com"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one story is told. `name` is that of its namespace and the beginning of those of its cluster-wide objects."""

    place: Place
    name: str
    resource: str
    stack: contextlib.AsyncExitStack

    @property
    def port(self) -> KubePort:
        return self.place.port

    # --- what there is -----------------------------------------------------------------------------------------------
    async def offer(self, amounts: Mapping[str, int]) -> None:
        """So much of the story's resource on these nodes, until the story is over."""
        for node, amount in amounts.items():
            await self._set(node, str(amount))
            self.stack.push_async_callback(self._set, node, None)

    async def _set(self, node: str, amount: str | None) -> None:
        own = {self.resource: amount}
        body = {"status": {"capacity": own, "allocatable": own}}
        await self.port.patch(kinds.NODE, node, body, type=PatchType.MERGE, subresource="status")

    async def add(self, *bodies: dict[str, Any]) -> None:
        """Apply objects of the namespace."""
        await apply(self.port, text(*bodies), namespace=self.name)

    async def add_wide(self, body: dict[str, Any], *, kind: Kind) -> str:
        """Apply a cluster-wide object under the story's name and its own; it goes with the story. Its full name."""
        name = f"{self.name}-{body['metadata']['name']}"
        await apply(self.port, text({**body, "metadata": {**body["metadata"], "name": name}}), namespace=self.name)
        self.stack.push_async_callback(self.port.delete, kind, name)
        return name

    async def queue(self, name: str, **spec: Any) -> str:
        """An open Queue; its full name."""
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        full = await self.add_wide(body, kind=kinds.QUEUE)
        await wait_for(self.port, kinds.QUEUE, full, until=lambda doc: (doc or {}).get("status", {}).get("state") == "Open")
        return full

    async def priority(self, name: str, value: int) -> str:
        """A PriorityClass; its full name."""
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        return await self.add_wide(body, kind=kinds.PRIORITY_CLASS)

    # --- what is asked for -------------------------------------------------------------------------------------------
    def task(self, name: str, pods: int, *, slots: int = 0, note: Mapping[str, str] | None = None, **spec: Any) -> Doc:
        """A task; each of its pods takes `slots` of the story's resource and little else (0: nothing at all)."""
        metadata = {"labels": {"story": self.name}, "annotations": dict(note or {})}
        return {"name": name, "replicas": pods, "template": {"metadata": metadata, "spec": self.pod(slots=slots, **spec)}}

    def pod(self, *, slots: int = 0, command: str = "sleep 600", **spec: Any) -> Doc:
        """A pod's spec."""
        takes = {self.resource: str(slots)}
        resources = {"requests": {"cpu": "10m", "memory": "8Mi", **takes}, "limits": takes} if slots else {}
        container: Doc = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", command], "resources": resources}
        if "ports" in spec:
            container["ports"] = spec.pop("ports")
        if "mounts" in spec:
            container["volumeMounts"] = spec.pop("mounts")
        return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}

    async def submit(self, name: str, *tasks: Doc, minimum: int, **spec: Any) -> None:
        """A Job of these tasks."""
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"minAvailable": minimum, "schedulerName": "volcano", "tasks": list(tasks), **spec},
        }
        await self.add(body)

    # --- what is seen ------------------------------------------------------------------------------------------------
    async def runs(self, job: str, *, pods: int, timeout: float = PATIENCE) -> dict[str, str]:
        """So many pods of the Job run; their nodes by name."""
        found = await self.place.pods_until(job, lambda seen: len(in_phase(seen, "Running")) == pods, timeout=timeout)
        return {name: found[name]["spec"]["nodeName"] for name in in_phase(found, "Running")}

    async def placed(self, job: str) -> list[str]:
        """Pods of the Job that have nodes and stay."""
        pods = await self.place.pods(job)
        return [n for n, pod in pods.items() if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]

    async def group(self, job: str, condition: Callable[[Doc], bool], *, timeout: float = PATIENCE) -> Doc:
        """The Job's PodGroup, once it is as wanted."""
        uid = (await self.place.get(kinds.JOB, job))["metadata"]["uid"]
        return await self.place.until(condition, naming.pod_group_name(job, uid=uid), kind=kinds.POD_GROUP, timeout=timeout)

    async def waits(self, job: str, *words: str) -> Doc:
        """The Job's PodGroup, Unschedulable in these words; an event about it says the first of them too."""
        group = await self.group(
            job, lambda doc: all(word in unschedulable(doc) for word in words) and bool(unschedulable(doc))
        )
        await self.place.told(group["metadata"]["name"], reason="Unschedulable", says=words[0] if words else "")
        return group


async def until(ask: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool], *, timeout: float = 60) -> Any:
    """What is asked for, once it is as wanted."""
    found: Any = None
    try:
        async with asyncio.timeout(timeout):
            while not wanted(found := await ask()):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"not as wanted within {timeout:.0f} s; last seen: {str(found)[:1500]}") from None
    return found


def condition(doc: Doc, name: str) -> Doc:
    """The condition of this type, {} when there is none."""
    found = (doc.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == name), {})


def unschedulable(group: Doc) -> str:
    """Reason and message of condition Unschedulable while it holds, "" otherwise."""
    found = condition(group, "Unschedulable")
    return f"{found['reason']}: {found['message']}" if found.get("status") == "True" else ""


@contextlib.asynccontextmanager
async def stage(cluster: RunningCluster, port: KubePort, *, run: str, story: str) -> AsyncIterator[Stage]:
    """A stage for `story` in this run of the tests; what was put on it goes at the end."""
    name = f"{story}-{run}"
    async with contextlib.AsyncExitStack() as stack:
        await port.create(kinds.NAMESPACE, {"metadata": {"name": name}})
        stack.push_async_callback(port.delete, kinds.NAMESPACE, name)
        await wait_for(port, kinds.SERVICE_ACCOUNT, "default", namespace=name, until=lambda doc: doc is not None)
        found = await stack.enter_async_context(place(cluster, port, namespace=name))
        yield Stage(found, name, f"{DOMAIN}/{story}", stack)


async def admitted(port: KubePort) -> None:
    """Return once somebody judges Queues at the member: a test before this one may have killed its agent, and until another
    leads nobody may change a Queue. As a person would, asks again; AssertionError after `PATIENCE`."""
    body = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": kinds.QUEUE.kind,
        "metadata": {"name": "asked-for-nothing"},
        "spec": {},
    }
    said = ""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await port.create(kinds.QUEUE, body, dry_run=True)
                except errors.ServerFailed as error:
                    said = error.message
                    await asyncio.sleep(0.5)
                else:
                    return
    raise AssertionError(f"nobody judged Queues within {PATIENCE:.0f} s: {said}")


Story = Callable[[Stage], Coroutine[Any, Any, None]]
"""What is told on a stage; the stage is named after the function."""


class Theatre:
    """Tells stories, side by side, on stages of the members of a federation."""

    def __init__(self, federation: Federation, ports: Mapping[str, KubePort], *, run: str) -> None:
        """`run` tells this run of the tests from others on the same clusters."""
        self._federation, self._ports, self._run = federation, ports, run

    async def tell(self, *stories: Story, on: str) -> None:
        """All stories to their ends on the member `on`; what went wrong is raised together."""
        await admitted(self._ports[on])
        await tell(*(self._tell(story, on=on) for story in stories))

    async def _tell(self, story: Story, *, on: str) -> None:
        name: str = story.__name__.replace("_", "-")
        async with stage(self._federation.members[on], self._ports[on], run=self._run, story=name) as here:
            await story(here)
