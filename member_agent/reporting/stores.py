"""What this role reads: the member's informers, and its own ClusterCapacity at the hub."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from apis.capacity import CapacityStatus
from machinery.informer import Informer
from member_agent.views import GroupView, JobView, Meta, NodeView, PodView, PriorityView, QueueView, WorkView
from policies import asked
from policies.asked import Asked, Shape

log = logging.getLogger(__name__)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    label_keys: list[str] | None = None
    shapes: list[Shape] | None = None


class _Capacity(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Meta
    spec: _Spec = _Spec()
    status: CapacityStatus = CapacityStatus()


_capacity = msgspec.json.Decoder(_Capacity).decode


@dataclass(frozen=True, slots=True)
class CapacityView:
    """The member's own ClusterCapacity: what the hub asks for, and what was published last."""

    namespace: str
    name: str
    uid: str
    version: str
    label_keys: tuple[str, ...]
    status: CapacityStatus
    asked: tuple[Asked, ...] = ()
    """Shapes of waiting work, those that are wanted most first."""


def project_capacity(document: bytes) -> CapacityView:
    """A ClusterCapacity as its agent keeps it."""
    found = _capacity(document)
    meta = found.metadata
    return CapacityView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        label_keys=tuple(found.spec.label_keys or ()),
        status=found.status,
        asked=_asked(found.spec.shapes or ()),
    )


def _asked(shapes: list[Shape] | tuple[()]) -> tuple[Asked, ...]:
    """Those that can be read; the others are not answered, and the refusal of a Work is the answer."""
    found: list[Asked] = []
    for shape in shapes:
        try:
            found.append(asked.read(shape))
        except asked.UnreadableShape as error:
            log.warning("ClusterCapacity: %s", error)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    works: Informer[WorkView]
    jobs: Informer[JobView]
    groups: Informer[GroupView]
    pods: Informer[PodView]
    nodes: Informer[NodeView]
    queues: Informer[QueueView]
    priorities: Informer[PriorityView]
    capacities: Informer[CapacityView]
