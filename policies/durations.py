"""Durations as people write them on objects: `90s`, `10m`, `2h` (design.md 3)."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(r"(?P<amount>[0-9]{1,9})(?P<unit>[smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class InvalidDuration(ValueError):
    """A text that is no duration; the message names it."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no duration: want a whole number and s, m, h or d, such as 90s, 10m or 2h")


def parse(text: str) -> int:
    """Whole seconds; raises InvalidDuration."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise InvalidDuration(text)
    return int(match["amount"]) * _SECONDS[match["unit"]]


def text(seconds: float) -> str:
    """The shortest exact form of whole seconds, in the largest unit that loses nothing."""
    whole = int(seconds)
    for unit in ("d", "h", "m"):
        if whole and whole % _SECONDS[unit] == 0:
            return f"{whole // _SECONDS[unit]}{unit}"
    return f"{whole}s"


_PARTS: Final = re.compile(r"(?P<amount>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|ms|s|m|h)")
_GOLANG: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def golang(text: str) -> float:
    """Seconds of a duration as Kubernetes types write it (`1h30m`, `1.5s`, `0`); raises InvalidDuration, also below 0."""
    if text in ("0", "+0", "-0"):
        return 0.0
    rest, seconds = text.removeprefix("+"), 0.0
    if not rest or _PARTS.match(rest) is None:
        raise InvalidDuration(text)
    while rest:
        match = _PARTS.match(rest)
        if match is None:
            raise InvalidDuration(text)
        seconds += float(match["amount"]) * _GOLANG[match["unit"]]
        rest = rest[match.end() :]
    return seconds
