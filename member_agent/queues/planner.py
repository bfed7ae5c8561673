"""What one look at a queue asks for: a state, a mark, a parent, Commands to delete, and words for people. Pure.

The state follows, in this order: root stays open; the newest Command; the parent. A queue is never open under a closed parent:
it is closed with a mark, and the mark is what opens it again. Every write can be the last one: what is done in two writes is
ordered so that the next look goes on from between them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apis import keys, kinds
from machinery.events import Severity
from member_agent.queues import orders
from member_agent.queues.lifecycle import QUEUE, SHUT, QueueEvent, QueueState
from member_agent.queues.orders import Dismissed, QueueAction, Told
from member_agent.queues.tree import Tree
from member_agent.views import QueueView
from policies.members import CommandView


class Above(enum.Enum):
    """What the parent says."""

    OPEN = "takes Jobs"
    SHUT = "is closed or closing"
    MISSING = "is not there: nobody knows whether it would be open"


@dataclass(frozen=True, slots=True)
class Look:
    """A queue and what is around it. `commands`: those for it, the oldest first; `busy`: it has PodGroups."""

    queue: QueueView
    above: Above = Above.OPEN
    commands: tuple[CommandView, ...] = ()
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Set or remove `closed-by-parent`."""

    marked: bool


@dataclass(frozen=True, slots=True)
class State:
    """Write `status.state`."""

    state: QueueState


@dataclass(frozen=True, slots=True)
class Hang:
    """Name root as the parent."""

    parent: str = keys.ROOT_QUEUE


Step = Mark | State | Hang


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes in their order, Commands to delete when these are done, what is told then, and writes that nothing waits for."""

    steps: tuple[Step, ...] = ()
    dismissed: tuple[Dismissed, ...] = ()
    told: tuple[Told, ...] = ()
    later: tuple[Step, ...] = ()


def plan(look: Look) -> Plan:
    """What to do about one queue."""
    queue = look.queue
    ordered = orders.read(queue, look.commands)
    if queue.deleting:
        return Plan(dismissed=ordered.dismissed)
    state, marked, told = _wanted(look, ordered.action)
    later = (Hang(),) if not queue.parent and queue.name != keys.ROOT_QUEUE and not queue.managed else ()
    return Plan(_steps(queue, state, marked=marked), ordered.dismissed, told, later)


def _wanted(look: Look, action: QueueAction | None) -> tuple[QueueState, bool, tuple[Told, ...]]:
    """State and mark that the queue should have, and what people should hear of the way there."""
    queue, before = look.queue, state_of(look.queue)
    shut = look.above is Above.SHUT
    state, marked, told = before, queue.closed_by_parent, []

    def step(event: QueueEvent) -> QueueState:
        return QUEUE.step(state, event, story=f"queue {queue.name}")

    if queue.name == keys.ROOT_QUEUE:
        if before in SHUT:
            told.append(Told("QueueReopened", f"it was {before}; the root queue cannot be closed", Severity.WARNING))
        state, marked = step(QueueEvent.ROOT), False
    elif action is QueueAction.CLOSE:
        state, marked = step(QueueEvent.CLOSE), False
    elif action is QueueAction.OPEN and shut:
        marked = True
        told.append(Told("OpensLater", f"parent {queue.parent} is closed: the queue opens with it", Severity.WARNING))
    elif action is QueueAction.OPEN:
        state, marked = step(QueueEvent.OPEN), False
    if shut and state not in SHUT:
        state, marked = step(QueueEvent.PARENT_CLOSED), True
        told.append(Told("ClosedByParent", f"parent {queue.parent} is closed: the queue opens with it"))
    elif marked and look.above is Above.OPEN:
        if state in SHUT:
            state = step(QueueEvent.PARENT_OPENED)
            told.append(Told("OpenedWithParent", f"parent {queue.parent} is open again"))
        marked = False
    else:
        state = step(QueueEvent.SETTLED)
    if state is QueueState.CLOSING and not look.busy:
        state = step(QueueEvent.EMPTIED)
    return state, marked, tuple(told)


def _steps(queue: QueueView, state: QueueState, *, marked: bool) -> tuple[Step, ...]:
    """The mark is there before a state that needs it to be undone, and goes after the state that undid it."""
    mark = (Mark(marked),) if marked != queue.closed_by_parent else ()
    write = (State(state),) if state != queue.state else ()
    return (*write, *mark) if state is QueueState.OPEN else (*mark, *write)


def state_of(queue: QueueView) -> QueueState:
    """The state as it counts."""
    if not queue.state:
        return QueueState.OPEN
    return QueueState(queue.state) if queue.state in QueueState.__members__.values() else QueueState.UNKNOWN


def above(name: str, *, tree: Tree, queues: Callable[[str], QueueView | None]) -> Above:
    """What the parent of a queue says. Root is always open, and a parent in a loop with the queue has no say."""
    parent = tree.parent(name)
    if parent in ("", keys.ROOT_QUEUE) or tree.loops(name):
        return Above.OPEN
    found = queues(parent)
    if found is None:
        return Above.MISSING
    return Above.SHUT if state_of(found) in SHUT else Above.OPEN


def complaint(queue: QueueView, *, tree: Tree) -> Told | None:
    """What is wrong with a queue as it was written; nobody else's queue is touched by it."""
    parent = tree.parent(queue.name)
    if queue.problem:
        return Told("QueueUnreadable", f"{queue.problem}; it counts as not given", Severity.WARNING)
    if parent and parent not in tree:
        return Told("ParentMissing", f"spec.parent: queue {parent} does not exist", Severity.WARNING)
    if tree.loops(queue.name):
        path = " → ".join([*tree.lineage(queue.name), queue.name])
        return Told("QueueCycle", f"spec.parent: {path} is a cycle; the queue counts as one under root", Severity.WARNING)
    return None


# --- the two that everything hangs from ------------------------------------------------------------------------------


def missing(queues: Iterable[QueueView]) -> tuple[str, ...]:
    """Which of `root` and `default` are to be made, in this order."""
    there = {queue.name for queue in queues}
    return tuple(name for name in (keys.ROOT_QUEUE, keys.DEFAULT_QUEUE) if name not in there)


def body(name: str) -> dict[str, object]:
    """A queue as this agent makes it: root cannot be reclaimed from, default hangs from root (reference/volcano.md 2.2)."""
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != keys.ROOT_QUEUE}
    if name != keys.ROOT_QUEUE:
        spec["parent"] = keys.ROOT_QUEUE
    return {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": spec}
