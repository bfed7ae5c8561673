"""Lifecycle of a Queue in a member (reference/volcano.md 2.2): who may close and open it, and when it counts as closed.

A state that somebody writes by hand is taken as it stands: the table starts from what is there.
"""

from __future__ import annotations

import enum
from typing import Final

from policies.tables import Table


class QueueState(enum.StrEnum):
    """`status.state`; empty counts as Open, a word that is none of these as Unknown."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


class QueueEvent(enum.Enum):
    """What Commands, the parent and the PodGroups say about a queue."""

    SETTLED = "nothing new"
    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"
    PARENT_CLOSED = "its parent is closed"
    PARENT_OPENED = "its parent is open again"
    EMPTIED = "it has no PodGroup"
    ROOT = "it is root"


SHUT: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})
"""States in which nothing new is taken, here and below."""

_O, _G, _C, _U = QueueState.OPEN, QueueState.CLOSING, QueueState.CLOSED, QueueState.UNKNOWN

QUEUE: Final = Table(
    name="Queue (in a member)",
    initial=_O,
    edges={
        (_O, QueueEvent.SETTLED): _O,
        (_G, QueueEvent.SETTLED): _G,
        (_C, QueueEvent.SETTLED): _C,
        (_U, QueueEvent.SETTLED): _O,
        (_O, QueueEvent.CLOSE): _G,
        (_U, QueueEvent.CLOSE): _G,
        (_G, QueueEvent.CLOSE): _G,
        (_C, QueueEvent.CLOSE): _C,
        (_O, QueueEvent.PARENT_CLOSED): _G,
        (_U, QueueEvent.PARENT_CLOSED): _G,
        (_G, QueueEvent.EMPTIED): _C,
        **{(state, QueueEvent.OPEN): _O for state in QueueState},
        (_G, QueueEvent.PARENT_OPENED): _O,
        (_C, QueueEvent.PARENT_OPENED): _O,
        **{(state, QueueEvent.ROOT): _O for state in QueueState},
    },
    meaning={
        _O: "Takes Jobs.",
        _G: "Takes no new Jobs; PodGroups of earlier ones are still there and go on.",
        _C: "Takes no new Jobs; its last PodGroup was gone, or somebody wrote the state by hand.",
        _U: "Written by somebody else; looked at anew at once.",
    },
    actions={
        QueueEvent.OPEN: "A mark `volcano.sh/closed-by-parent` goes. While the parent is closed the state stays and the mark "
        "is set instead: the queue opens with its parent.",
        QueueEvent.CLOSE: "The mark goes too: the queue stays closed when its parent opens.",
        QueueEvent.PARENT_CLOSED: "The mark is set first, the state written then.",
        QueueEvent.PARENT_OPENED: "Only for a queue with the mark: the state is written first, the mark goes then.",
        QueueEvent.EMPTIED: "In the same write as the closing where there was none to begin with.",
        QueueEvent.ROOT: "Root cannot be closed; a Command that asks for it is refused.",
    },
)
