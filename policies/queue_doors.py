"""Which namespaces a Queue is for: the simple form of the right to use it (design.md 5). Pure.

The annotation `volcano-federation.io/namespaces` of a Queue holds a label selector as kubectl takes it (`team in (a, b),!old`).
A Queue that has it takes Jobs from the namespaces it selects and from no others; a selector that cannot be read selects none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apis import keys
from policies.selectors import Requirement

NAMESPACES: Final = f"{keys.GROUP}/namespaces"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has."""

_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"(?P<key>{_KEY})\s*(?P<how>==|=|!=)\s*(?P<value>{_VALUE})")
_EXISTS = re.compile(rf"(?P<no>!?)\s*(?P<key>{_KEY})")
_SEPARATOR = re.compile(r",(?![^()]*\))")
_OPERATORS: Final = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn"}


class UnreadableSelector(ValueError):
    """A text that is no label selector; says which part."""


@dataclass(frozen=True, slots=True)
class QueueDoor:
    """The namespaces that one Queue is for: all whose labels meet every requirement."""

    text: str
    requirements: tuple[Requirement, ...] = ()
    readable: bool = True

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a namespace with these labels may use the Queue."""
        return self.readable and all(each.holds(labels) for each in self.requirements)

    def why_not(self, queue: str, *, namespace: str) -> str:
        """For people: why a Job of `namespace` may not use it."""
        if not self.readable:
            return f"queue {queue} is for no namespace: its annotation {NAMESPACES} cannot be read"
        return f"queue {queue} is not for namespace {namespace}: it is for namespaces with {self.text}"


def requirements(text: str) -> tuple[Requirement, ...]:
    """A label selector as kubectl takes it; raises UnreadableSelector. An empty one, which would select all, is unreadable."""
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    return tuple(_requirement(part) for part in parts)


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(value.strip() for value in found["values"].split(","))
        if not all(re.fullmatch(_VALUE, value) for value in values):
            raise UnreadableSelector(f"{part!r}: a value is no label value")
        return Requirement(found["key"], _OPERATORS[found["how"]], values)
    if found := _EQUAL.fullmatch(part):
        return Requirement(found["key"], _OPERATORS[found["how"]], (found["value"],))
    if found := _EXISTS.fullmatch(part):
        return Requirement(found["key"], "DoesNotExist" if found["no"] else "Exists")
    raise UnreadableSelector(f"{part!r} is no requirement on labels: want key=value, key in (a, b), key or !key")


def door_of(annotations: Mapping[str, str]) -> QueueDoor | None:
    """What a Queue's annotations say; None for a Queue that is for everybody."""
    text = annotations.get(NAMESPACES)
    if text is None:
        return None
    try:
        return QueueDoor(text, requirements(text))
    except UnreadableSelector:
        return QueueDoor(text, readable=False)
