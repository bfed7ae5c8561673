"""What is wrong with an object, and where: values, never exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from pydantic import ValidationError

from policies import durations

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253


@dataclass(frozen=True, slots=True)
class Problem:
    """The field at fault, as the API server writes its path, and the reason."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def summary(problems: Iterable[Problem]) -> str:
    """One line for a condition or an event."""
    return "; ".join(str(problem) for problem in problems)


def of_reading(error: ValidationError) -> list[Problem]:
    """Why a model could not be read at all."""
    return [Problem(_path(each["loc"]), each["msg"]) for each in error.errors(include_url=False)]


def _path(place: Sequence[str | int]) -> str:
    path = ""
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def is_label(name: str) -> bool:
    """A DNS-1123 label: what a task and a container may be called."""
    return len(name) <= LABEL_LENGTH and _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """A DNS-1123 subdomain: what most objects may be called."""
    return len(name) <= SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(name) is not None


def is_qualified(name: str) -> bool:
    """A name that may stand as the value of a label."""
    return len(name) <= LABEL_LENGTH and _QUALIFIED.fullmatch(name) is not None


def at_least(minimum: int, value: int | None, *, field: str) -> list[Problem]:
    """A bound as the API server words it; a value that is not given keeps it."""
    if value is None or value >= minimum:
        return []
    return [Problem(field, f"{value} should be greater than or equal to {minimum}")]


def duration(text: str | None, *, field: str) -> list[Problem]:
    """A length of time as Kubernetes types write it (1h30m); not given and empty are none."""
    if not text:
        return []
    try:
        durations.golang(text)
    except durations.InvalidDuration:
        return [Problem(field, f"{text!r} is no duration: want numbers with units, such as 90s, 10m or 1h30m")]
    return []


def among(values: Sequence[str], value: str | None, *, field: str) -> list[Problem]:
    """A closed set of values; not given and empty keep it."""
    if not value or value in values:
        return []
    return [Problem(field, f"{value!r} is not one of {', '.join(values)}")]


def first_cycle(waits_for: Mapping[str, Sequence[str]]) -> list[str] | None:
    """A cycle as the steps that wait for each other, its first step again at the end; it starts at the step named first."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        ring: list[str] = list(reversed(error.args[1]))[:-1]
        order = {name: place for place, name in enumerate(waits_for)}
        start = min(range(len(ring)), key=lambda place: order[ring[place]])
        ring = ring[start:] + ring[:start]
        return [*ring, ring[0]]
    return None
