"""Queues and PriorityClasses as the agent keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from apis.vectors import ResourceVector
from machinery.port import Document
from member_agent.views.meta import Meta, Wire


class _QueueSpec(Wire, frozen=True):
    weight: int = 1
    parent: str = ""
    capability: dict[str, Any] | None = None
    guarantee: dict[str, Any] | None = None


class _QueueStatus(Wire, frozen=True):
    state: str = ""
    allocated: dict[str, Any] | None = None


class _Queue(Wire, frozen=True):
    metadata: Meta
    spec: _QueueSpec = _QueueSpec()
    status: _QueueStatus = _QueueStatus()


@dataclass(frozen=True, slots=True)
class QueueView:
    """A local Queue."""

    name: str
    uid: str
    version: str
    parent: str
    weight: int
    capability: ResourceVector
    guarantee: ResourceVector
    state: str
    allocated: ResourceVector
    namespace: str = field(default="")

    @property
    def open(self) -> bool:
        """Takes new work; a queue without a state yet does."""
        return self.state in ("", "Open")


_queue = msgspec.json.Decoder(_Queue).decode


def project_queue(document: Document) -> QueueView:
    """A Queue as the agent keeps it; raises InvalidQuantity."""
    queue = _queue(document)
    guarantee = (queue.spec.guarantee or {}).get("resource")
    return QueueView(
        name=queue.metadata.name,
        uid=queue.metadata.uid,
        version=queue.metadata.resource_version,
        parent=queue.spec.parent,
        weight=queue.spec.weight,
        capability=ResourceVector.from_quantities(queue.spec.capability),
        guarantee=ResourceVector.from_quantities(guarantee),
        state=queue.status.state,
        allocated=ResourceVector.from_quantities(queue.status.allocated),
    )


class _PriorityClass(Wire, frozen=True):
    metadata: Meta
    value: int = 0


@dataclass(frozen=True, slots=True)
class PriorityView:
    """A PriorityClass."""

    name: str
    uid: str
    version: str
    value: int
    namespace: str = field(default="")


_priority = msgspec.json.Decoder(_PriorityClass).decode


def project_priority(document: Document) -> PriorityView:
    """A PriorityClass as the agent keeps it."""
    found = _priority(document)
    meta = found.metadata
    return PriorityView(name=meta.name, uid=meta.uid, version=meta.resource_version, value=found.value)
