"""Which pods the hub may ask about: those of a Job that one of the hub's Works made here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from apis import keys, kinds
from member_agent.views.jobs import JobView
from member_agent.views.works import WorkView

ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a Job in which no more pods come."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A Job here that may be asked about."""

    namespace: str
    name: str
    uid: str
    ended: bool


def owned(works: Iterable[WorkView], *, jobs: Callable[[str, str], JobView | None], job: str, namespace: str) -> Owned | str:
    """The Job here of a hub Job (`job` is its UID); a sentence where there is none that a Work of ours speaks for."""
    for work in works:
        target = work.target
        if work.record is None or not job or work.record.job != job:
            continue
        if target.api_version != kinds.JOB.api_version or target.kind != kinds.JOB.kind or target.namespace != namespace:
            continue
        found = jobs(target.namespace, target.name)
        if found is None or found.work_uid != work.uid:
            return f"Job {namespace}/{target.name} has not been made here"
        return Owned(found.namespace, found.name, found.uid, found.phase in ENDED)
    return "no Work here is of this Job"


# --- pods ------------------------------------------------------------------------------------------------------------


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """As objects carry it."""


class _Owner(_Wire, frozen=True):
    uid: str = ""
    controller: bool = False


class _Meta(_Wire, frozen=True):
    name: str
    uid: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Container(_Wire, frozen=True):
    name: str = ""


class _Spec(_Wire, frozen=True):
    containers: list[_Container] = []
    init_containers: list[_Container] | None = None


class _Waits(_Wire, frozen=True):
    reason: str = ""


class _State(_Wire, frozen=True):
    waiting: _Waits | None = None
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class _ContainerStatus(_Wire, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()


class _Status(_Wire, frozen=True):
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(_Wire, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Pod).decode


@dataclass(frozen=True, slots=True)
class Container:
    """A container whose log may be read. `life` counts its restarts; `waits`: why it has not started, "" once it has."""

    pod: str
    pod_uid: str
    name: str
    life: int
    waits: str
    several: bool
    """More containers of its pod are shown."""


def containers_of(document: bytes, *, owner: str, task: str = "", pod: str = "", container: str = "") -> list[Container]:
    """The containers of a pod that are asked for; none of a pod that is not controlled by `owner` (a Job's UID)."""
    found = _decode(document)
    meta = found.metadata
    if not any(each.controller and each.uid == owner for each in meta.owner_references or ()):
        return []
    if (pod and meta.name != pod) or (task and (meta.annotations or {}).get(keys.TASK_SPEC) != task):
        return []
    main = [each.name for each in found.spec.containers]
    names = main if not container else [each.name for each in found.spec.init_containers or ()] + main
    shown = [name for name in names if not container or name == container]
    statuses = {
        each.name: each for each in (*(found.status.init_container_statuses or ()), *(found.status.container_statuses or ()))
    }
    return [_container(meta, name, statuses.get(name), several=len(shown) > 1) for name in shown]


def _container(meta: _Meta, name: str, status: _ContainerStatus | None, *, several: bool) -> Container:
    if status is None:
        return Container(meta.name, meta.uid, name, 0, "not started", several)
    state = status.state
    started = state.running is not None or state.terminated is not None or status.restart_count > 0
    waits = "" if started else (state.waiting.reason if state.waiting is not None else "") or "not started"
    return Container(meta.name, meta.uid, name, status.restart_count, waits, several)
