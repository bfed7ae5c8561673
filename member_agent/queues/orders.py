"""Commands for queues: which of them counts, and what is said about each. Pure.

A Command says how the queue shall be, so of several the newest counts, and doing it again changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from apis import keys, kinds
from machinery.events import Severity
from machinery.informer import Change
from member_agent.views import QueueView
from policies.members import CommandView


class QueueAction(enum.StrEnum):
    """`action` of a Command for a queue."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


@dataclass(frozen=True, slots=True)
class Told:
    """Something for people: an event."""

    reason: str
    message: str
    severity: Severity = Severity.NORMAL


Dismissed = tuple[CommandView, Told]
"""A Command to delete, and what is said about it."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What is asked of a queue, and the Commands to delete once that is done."""

    action: QueueAction | None = None
    dismissed: tuple[Dismissed, ...] = ()


def read(queue: QueueView, commands: Iterable[CommandView]) -> Ordered:
    """`commands`: those that name the queue, the oldest first."""
    action: QueueAction | None = None
    dismissed = []
    for command in commands:
        refusal = _refusal(queue, command)
        if refusal is None:
            action = QueueAction(command.action)
        dismissed.append((command, refusal or _issued(command)))
    return Ordered(action, tuple(dismissed))


def without_target(command: CommandView) -> Told:
    """Of a Command whose queue is not there."""
    text = f"{_text(command)}: there is no such Queue with the UID that it names"
    return Told("CommandWithoutTarget", text, Severity.WARNING)


def _refusal(queue: QueueView, command: CommandView) -> Told | None:
    """Why a Command is not carried out."""
    if command.target[2] not in ("", queue.uid):
        return without_target(command)
    if command.action not in QueueAction.__members__.values():
        known = " and ".join(QueueAction)
        return Told("CommandNotSupported", f"{_text(command)}: a Queue takes {known} only", Severity.WARNING)
    if queue.deleting:
        return Told("CommandTooLate", f"{_text(command)}: the queue is being deleted", Severity.WARNING)
    if command.action == QueueAction.CLOSE and queue.name == keys.ROOT_QUEUE:
        return Told("CommandRefused", f"{_text(command)}: the root queue cannot be closed", Severity.WARNING)
    return None


def _issued(command: CommandView) -> Told:
    return Told("CommandIssued", f"Start to execute command {_text(command)}{f': {command.reason}' if command.reason else ''}")


def _text(command: CommandView) -> str:
    return f"{command.action} of Command {command.namespace}/{command.name}"


class CommandIndex:
    """Commands by the queue they name; one that was deleted does not come back while its end is on the way."""

    def __init__(self) -> None:
        self._commands: dict[str, dict[str, CommandView]] = {}
        self._done: set[str] = set()

    def changed(self, change: Change[CommandView]) -> str:
        """Fold one change in; the queue concerned, "" where it is none."""
        command = change.new or change.old
        if command is None or command.target[0] != kinds.QUEUE.kind:
            return ""
        name = command.target[1]
        if change.new is not None:
            self._commands.setdefault(name, {})[command.uid] = command
        else:
            self._done.discard(command.uid)
            self._remove(name, command.uid)
        return name

    def _remove(self, name: str, uid: str) -> None:
        held = self._commands.get(name, {})
        if held.pop(uid, None) is not None and not held:
            del self._commands[name]

    def deleted(self, command: CommandView) -> None:
        """It was carried out and deleted; its event may come later."""
        if command.uid in self._commands.get(command.target[1], {}):
            self._done.add(command.uid)

    def of(self, name: str) -> tuple[CommandView, ...]:
        """In the order in which they were given."""
        there = (each for each in self._commands.get(name, {}).values() if each.uid not in self._done)
        return tuple(sorted(there, key=lambda each: each.order))
