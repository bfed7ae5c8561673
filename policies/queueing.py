"""Hub queues: in which order Jobs are looked at, and whether a queue lets one start (design.md 5)."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from apis import keys
from apis.vectors import ResourceVector
from policies.members import PriorityView, QueueView
from policies.verdicts import PASS, Verdict, Wake
from policies.views import JobView

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
"""States of a Queue. A closed one takes no new Jobs; what was accepted before waits in it, and what runs goes on."""

NAMESPACE_UNKNOWN: Final = "NamespaceUnknown"
"""Reason of a refusal that lasts until the namespace of a Job is known here."""

_PATH_AHEAD: Final = keys.PATH_AHEAD.removeprefix(f"{keys.GROUP}/")
_LONGEST: Final = 99_999
"""Longer paths count as this long."""

MAX_DEPTH: Final = 16
"""A chain of parents longer than this is a cycle, or as good as one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a queue can never take a Job: a reason for its status, the field, and the text."""

    reason: str
    field: str
    message: str


def priority_of(job: JobView, *, classes: Mapping[str, PriorityView]) -> int:
    """Value of its PriorityClass, or of the global default; 0 when there is none or it is unknown."""
    if job.priority_class:
        named = classes.get(job.priority_class)
        return named.value if named else 0
    return max((each.value for each in classes.values() if each.default), default=0)


def order_key(job: JobView, *, queues: Mapping[str, QueueView], classes: Mapping[str, PriorityView]) -> JobOrder:
    """Smaller goes first: priority of the queue, priority of the Job, age, namespace, name. Of steps of flows that are equally
    old, to the second, the one with the longest path ahead counts as the older one."""
    queue = queues.get(job.queue)
    age = f"{job.created} {_LONGEST - _ahead(job):05d}"
    return (-(queue.priority if queue else 0), -priority_of(job, classes=classes), age, job.namespace, job.name)


TURN: Final = 100
"""Jobs of one namespace that go before the next Jobs of the others come: a flood of one tenant delays nobody's first."""

JobOrder = tuple[int, int, str, str, str]
Order = tuple[int, int, int, str, str, str]
"""Priority of the queue, priority of the Job, turn of the namespace, age, namespace, name."""


def in_turns(orders: Mapping[tuple[str, str], JobOrder]) -> dict[tuple[str, str], Order]:
    """Orders in which namespaces take turns: among Jobs of equal priority the first hundred of every namespace, by age, go
    before the next hundred of any. Of one namespace alone the order stays as it is."""
    taken: Counter[tuple[str, int, int]] = Counter()
    found: dict[tuple[str, str], Order] = {}
    for key, (queue, priority, age, namespace, name) in sorted(orders.items(), key=itemgetter(1, 0)):
        level = (key[0], queue, priority)
        found[key] = (queue, priority, taken[level] // TURN, age, namespace, name)
        taken[level] += 1
    return found


def _ahead(job: JobView) -> int:
    """Steps on the longest path of its flow that begins with it; 0 for a Job of no flow."""
    text = job.settings.get(_PATH_AHEAD, "")
    return min(int(text), _LONGEST) if text.isascii() and text.isdigit() else 0


def shut_out(name: str, *, namespace: str, labels: Mapping[str, str] | None, queues: Mapping[str, QueueView]) -> Refusal | None:
    """Whether a queue, or one above it, is for other namespaces (design.md 5). `labels`: of the namespace, None while it is not
    known: then nobody can say that it is for it."""
    for above in chain(name, queues=queues):
        door = queues[above].door if above in queues else None
        if door is None:
            continue
        if labels is None:
            text = f"queue {above} is not for all, and namespace {namespace} is not known yet"
            return Refusal(NAMESPACE_UNKNOWN, "spec.queue", text)
        if not door.admits(labels):
            return Refusal("QueueForbidden", "spec.queue", door.why_not(above, namespace=namespace))
    return None


def refusal(name: str, *, queues: Mapping[str, QueueView]) -> Refusal | None:
    """Whether a queue may be submitted to at all: it exists, is not root, is a leaf, and is open with all queues above it.

    The default queue counts as there before the hub has made it: no Job may fail for that.
    """
    queue = queues.get(name)
    if queue is None and name == keys.DEFAULT_QUEUE:
        return None
    if queue is None:
        return Refusal("QueueNotFound", "spec.queue", f"queue {name} does not exist")
    if name == keys.ROOT_QUEUE:
        return Refusal("QueueNotALeaf", "spec.queue", "Jobs cannot be submitted to the root queue")
    if any(each.parent == name for each in queues.values()):
        return Refusal("QueueNotALeaf", "spec.queue", f"queue {name} has child queues, submit to one of them")
    for above in chain(name, queues=queues):
        shut = queues.get(above)
        if shut is not None and not shut.open:
            where = f"queue {name} is" if above == name else f"queue {name} is under queue {above}, which is"
            return Refusal("QueueClosed", "spec.queue", f"{where} {shut.state or 'being deleted'}")
    return None


class QueueOrder(enum.StrEnum):
    """What a Command may ask of a Queue."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


def state_of(queue: QueueView, *, order: QueueOrder | None, unfinished: bool) -> str:
    """The state a Queue should have (reference/volcano.md 2.2). `order`: the newest Command for it; `unfinished`: a Job of it,
    or of a queue under it, has not ended."""
    if order is QueueOrder.OPEN:
        return OPEN
    if order is QueueOrder.CLOSE or queue.state == CLOSING:
        return CLOSING if unfinished else CLOSED
    return queue.state or OPEN


def chain(name: str, *, queues: Mapping[str, QueueView]) -> tuple[str, ...]:
    """The queue and its ancestors, leaf first; root is the parent of whatever names none."""
    path: list[str] = []
    while name and name not in path and len(path) < MAX_DEPTH:
        path.append(name)
        queue = queues.get(name)
        name = (queue.parent or keys.ROOT_QUEUE) if queue and name != keys.ROOT_QUEUE else ""
    return tuple(path)


def admits(
    job: JobView, *, request: ResourceVector, queues: Mapping[str, QueueView], used: Mapping[str, ResourceVector]
) -> Verdict:
    """Whether what runs from the queue and its ancestors plus `request` stays within every capability on the way.

    Pods are not counted unless a capability names them; a resource that a capability does not name is not limited.
    """
    for name in chain(job.queue, queues=queues):
        queue = queues.get(name)
        if queue is None or queue.capability is None:
            continue
        after = used.get(name, ResourceVector()) + request
        over = {
            resource: after.get(resource) - limit for resource, limit in queue.capability.items() if after.get(resource) > limit
        }
        if over and any(request.get(resource) for resource in over):
            lacking = ResourceVector({resource: amount for resource, amount in over.items() if request.get(resource)})
            return Verdict("QueueFull", f"queue {name} would exceed its capability by {lacking}", (Wake.QUEUE, Wake.JOB))
    return PASS
