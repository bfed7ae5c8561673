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
    wanted = _emptied(_follow(_asked(look, ordered.action), look), look)
    later = (Hang(),) if not queue.parent and queue.name != keys.ROOT_QUEUE and not queue.managed else ()
    return Plan(_steps(queue, wanted.state, marked=wanted.marked), ordered.dismissed, wanted.told, later)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """State and mark that the queue should have, and what people should hear of the way there."""

    state: QueueState
    marked: bool
    told: tuple[Told, ...] = ()

    def after(self, event: QueueEvent, look: Look, *, marked: bool, told: Told | None = None) -> _Wanted:
        """One edge further."""
        state = QUEUE.step(self.state, event, story=f"queue {look.queue.name}, {look.above.value} above")
        return _Wanted(state, marked, (*self.told, told) if told is not None else self.told)


def _asked(look: Look, action: QueueAction | None) -> _Wanted:
    """What the queue should be by itself: root open, any other as its newest Command says."""
    queue, wanted = look.queue, _Wanted(state_of(look.queue), look.queue.closed_by_parent)
    if queue.name == keys.ROOT_QUEUE:
        told = Told("QueueReopened", f"it was {wanted.state}; the root queue cannot be closed", Severity.WARNING)
        return wanted.after(QueueEvent.ROOT, look, marked=False, told=told if wanted.state in SHUT else None)
    if action is QueueAction.CLOSE:
        return wanted.after(QueueEvent.CLOSE, look, marked=False)
    if action is QueueAction.OPEN and look.above is Above.SHUT:
        told = Told("OpensLater", f"parent {queue.parent} is closed: the queue opens with it", Severity.WARNING)
        return _Wanted(wanted.state, True, (told,))
    if action is QueueAction.OPEN:
        return wanted.after(QueueEvent.OPEN, look, marked=False)
    return wanted


def _follow(wanted: _Wanted, look: Look) -> _Wanted:
    """What becomes of that under its parent."""
    parent = look.queue.parent
    if look.above is Above.SHUT and wanted.state not in SHUT:
        told = Told("ClosedByParent", f"parent {parent} is closed: the queue opens with it")
        return wanted.after(QueueEvent.PARENT_CLOSED, look, marked=True, told=told)
    if look.above is not Above.OPEN or not wanted.marked:
        return wanted.after(QueueEvent.SETTLED, look, marked=wanted.marked)
    if wanted.state not in SHUT:
        return wanted.after(QueueEvent.SETTLED, look, marked=False)
    told = Told("OpenedWithParent", f"parent {parent} is open again")
    return wanted.after(QueueEvent.PARENT_OPENED, look, marked=False, told=told)


def _emptied(wanted: _Wanted, look: Look) -> _Wanted:
    """A closing queue without PodGroups is closed, in the same write."""
    if wanted.state is not QueueState.CLOSING or look.busy:
        return wanted
    return wanted.after(QueueEvent.EMPTIED, look, marked=wanted.marked)


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


def missing(queues: Iterable[QueueView], *, default: str = keys.DEFAULT_QUEUE) -> tuple[str, ...]:
    """Which of `root`, `default` and the queue of pods that name none are to be made, in this order."""
    there = {queue.name for queue in queues}
    wanted = dict.fromkeys((keys.ROOT_QUEUE, keys.DEFAULT_QUEUE, default))
    return tuple(name for name in wanted if name not in there)


def body(name: str) -> dict[str, object]:
    """A queue as this agent makes it: root cannot be reclaimed from, default hangs from root (reference/volcano.md 2.2)."""
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != keys.ROOT_QUEUE}
    if name != keys.ROOT_QUEUE:
        spec["parent"] = keys.ROOT_QUEUE
    return {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": spec}
