"""What limits of a queue say to several shapes of pods together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from member_agent.room import Spot
from member_agent.scheduling.reasons import Reason
from policies.shapes import PodShape

if TYPE_CHECKING:
    from member_agent.scheduling.session import OpenSession
    from member_agent.scheduling.snapshot import Waiting


def over(session: OpenSession, gang: Waiting, needs: Sequence[tuple[PodShape, int]]) -> Reason | None:
    """The limit of its queue that a gang would pass with these needs beside what is in the books, one shape counting beside the
    other; gangs that the hub admitted pass all. The books are as before afterwards."""
    if gang.group.admitted:
        return None
    entered: list[Spot] = []
    found: Reason | None = None
    with session.gates.aside(gang.key):
        for shape, count in needs:
            allowed = session.tiers.allocatable(gang.group.queue, request=shape.requests, pods=count)
            if allowed.pods < count:
                text = f"queue {gang.group.queue} takes {allowed.pods} of {count} pods"
                found = allowed.reason or Reason("QueueFull", text)
                break
            entered.append(Spot(0, shape, count))
            session.charge(gang, entered[-1:], times=1)
        session.charge(gang, entered, times=-1)
    return found
