"""What is left of one member during a round: its rows less everything promised to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apis.vectors import ResourceVector
from policies.capacities import MemberQueue, only_the_member_can_tell
from policies.fit import Room
from policies.shapes import Gang

if TYPE_CHECKING:
    from federation.dispatch.snapshot import Member


@dataclass(slots=True)
class Floor:
    """One member during a round: what is left there, and what was sent to its queues since it last published."""

    member: Member
    room: Room | None
    promised: dict[str, ResourceVector] = field(default_factory=dict)
    unsure: Counter[str] = field(default_factory=Counter)
    """By digest, gangs sent there since of which only the member can tell."""

    def copy(self, member: Member) -> Floor:
        """An independent copy, of the same member as it is now."""
        room = self.room.copy() if self.room is not None else None
        if room is not None and self.room is not None and self.room.changes is not None:
            room.changes = list(self.room.changes)
        return Floor(member, room, dict(self.promised), Counter(self.unsure))

    def take(self, gang: Gang, *, queue: str) -> None:
        """A gang is promised this member."""
        if only_the_member_can_tell(gang):
            self.unsure[gang.digest] += 1
        if self.room is not None:
            self.room.charge(gang)
        capacity = self.member.capacity
        names: Sequence[str] = [queue]
        if capacity is not None and queue in capacity.queues:
            names = _path(queue, queues=capacity.queues)
        for name in names:
            self.promised[name] = self.promised.get(name, ResourceVector()) + gang.requests


def _path(queue: str, *, queues: Mapping[str, MemberQueue]) -> list[str]:
    """A queue and its ancestors; the last may be one that the member does not publish."""
    path: list[str] = []
    while queue and queue not in path:
        path.append(queue)
        queue = queues[queue].parent if queue in queues else ""
    return path


def floor_of(member: Member) -> Floor:
    """A member's rows less everything promised to it."""
    floor = Floor(member, Room(member.capacity.rows) if member.capacity is not None else None)
    if floor.room is not None:
        floor.room.changes = []
    for queue, gang in member.promised:
        floor.take(gang, queue=queue)
    return floor


class Floors:
    """Lends the floors of earlier rounds: while a member publishes nothing newer, only what was promised since is taken."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[tuple[str, Gang], ...], Floor]] = {}

    def floor(self, member: Member) -> Floor:
        """As `floor_of`."""
        promised, floor = self._known.get(member.cluster.name, ((), None))
        count = len(promised)
        if floor is None or floor.member.capacity is not member.capacity or member.promised[:count] != promised:
            floor = floor_of(member)
        else:
            for queue, gang in member.promised[count:]:
                floor.take(gang, queue=queue)
        self._known[member.cluster.name] = (member.promised, floor)
        return floor.copy(member)
