"""Places pods that ask for nothing but their own place: they fit wherever a pod fits, and no share of a queue is touched.

That it is configured also makes `allocate` keep nodes for the first gang that finds no room (`reserving`): without it smaller
ones could pass it for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from member_agent.scheduling.actions.allocate import Allocation, best_effort, willing
from member_agent.scheduling.session import OpenSession


def backfill(session: OpenSession) -> Iterator[None]:
    """Gangs of best-effort pods."""
    gangs = [gang for gang in session.waiting if best_effort(gang) and willing(session, gang)]
    return Allocation(session, gangs, shared=False).run()
