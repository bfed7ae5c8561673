"""The scheduling gate that stands before a queue, as a pod carries it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from apis import keys


class QueueGate(enum.Enum):
    """How a pod stands to the gate before its queue."""

    NONE = "it never asked for it"
    BEHIND = "it is shut, and somebody else's gate is too"
    SHUT = "it is the last gate: whoever opens it lets the pod in"
    OPEN = "it asked for the gate, and no gate is left: its queue keeps room for it"


def gate_of(gates: Sequence[Any] | None, *, asked: bool) -> QueueGate:
    """From `spec.schedulingGates`; `asked`: the pod is annotated to have the gate."""
    names = [each.get("name") for each in gates or () if isinstance(each, dict)]
    if keys.QUEUE_GATE in names:
        return QueueGate.SHUT if len(names) == 1 else QueueGate.BEHIND
    return QueueGate.OPEN if asked and not gates else QueueGate.NONE
