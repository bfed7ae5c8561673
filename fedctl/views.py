"""What lines of tables are made from, decoded as far as they are shown and no further."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from machinery.port import Document

FUTURE: Final = "0s"


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class State(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: State = State()
    min_available: int | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    retry_count: int = 0
    running_duration: str | None = None


class Task(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    replicas: int = 1


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    queue: str = "default"
    min_available: int | None = None
    scheduler_name: str = ""
    priority_class_name: str = ""
    tasks: tuple[Task, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """A Volcano Job as it is listed."""

    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def pods(self) -> int:
        """How many it asks for."""
        return sum(task.replicas for task in self.spec.tasks)

    @property
    def phase(self) -> str:
        return self.status.state.phase or "Pending"


class Progress(msgspec.Struct, frozen=True):
    done: int = 0
    steps: int = 0


class FlowState(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class FlowStatus(msgspec.Struct, frozen=True):
    state: FlowState = FlowState()
    progress: Progress | None = None


class FlowSpec(msgspec.Struct, frozen=True):
    flows: tuple[msgspec.Raw, ...] = ()


class Flow(msgspec.Struct, frozen=True):
    """A JobFlow as it is listed."""

    metadata: Meta = Meta()
    spec: FlowSpec = FlowSpec()
    status: FlowStatus = FlowStatus()


class QueueSpec(msgspec.Struct, frozen=True, rename="camel"):
    weight: int = 1
    parent: str = ""
    priority: int = 0
    reclaimable: bool | None = None
    capability: Mapping[str, Any] = {}
    deserved: Mapping[str, Any] = {}
    guarantee: Mapping[str, Any] = {}


class QueueStatus(msgspec.Struct, frozen=True):
    state: str = ""
    pending: int = 0
    running: int = 0
    unknown: int = 0
    inqueue: int = 0
    completed: int = 0
    allocated: Mapping[str, Any] = {}


class Queue(msgspec.Struct, frozen=True):
    """A Queue as it is listed."""

    metadata: Meta = Meta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class Target(msgspec.Struct, frozen=True):
    name: str = ""
    replicas: int = 0


class BindingSpec(msgspec.Struct, frozen=True):
    clusters: tuple[Target, ...] = ()


class Owner(msgspec.Struct, frozen=True):
    uid: str = ""


class BindingMeta(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    name: str = ""
    owner_references: tuple[Owner, ...] = ()


class Binding(msgspec.Struct, frozen=True):
    """Where something runs."""

    metadata: BindingMeta = BindingMeta()
    spec: BindingSpec = BindingSpec()


read_job = msgspec.json.Decoder(Job).decode
read_flow = msgspec.json.Decoder(Flow).decode
read_queue = msgspec.json.Decoder(Queue).decode
read_binding = msgspec.json.Decoder(Binding).decode


def age(created: str, *, now: datetime.datetime) -> str:
    """As kubectl tells it: the largest unit, and the next one where the first is small."""
    try:
        then = datetime.datetime.fromisoformat(created)
    except ValueError:
        return "<unknown>"
    seconds = int((now - then).total_seconds())
    if seconds <= 0:
        return FUTURE
    for size, letter, small, inner, name in (
        (86400, "d", 8, 3600, "h"),
        (3600, "h", 8, 60, "m"),
        (60, "m", 10, 1, "s"),
    ):
        if seconds >= size * (2 if letter != "h" else 1) or letter == "m" and seconds >= 120:
            whole, rest = divmod(seconds, size)
            more = rest // inner
            return f"{whole}{letter}{more}{name}" if whole < small and more else f"{whole}{letter}"
    return f"{seconds}s"


def tree(document: Document) -> dict[str, Any]:
    """The whole object, for -o json and yaml."""
    found: dict[str, Any] = msgspec.json.decode(document)
    return found
