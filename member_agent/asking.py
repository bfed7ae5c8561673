"""What the reports ask the scheduler, so that the hub is told what the scheduler would do and not what somebody else thinks.

Reporting and scheduling do not know each other: they meet in these values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apis.capacity import ShapeAnswer
from member_agent.room import Amounts, Spot
from policies.asked import Asked


@dataclass(frozen=True, slots=True)
class End:
    """Pods of a Job, by the UID of its controller, that will have ended in so many seconds, because somebody enforces it."""

    seconds: float
    owner: str


class Stand(Protocol):
    """How things stand at one instant."""

    @property
    def left(self) -> Amounts:
        """What is free by row of the inventory's room, less all that is spoken for."""
        ...

    def ask(self, asked: Asked) -> ShapeAnswer:
        """About one shape, as if none were asked about beside it."""
        ...


class Foresight(Protocol):
    """What the scheduler can tell of gangs that are not here yet."""

    def held(self) -> Mapping[str, Mapping[str, int]]:
        """What pods of each queue hold, without queues under it; milli units."""
        ...

    def kept(self) -> Collection[str]:
        """Names of nodes on which whatever is or gets free waits for a gang that is here already."""
        ...

    def refusal(self, manifest: bytes, *, promised: Sequence[Spot]) -> str:
        """Why a Job of this manifest would get no nodes now; "" where it would, or where nobody can tell."""
        ...

    def stand(self, asked: Sequence[Asked], *, promised: Sequence[Spot], ends: Sequence[End]) -> Stand:
        """How things stand now, to be asked about these shapes. `promised`: room for pods of gangs that are not there yet."""
        ...
