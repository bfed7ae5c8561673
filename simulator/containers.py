"""One container of a pod on a node: how it stands, and what the pod's status says about it."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.commands import KILLED, Outcome, command_outcome
from simulator.records import StartRecord

Doc = Mapping[str, Any]

BACKOFF_FIRST, BACKOFF_LIMIT = 10.0, 300.0
"""Seconds between restarts of a crashing container: doubled each time, as kubelets do."""
SOUND_AFTER = 600.0
"""Seconds of running after which earlier crashes are forgotten."""
LOOK_AGAIN = 1.0
"""Seconds until a kubelet restarts a container that ended for the first time: nothing is held against it yet."""


class Role(enum.StrEnum):
    """What a container is for."""

    INIT = "init"
    """Runs to its end before the next one starts."""
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always: runs beside the main ones, which are not waited for by it."""
    MAIN = "main"


class Interrupt:
    """A wait that a kill can end."""

    def __init__(self) -> None:
        self._struck: asyncio.Future[int] | None = None

    async def wait(self, seconds: float | None) -> int | None:
        """Wait so long (None: for ever); the exit code if a kill comes first."""
        self._struck = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._struck
        except TimeoutError:
            return None
        finally:
            self._struck = None

    def strike(self, code: int) -> None:
        """End the wait, if there is one."""
        if self._struck is not None and not self._struck.done():
            self._struck.set_result(code)


@dataclass(slots=True, eq=False)
class Container:
    """One container. `outcomes` tells what it does at its n-th start, from 0; times are stamps of wall time."""

    name: str
    image: str
    role: Role
    policy: str
    """Always, OnFailure or Never: when it is started again."""
    outcomes: Callable[[int], Outcome]
    ready_after: float | None = 0.0
    """Seconds from start to ready; None: never."""
    pre_stop: float = 0.0
    """Seconds its preStop hook takes, within the grace."""
    waits_for: str = "ContainerCreating"
    """The reason why it has not started."""
    missing: bool = False
    """Its image cannot be pulled here."""
    started: str = ""
    finished: str = ""
    exit_code: int | None = None
    restarts: int = 0
    ready: bool = False
    done: bool = False
    """It will not start again."""
    lost: bool = False
    """The pod ended before it ever started."""
    previous: dict[str, Any] | None = None
    """How its life before this one ended."""
    backoff: float = 0.0
    record: StartRecord | None = None
    interrupt: Interrupt = field(default_factory=Interrupt)

    @property
    def running(self) -> bool:
        return bool(self.started) and self.exit_code is None

    @property
    def outcome(self) -> Outcome:
        """What it does in its present life."""
        return self.outcomes(self.restarts)

    # --- its life ----------------------------------------------------------------------------------------------------

    def begin(self, *, now: str, record: StartRecord) -> None:
        """It starts, for the first time or again."""
        if self.exit_code is not None:
            self.previous = self._terminated(self.exit_code)
            self.restarts += 1
        self.started, self.finished, self.exit_code, self.ready = now, "", None, False
        self.record = record

    def end(self, code: int, *, now: str, boot: float) -> None:
        """It ended; `boot` is the time of its record."""
        self.exit_code, self.finished, self.ready = code, now, False
        assert self.record is not None
        self.record.end, self.record.exit_code = boot, code

    def again(self) -> bool:
        """Whether its policy starts it again."""
        return self.policy == "Always" or (self.policy == "OnFailure" and self.exit_code != 0)

    def pause(self) -> float:
        """Seconds until it is started again: at once after the first end, then longer and longer."""
        assert self.record is not None and self.record.end is not None
        if self.record.end - self.record.start >= SOUND_AFTER:
            self.backoff = 0.0
        before = self.backoff
        self.backoff = min(2 * before, BACKOFF_LIMIT) or BACKOFF_FIRST
        return before or LOOK_AGAIN

    # --- what is told ------------------------------------------------------------------------------------------------

    def status(self, pod: str) -> dict[str, Any]:
        """Its entry in containerStatuses or initContainerStatuses."""
        told: dict[str, Any] = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image if self.started else "",
            "containerID": f"simulated://{pod}/{self.name}/{self.restarts}" if self.started else "",
            "ready": self.ready if self.role is not Role.INIT else self.exit_code == 0 and self.done,
            "started": self.running,
            "restartCount": self.restarts,
            "state": self._state(),
        }
        waits = self.exit_code is not None and not self.done
        before = self._terminated(self.exit_code) if waits and self.exit_code is not None else self.previous
        return {**told, "lastState": {"terminated": before} if before else {}}

    def _state(self) -> dict[str, Any]:
        if not self.started:
            return self._unstarted()
        if self.exit_code is None:
            return {"running": {"startedAt": self.started}}
        if not self.done:
            return {"waiting": {"reason": "CrashLoopBackOff"}}
        return {"terminated": self._terminated(self.exit_code)}

    def _unstarted(self) -> dict[str, Any]:
        if self.lost:
            message = "The container could not be located when the pod was terminated"
            return {"terminated": {"exitCode": KILLED, "reason": "ContainerStatusUnknown", "message": message}}
        if self.missing:
            return {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{self.image}"'}}
        return {"waiting": {"reason": self.waits_for}}

    def _terminated(self, code: int) -> dict[str, Any]:
        reason = "Completed" if code == 0 else "Error"
        told = {"exitCode": code, "reason": reason, "startedAt": self.started, "finishedAt": self.finished}
        return {**told, "message": self.outcome.left} if self.outcome.left else told


def ready_after(container: Doc) -> float | None:
    """Seconds until a container is ready: what its probes wait for; None when its readiness probe is a command that fails."""
    probe = container.get("readinessProbe")
    startup = (container.get("startupProbe") or {}).get("initialDelaySeconds") or 0
    if not probe:
        return float(startup)
    command = (probe.get("exec") or {}).get("command")
    if command and command_outcome(command, default=0.0).code != 0:
        return None
    more = ((probe.get("successThreshold") or 1) - 1) * (probe.get("periodSeconds") or 10)
    return float(startup + (probe.get("initialDelaySeconds") or 0) + more)


def pre_stop(container: Doc) -> float:
    """Seconds the preStop hook takes."""
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"]["seconds"])
    command = (hook.get("exec") or {}).get("command")
    return (command_outcome(command, default=0.0).seconds or 0.0) if command else 0.0


def phase_of(containers: Sequence[Container], *, ended: bool) -> str:
    """The phase of a pod whose containers stand like this; `ended`: nothing of it will start any more. As kubelets do, a pod
    is Failed only when all that it started has ended, and Pending until every main container has run."""
    main = [each for each in containers if each.role is Role.MAIN]
    init = [each for each in containers if each.role is Role.INIT]
    if ended:
        sound = all(each.exit_code == 0 for each in main) and all(each.exit_code == 0 for each in init)
        return "Succeeded" if sound else "Failed"
    if any(not each.done or each.exit_code != 0 for each in init) or any(not each.started for each in main):
        return "Pending"
    return "Running"
