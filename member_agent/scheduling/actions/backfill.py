"""Places pods that ask for nothing but their own place: they fit wherever a pod fits, and no share of a queue is touched.

That it is configured also makes `allocate` keep nodes for the first gang that finds no room (`reserving`): without it smaller
ones could pass it for ever.
"""

from __future__ import annotations

from member_agent.scheduling.actions.allocate import Allocation, best_effort, willing
from member_agent.scheduling.session import OpenSession


def backfill(session: OpenSession) -> None:
    """Gangs of best-effort pods."""
    Allocation(session, [gang for gang in session.waiting if best_effort(gang) and willing(session, gang)], shared=False).run()
