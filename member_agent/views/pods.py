"""Pods as the agent keeps them: shape, node, and what became of them."""

from __future__ import annotations

import contextlib
import datetime
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from apis import keys
from member_agent.views.gates import QueueGate
from member_agent.views.hints import Hints
from member_agent.views.meta import Condition, Meta, Wire, may_be_evicted
from policies.durations import InvalidDuration, golang
from policies.neighbours import Labels
from policies.shapes import PodShape, PodSpec
from policies.troubles import TROUBLES

ENDED: Final = ("Succeeded", "Failed")

EVICTED: Final = frozenset(
    {"Evicted", "Preempted", "Preempting", "NodeLost", "NodeShutdown", "Terminated", "NodeAffinity", "Shutdown"}
)
"""Reasons of a failed pod that tell of its node and not of its program."""
TROUBLE_TEXT: Final = 256
"""Characters that are kept of why a container cannot start."""


GRACE: Final = 30
"""Seconds a pod is given to end that does not say how long it needs."""
MANNERS_KEPT: Final = 1024
"""Different ways of leaving that are shared."""


class _Waits(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class _Ended(Wire, frozen=True):
    exit_code: int = 0
    finished_at: str = ""
    reason: str = ""
    message: str = ""


class _ContainerState(Wire, frozen=True):
    running: dict[str, Any] | None = None
    waiting: _Waits | None = None
    terminated: _Ended | None = None


class _ContainerStatus(Wire, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = _ContainerState()


class _ClaimSource(Wire, frozen=True):
    claim_name: str = ""


class _Volume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class _PodSpec(PodSpec, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    scheduling_gates: list[Any] | None = None
    restart_policy: str = ""
    volumes: list[_Volume] | None = None
    termination_grace_period_seconds: int = GRACE
    active_deadline_seconds: int | None = None

    def claims(self, pod: str) -> tuple[str, ...]:
        """Names of the claims of this pod; those that are made for it alone are called after it."""
        named = (each.persistent_volume_claim for each in self.volumes or ())
        own = (f"{pod}-{each.name}" for each in self.volumes or () if each.ephemeral is not None)
        return tuple(dict.fromkeys((*(each.claim_name for each in named if each is not None), *own)))

    def final(self, code: int) -> bool:
        """Whether a container that ended with this exit code is not started again by its kubelet."""
        return self.restart_policy != "Always" and not (self.restart_policy == "OnFailure" and code)


class PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None

    @property
    def collected(self) -> bool:
        """The end was written by the pod garbage collector for a lost node, not by the kubelet."""
        return any(each.type == "DisruptionTarget" and each.reason == "DeletionByPodGC" for each in self.conditions or ())

    @property
    def evicted(self) -> bool:
        """Somebody took its place from it: a scheduler, a drain, its kubelet under pressure, a lost node."""
        return (
            self.reason in EVICTED
            or self.reason.startswith("OutOf")
            or any(each.type == "DisruptionTarget" and each.status in ("", "True") for each in self.conditions or ())
        )

    @property
    def _all(self) -> tuple[_ContainerStatus, ...]:
        return (*(self.init_container_statuses or ()), *(self.container_statuses or ()))

    @property
    def failure(self) -> tuple[int, str]:
        """Exit code of the first container that failed, 0 where none tells, and why in words."""
        for each in self._all:
            ended = each.state.terminated
            if ended is not None and ended.exit_code:
                text = f"container {each.name} exited with {ended.exit_code}"
                told = ended.reason if ended.reason not in ("", "Error") else ""
                return ended.exit_code, f"{text} ({told})" if told else text
        return 0, ": ".join(filter(None, (self.reason, self.message)))[:TROUBLE_TEXT]

    @property
    def left(self) -> str:
        """What its containers left in their termination messages: the first that left anything."""
        ended = (each.state.terminated for each in self.container_statuses or ())
        return next((each.message for each in ended if each is not None and not each.exit_code and each.message), "")

    @property
    def finished_at(self) -> str:
        """When its last container ended, as its kubelet wrote it."""
        return max((each.state.terminated.finished_at for each in self._all if each.state.terminated), default="")

    @property
    def ends(self) -> tuple[tuple[str, int], ...]:
        """Containers that have ended while others of the pod go on, with their exit codes."""
        if self.phase in ENDED:
            return ()
        found = [(each.name, each.state.terminated) for each in self.container_statuses or ()]
        return tuple((sys.intern(name), ended.exit_code) for name, ended in found if ended is not None)

    @property
    def restarts(self) -> int:
        """Of all its containers."""
        return sum(each.restart_count for each in self._all)

    @property
    def ready(self) -> bool:
        """All its containers are."""
        return bool(self.container_statuses) and all(each.ready for each in self.container_statuses or ())

    @property
    def any_running(self) -> bool:
        """Some container was running when its kubelet last spoke."""
        return any(each.state.running is not None for each in self.container_statuses or ())

    @property
    def trouble(self) -> tuple[str, str] | None:
        """Reason and message of the first container that waits for something that may never come, before the pod runs."""
        if self.phase not in ("", "Pending"):
            return None
        for each in (*(self.init_container_statuses or ()), *(self.container_statuses or ())):
            waits = each.state.waiting
            if waits is not None and waits.reason in TROUBLES:
                return sys.intern(waits.reason), waits.message[:TROUBLE_TEXT]
        return None


class PodDocument(Wire, frozen=True):
    metadata: Meta
    spec: _PodSpec = _PodSpec()
    status: PodStatus = PodStatus()


@dataclass(frozen=True, slots=True)
class PodEnd:
    """How a pod ended: exit code (0 where none tells), why in words, when, and what it left where its Job wants to know."""

    code: int = 0
    why: str = ""
    at: str = ""
    left: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a pod leaves: whether it may be evicted for others, for how long after its start it may not, and how long it takes
    (seconds); `limit`: seconds after its start its kubelet ends it. Equal ones are one object."""

    preemptable: bool = True
    cooldown: float = 0.0
    grace: int = GRACE
    limit: int | None = None


PLAIN: Final = Manner()


def manner_of(meta: Meta, spec: _PodSpec) -> Manner:
    """How the pod leaves; a cool-down that is no duration counts as none."""
    preemptable, grace = may_be_evicted(meta), spec.termination_grace_period_seconds
    text = meta.annotation(keys.COOLDOWN) or meta.label(keys.COOLDOWN)
    limit = spec.active_deadline_seconds
    if preemptable and grace == GRACE and not text and limit is None:
        return PLAIN
    return _manner(preemptable, text, max(grace, 0), limit)


@lru_cache(maxsize=MANNERS_KEPT)
def _manner(preemptable: bool, text: str, grace: int, limit: int | None) -> Manner:
    cooldown = 0.0
    with contextlib.suppress(InvalidDuration):
        cooldown = golang(text or "0")
    return Manner(preemptable, cooldown, grace, limit)


def seconds_of(time: str) -> float:
    """Seconds since the epoch of a time as objects carry it; 0 where there is none that can be read."""
    try:
        return datetime.datetime.fromisoformat(time).timestamp() if time else 0.0
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `owner` is the UID of its controller, `group` its PodGroup; `confirmed`: its kubelet reported the end; `trouble`:
    reason and message of a container that cannot start. `job_version` and `index` are what its Job's controller wrote on it.
    `end`: exit code and words of a failed pod, and when it ended; `ends`: containers that ended before the pod has.
    `nominated`: the node that is being cleared for it; `since`: when it started (wall clock), where it has a cool-down or
    a limit."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    owner: str
    group: str
    task: str
    queue: str
    run: bool
    scheduler: str
    node: str
    priority: int
    gated: bool
    phase: str
    deleting: bool
    confirmed: bool
    shape: PodShape
    trouble: tuple[str, str] | None = None
    job_version: int = 0
    index: int = -1
    ready: bool = False
    restarts: int = 0
    gate: QueueGate = QueueGate.NONE
    evicted: bool = False
    end: PodEnd | None = None
    ends: tuple[tuple[str, int], ...] = ()
    hints: Hints = ()
    """Annotations that plugins of the scheduler read."""
    nominated: str = ""
    manner: Manner = PLAIN
    since: float = 0.0
    labels: Labels = ()
    """Without those that number the pods of one owner."""
    own_labels: Labels = ()
    """Those."""
    claims: tuple[str, ...] = ()
    """Names of the claims that it mounts, those made for it alone included."""

    @property
    def ended(self) -> bool:
        """Succeeded or Failed: it holds no resources."""
        return self.phase in ENDED
