"""Actions (reference/volcano.md 4.2): what a session does, one after the other, in the configured order.

An action is a function of the session, or a generator that pauses wherever others may have their turn. Own actions are
installed as entry points of the group `volcano_federation.scheduler_actions`; the name of the entry point is the name in the
configuration.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from machinery.extensions import entry_points
from member_agent.scheduling.actions.allocate import allocate
from member_agent.scheduling.actions.backfill import backfill
from member_agent.scheduling.actions.enqueue import enqueue
from member_agent.scheduling.actions.preempt import preempt
from member_agent.scheduling.actions.reclaim import reclaim
from member_agent.scheduling.actions.shuffle import shuffle
from member_agent.scheduling.session import OpenSession

GROUP: Final = "volcano_federation.scheduler_actions"

Action = Callable[[OpenSession], Iterator[None] | None]

BUILT_IN: Final[Mapping[str, Action]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
}


def perform(action: Action, session: OpenSession) -> Iterator[None]:
    """Run an action, pausing where it does."""
    steps = action(session)
    if steps is not None:
        yield from steps


def run(action: Action, session: OpenSession) -> None:
    """Run an action without a pause."""
    for _ in perform(action, session):
        pass


def installed(entries: Iterable[importlib.metadata.EntryPoint] | None = None) -> dict[str, Action]:
    """Actions that are installed. Raises what their modules raise, and TypeError for one that cannot be called."""
    found: dict[str, Action] = {}
    for entry in entry_points(GROUP) if entries is None else entries:
        loaded = entry.load()
        if not callable(loaded):
            raise TypeError(f"entry point {entry.name} of {GROUP} is no scheduler action: {entry.value}")
        found[entry.name] = loaded
    return found
