"""What the reports ask the scheduler, so that the hub is told what the scheduler would do and not what somebody else thinks.

Reporting and scheduling do not know each other: they meet in these values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apis.capacity import ShapeAnswer
from member_agent.room import Spot
from policies.asked import Asked


@dataclass(frozen=True, slots=True)
class End:
    """Pods of a Job, by the UID of its controller, that will have ended in so many seconds, because somebody enforces it."""

    seconds: float
    owner: str


class Foresight(Protocol):
    """What the scheduler can tell of gangs that are not here yet."""

    def held(self) -> Mapping[str, Mapping[str, int]]:
        """What pods of each queue hold, without queues under it; milli units."""
        ...

    def kept(self) -> Collection[str]:
        """Names of nodes on which whatever is or gets free waits for a gang that is here already."""
        ...

    def stand(self, *, promised: Sequence[Spot], ends: Sequence[End]) -> Callable[[Asked], ShapeAnswer]:
        """Answers about shapes, all on the state of now and each as if none were asked about beside it. `promised` is room
        that was promised to gangs whose pods are not there yet."""
        ...
