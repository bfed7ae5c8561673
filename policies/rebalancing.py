"""What a WorkloadRebalancer asks for, and what is to be done about it (reference/karmada.md 3.8). Pure.

Each workload is asked for once, with the time at which the rebalancer was made: a binding that was told a later time is left as
it is, so that nothing is moved twice for one wish.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis import kinds, naming
from policies.views import Meta

SUCCESSFUL, FAILED = "Successful", "Failed"
NO_BINDING: Final = "ReferencedBindingNotFound"
NOT_PLACED: Final = "KindNotPlacedAnew"
"""Reasons of a failure: it has no binding; its kind is not placed anew by this hub."""


class Workload(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One workload, by name."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one."""

    workload: Workload = Workload()
    result: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RebalancerView:
    """A WorkloadRebalancer. `created` and `finished` are RFC 3339; `ttl` in seconds."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str = ""
    generation: int = 0
    deleting: bool = False
    workloads: tuple[Workload, ...] = ()
    ttl: int | None = None
    observed: tuple[Observed, ...] = ()
    observed_generation: int = 0
    finished: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    workloads: list[Workload] | None = None
    ttl_seconds_after_finished: int | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    observed_workloads: list[Observed] | None = None
    finish_time: str | None = None


class _Rebalancer(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Rebalancer)


def project_rebalancer(document: bytes) -> RebalancerView:
    """A WorkloadRebalancer."""
    read = _decoder.decode(document)
    meta, status = read.metadata, read.status
    return RebalancerView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        workloads=tuple(read.spec.workloads or ()),
        ttl=read.spec.ttl_seconds_after_finished,
        observed=tuple(status.observed_workloads or ()),
        observed_generation=status.observed_generation,
        finished=status.finish_time or "",
    )


Told = Callable[[str, str], str | None]
"""By namespace and name of a binding, the time that it was told last, "" for never; None: there is no such binding."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bindings to be told `created`, by namespace and name, each with its workload, and what is known without that."""

    tell: tuple[tuple[tuple[str, str], Workload], ...] = ()
    known: tuple[Observed, ...] = field(default=())


def plan(view: RebalancerView, *, told: Told) -> Plan:
    """What is left to do: workloads that were answered once stay answered, those taken off the list are forgotten."""
    before = {each.workload: each for each in view.observed if each.result == SUCCESSFUL}
    tell, known = [], []
    for workload in dict.fromkeys(view.workloads):
        if workload in before:
            known.append(before[workload])
        elif (workload.api_version, workload.kind) != (kinds.JOB.api_version, kinds.JOB.kind):
            known.append(Observed(workload, FAILED, NOT_PLACED))
        else:
            binding = (workload.namespace, naming.binding_name(workload.name))
            last = told(*binding)
            if last is None:
                known.append(Observed(workload, FAILED, NO_BINDING))
            elif last >= view.created:
                known.append(Observed(workload, SUCCESSFUL))
            else:
                tell.append((binding, workload))
    return Plan(tuple(tell), tuple(known))


def status(view: RebalancerView, observed: Sequence[Observed], *, now: str) -> dict[str, Any] | None:
    """The status to write, None when it says so already. It is finished once every workload has an answer, and stays so."""
    listed = sorted(observed, key=lambda each: (each.workload.namespace, each.workload.name, each.workload.kind))
    if tuple(listed) == view.observed and view.observed_generation == view.generation and view.finished:
        return None
    return {
        "observedGeneration": view.generation,
        "observedWorkloads": msgspec.to_builtins(listed),
        "finishTime": view.finished if view.finished and view.observed_generation == view.generation else now,
    }


def expires_in(view: RebalancerView, *, now: datetime.datetime) -> float | None:
    """Seconds until it is to be deleted; None where it stays."""
    if view.ttl is None or not view.finished or view.observed_generation != view.generation:
        return None
    return view.ttl - (now - datetime.datetime.fromisoformat(view.finished)).total_seconds()
