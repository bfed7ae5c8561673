"""Pods as the agent keeps them: shape, node, and what became of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

from member_agent.views.meta import Condition, Meta, Wire
from policies.shapes import PodShape
from policies.troubles import TROUBLES

ENDED: Final = ("Succeeded", "Failed")

TROUBLE_TEXT: Final = 256
"""Characters that are kept of why a container cannot start."""


class _Waits(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class _ContainerState(Wire, frozen=True):
    running: dict[str, Any] | None = None
    waiting: _Waits | None = None


class _ContainerStatus(Wire, frozen=True):
    state: _ContainerState = _ContainerState()


class _PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    scheduling_gates: list[Any] | None = None


class _PodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None

    @property
    def collected(self) -> bool:
        """The end was written by the pod garbage collector for a lost node, not by the kubelet."""
        return any(each.type == "DisruptionTarget" and each.reason == "DeletionByPodGC" for each in self.conditions or ())

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
    status: _PodStatus = _PodStatus()


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `owner` is the UID of its controller, `group` its PodGroup; `confirmed`: its kubelet reported the end; `trouble`:
    reason and message of a container that cannot start."""

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

    @property
    def ended(self) -> bool:
        """Succeeded or Failed: it holds no resources."""
        return self.phase in ENDED
