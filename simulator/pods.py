"""One pod on one node: from admission over its containers to the last report.

What runs (containers, start records) goes on whether or not the node can reach its API server; what is reported waits for
it. The reports are a kubelet's: Pending, Running with start times and restarts, Succeeded or Failed with exit codes, and after
a deletion the terminal state first and then the object's removal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apis import kinds
from apis.vectors import ResourceVector, total
from machinery import errors
from machinery.clock import stamp
from machinery.port import PatchType, Preconditions
from simulator.commands import KILLED, TERM_DELAY, Outcome, outcome_of
from simulator.containers import Container, Interrupt, Role, phase_of, pre_stop, ready_after
from simulator.records import StartRecord
from simulator.volumes import missing_of

if TYPE_CHECKING:
    from simulator.kubelet import Kubelet

Doc = Mapping[str, Any]

FINISHED = frozenset({"Succeeded", "Failed"})
MISSING_IMAGE = ":missing"
"""An image whose tag says so cannot be pulled; with `-in-<cluster>` after it, it cannot in that cluster alone."""
VOLUMES_AGAIN = 2.0
"""Seconds between looks for what a pod mounts and nobody has made yet."""
_OWN_CONDITIONS = frozenset({"Initialized", "Ready", "ContainersReady"})


def requests_of(pod: Doc) -> ResourceVector:
    """What the pod takes from its node: its containers and sidecars, or what an init container needs beside the sidecars
    started before it where that is more, and one pod."""
    spec = pod["spec"]
    beside, initial = ResourceVector(), ResourceVector()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = beside + _requests(container)
        else:
            initial = initial.at_least(beside + _requests(container))
    main = (beside + total(_requests(container) for container in spec["containers"])).at_least(initial)
    return main + ResourceVector.from_quantities(spec.get("overhead")) + ResourceVector({"pods": 1000})


def _requests(container: Doc) -> ResourceVector:
    return ResourceVector.from_quantities((container.get("resources") or {}).get("requests"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a node ended a pod by itself; `disrupts` says that the pod is not to blame."""

    reason: str
    message: str
    disrupts: bool = False


class PodRun:
    """A pod that a node has taken."""

    def __init__(self, node: Kubelet, pod: Doc, *, default: float) -> None:
        self.node = node
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.requests = requests_of(pod)
        self.finished = False
        self.gone = False
        self.admitted = False
        self.stopping = False
        """No container of it starts any more."""
        self.deleted = False
        """Somebody wants the object gone."""
        self._grace = 0.0
        self._policy: str = pod["spec"]["restartPolicy"]
        self._default = default
        self._init = [self._made(container, init=True) for container in pod["spec"].get("initContainers") or ()]
        self._main = [self._made(container, init=False) for container in pod["spec"]["containers"]]
        self._all = (*self._init, *self._main)
        self._begun = Interrupt()
        self._start_time = stamp(node.clock.now())
        self._address = ""
        self._verdict: Verdict | None = None
        self._dirty = asyncio.Event()

    def _made(self, container: Doc, *, init: bool) -> Container:
        annotations: Mapping[str, str] = self.pod["metadata"].get("annotations") or {}
        sidecar = init and container.get("restartPolicy") == "Always"
        policy = "Always" if sidecar else "OnFailure" if init and self._policy != "Never" else self._policy

        def outcomes(start: int) -> Outcome:
            return outcome_of(container, annotations=annotations, default=self._default, start=start)

        return Container(
            container["name"],
            container["image"],
            role=Role.SIDECAR if sidecar else Role.INIT if init else Role.MAIN,
            policy=policy,
            outcomes=outcomes,
            ready_after=ready_after(container),
            pre_stop=pre_stop(container),
            waits_for="PodInitializing" if self.pod["spec"].get("initContainers") else "ContainerCreating",
            missing=container["image"].endswith((MISSING_IMAGE, f"{MISSING_IMAGE}-in-{self.node.cluster}")),
        )

    # --- running -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Until it is finished and everybody was told."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_changes())
            await self._run()
            self.finished = True
            self._dirty.set()
        if self.deleted and not self.gone:
            await remove(self.node, self.pod)

    async def _run(self) -> None:
        deadline = self._set_deadline()
        try:
            if await self._begin_pod():
                async with asyncio.TaskGroup() as beside:
                    if await self._initialize(beside):
                        async with asyncio.TaskGroup() as main:
                            for container in self._main:
                                main.create_task(self._run_container(container))
                    self._end_sidecars()
        finally:
            if deadline is not None:
                deadline.cancel()
        for container in self._all if self.stopping else ():
            container.lost = not container.started

    def _set_deadline(self) -> asyncio.TimerHandle | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        verdict = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        return asyncio.get_running_loop().call_later(seconds, lambda: self.condemn(verdict, grace=TERM_DELAY))

    async def _begin_pod(self) -> bool:
        """Wait for the sandbox and for everything that it mounts; False when it is stopped before."""
        if await self._begun.wait(self.node.start_delay()) is not None:
            return False
        while not self.stopping and await self._lacks():
            self._dirty.set()
            if await self._begun.wait(VOLUMES_AGAIN) is not None:
                return False
        return not self.stopping

    async def _lacks(self) -> bool:
        await self.node.connected.wait()
        return bool(await missing_of(self.node.port, pod=self.pod))

    async def _initialize(self, beside: asyncio.TaskGroup) -> bool:
        """Run the init containers one after the other; whether the main ones may start."""
        for container in self._init:
            if container.role is Role.SIDECAR:
                beside.create_task(self._run_container(container))
                await asyncio.sleep(0)
                continue
            await self._run_container(container)
            if container.exit_code != 0:
                return False
        return not self.stopping

    def _end_sidecars(self) -> None:
        """The main containers are done: what runs beside them is told to end."""
        for container in self._init:
            if container.role is Role.SIDECAR and not container.done:
                container.policy = "Never"
                self._terminate(container, grace=self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def _run_container(self, container: Container) -> None:
        if container.missing and not self.stopping:
            self._dirty.set()
            await container.interrupt.wait(None)
        while not self.stopping:
            await self.node.powered.wait()
            if self._is_stopping():  # meanwhile
                break
            self._begin(container)
            code = await container.interrupt.wait(container.outcome.seconds)
            container.end(
                container.outcome.code if code is None else code, now=stamp(self.node.clock.now()), boot=self.node.clock.boot()
            )
            self._dirty.set()
            if self._is_stopping() or not container.again():
                break
            await container.interrupt.wait(container.pause())
            if not container.again():  # any more: the main containers have ended meanwhile
                break
        container.done = True
        self._dirty.set()

    def _begin(self, container: Container) -> None:
        metadata = self.pod["metadata"]
        record = StartRecord(
            cluster=self.node.cluster,
            node=self.node.name,
            pod_uid=self.uid,
            namespace=metadata["namespace"],
            pod=metadata["name"],
            container=container.name,
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            start=self.node.clock.boot(),
        )
        container.begin(now=stamp(self.node.clock.now()), record=record)
        self._address = self._address or self.node.pod_address(self.uid)
        self.node.records.records.append(record)
        self._dirty.set()
        if container.ready_after == 0.0:
            container.ready = True
        elif container.ready_after is not None:
            asyncio.get_running_loop().call_later(container.ready_after, self._now_ready, container, record)

    def _now_ready(self, container: Container, record: StartRecord) -> None:
        if container.record is record and container.running:
            container.ready = True
            self._dirty.set()

    # --- stopping ----------------------------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        return self.stopping

    def stop(self, *, grace: float) -> None:
        """Somebody deletes it: SIGTERM now, SIGKILL after the grace. A later call can only shorten the grace."""
        if not self.deleted or grace < self._grace:
            self.deleted, self._grace = True, grace
            self._stop(grace=grace)

    def condemn(self, verdict: Verdict, *, grace: float) -> None:
        """Its node ends it by itself; the object stays, Failed."""
        if not self.finished and not self.stopping:
            self._verdict = verdict
            self._stop(grace=grace)

    def _stop(self, *, grace: float) -> None:
        if self.finished:
            return
        self.stopping = True
        self._begun.strike(KILLED)
        for container in self._all:
            if container.running:
                self._terminate(container, grace=grace)
            else:
                container.interrupt.strike(KILLED)

    def _terminate(self, container: Container, *, grace: float) -> None:
        term = container.outcome.term
        delay = grace + 1.0 if term.seconds is None else container.pre_stop + term.seconds
        later = asyncio.get_running_loop().call_later
        later(min(delay, grace), container.interrupt.strike, term.code if delay <= grace else KILLED)

    def kill(self, code: int = KILLED) -> None:
        """End whatever runs now."""
        for container in self._all:
            container.interrupt.strike(code)

    def forget(self) -> None:
        """The object is gone from the API server: nobody to report to."""
        self.gone = True
        self.stop(grace=TERM_DELAY)
        self._dirty.set()

    # --- reporting ---------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        """As the pod's status has it."""
        return "Failed" if self._verdict else phase_of(self._all, ended=self.finished)

    async def _report_changes(self) -> None:
        while not self.gone:
            await self._dirty.wait()
            await self.node.connected.wait()
            self._dirty.clear()
            last = self.finished
            await self._report(last=last)
            if last:
                return

    async def _report(self, *, last: bool) -> None:
        if self.gone or (self._verdict and not last):
            return  # a condemned pod is told of once it has ended
        status: dict[str, Any] = {
            "phase": self.phase,
            "startTime": self._start_time,
            "hostIP": self.node.address,
            "conditions": self._conditions(),
            "containerStatuses": [container.status(self.name) for container in self._main],
        }
        if self._init:
            status["initContainerStatuses"] = [container.status(self.name) for container in self._init]
        if self._address:
            status |= {"podIP": self._address, "podIPs": [{"ip": self._address}]}
        if self._verdict:
            status |= {"reason": self._verdict.reason, "message": self._verdict.message}
        await self.write_status(status)

    @property
    def name(self) -> str:
        """Of the pod."""
        name: str = self.pod["metadata"]["name"]
        return name

    def _conditions(self) -> list[dict[str, Any]]:
        """Other people's conditions as they are, and a kubelet's own."""
        there = {each["type"]: each for each in (self.pod.get("status") or {}).get("conditions") or ()}
        kept = [each for type_, each in there.items() if type_ not in _OWN_CONDITIONS]
        serving = [each for each in self._all if each.role is not Role.INIT]
        initialized = all(each.started if each.role is Role.SIDECAR else each.exit_code == 0 for each in self._init)
        ready = not self.finished and all(each.ready for each in serving)
        now = stamp(self.node.clock.now())
        own = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
        why = {} if ready else {"reason": "PodCompleted" if self.phase == "Succeeded" else "ContainersNotReady"}
        if self._verdict and self._verdict.disrupts:
            more = {"reason": "TerminationByKubelet", "message": self._verdict.message, "lastTransitionTime": now}
            kept.append({"type": "DisruptionTarget", "status": "True", **more})
        for type_, holds in own.items():
            status = "True" if holds else "False"
            since = there[type_]["lastTransitionTime"] if there.get(type_, {}).get("status") == status else now
            told = {"type": type_, "status": status, "lastTransitionTime": since}
            kept.append(told if type_ == "Initialized" else {**told, **why})
        return kept

    async def write_status(self, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status, if it is still this pod."""
        patch = {"metadata": {"uid": self.uid}, "status": status}
        where = self.pod["metadata"]["namespace"]
        try:
            await self.node.port.patch(kinds.POD, self.name, patch, type=PatchType.MERGE, namespace=where, subresource="status")
        except (errors.NotFound, errors.Conflict):
            self.gone = True


async def remove(node: Kubelet, pod: Doc) -> None:
    """The last thing a kubelet does for a deleted pod whose containers have ended: it lets the object go."""
    metadata = pod["metadata"]
    await node.connected.wait()
    this = Preconditions(uid=metadata["uid"])
    with contextlib.suppress(errors.NotFound, errors.Conflict):  # it went, or another one has its name
        await node.port.delete(
            kinds.POD, metadata["name"], namespace=metadata["namespace"], preconditions=this, grace_seconds=0
        )
