"""What pods take of a node that only one of them can have."""

from __future__ import annotations

from member_agent.aspects import plain
from policies.neighbours import HostPort
from policies.shapes import PodShape

Berth = tuple[HostPort, ...] | PodShape


def berth(shape: PodShape) -> Berth:
    """What pods take of a node that only one can have: host ports, or (where nobody says which) the place of their shape."""
    return shape.ports or plain(shape)


def clash(one: Berth, other: Berth) -> bool:
    """Whether a node cannot have both."""
    if isinstance(one, PodShape) or isinstance(other, PodShape):
        return one == other
    return any(mine.clashes(theirs) for mine in one for theirs in other)
