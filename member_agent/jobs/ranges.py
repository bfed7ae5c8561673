"""Sets of pod indices as text, `0-3,7`: a thousand neighbours cost a few bytes of a status."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

LIMIT = 1_000_000
"""Indices that are read from one text at most: a status that somebody wrote by hand must not fill the memory."""


def text(indices: Iterable[int]) -> str:
    """The shortest text of the set; the same text for the same set."""
    ordered = sorted(set(indices))
    runs = [[index for _, index in run] for _, run in groupby(enumerate(ordered), key=lambda each: each[1] - each[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def read(written: str) -> frozenset[int]:
    """The set; parts that are no indices are left out."""
    found: set[int] = set()
    for part in written.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            continue
        low, high = int(first), int(last or first)
        found.update(range(low, min(high, low + LIMIT) + 1))
    return frozenset(found)
