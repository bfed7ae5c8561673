"""Shapes as the plugins of a scheduler see them: equal pods that a plugin tells apart are two questions to a room.

A pod of a queue that is bound to some nodes, or of a gang whose tasks want to sit together, is asked about as a shape of its
own. It asks for the same and may run in the same places as the shape it is made `of`, and holds room as that shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Final

from policies.shapes import ONE_POD, PodShape

Aspects = tuple[tuple[str, Hashable], ...]
"""What plugins know of a pod beside its shape, each under its plugin's name."""

_NO_SHAPE: Final = PodShape(ONE_POD)


@dataclasses.dataclass(frozen=True, slots=True)
class SeenShape(PodShape):
    """A shape, and what plugins know of pods beside it."""

    of: PodShape = _NO_SHAPE
    aspects: Aspects = ()

    def __hash__(self) -> int:
        return hash((self.of, self.aspects))


_FIELDS: Final = tuple(each.name for each in dataclasses.fields(PodShape) if each.init)


def seen(shape: PodShape, aspects: Aspects) -> SeenShape:
    """The shape with these aspects."""
    return SeenShape(**{name: getattr(shape, name) for name in _FIELDS}, of=shape, aspects=aspects)


def plain(shape: PodShape) -> PodShape:
    """The shape as it is, without what plugins know beside it."""
    return shape.of if isinstance(shape, SeenShape) else shape


def aspect(shape: PodShape, *, of: str) -> Hashable | None:
    """What the plugin `of` this name knows of pods of the shape."""
    if not isinstance(shape, SeenShape):
        return None
    return next((value for name, value in shape.aspects if name == of), None)
