"""Domains of a topology: rows of a layout with the same value of a label.

Domains are numbered; `size` stands for nodes without the label, so that an array by domain has `size + 1` places and its last
one speaks of them. Kept for as long as the layout (`Layout.topologies`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Domains = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
D = TypeVar("D", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Topology:
    """`of_row`: the domain of every row. `single`: every node is a domain of its own, numbered as the rows are."""

    of_row: Domains
    size: int
    single: bool

    def sums(self, by_row: Counts) -> Counts:
        """Sums by domain, 0 for nodes without the label."""
        if self.single:
            found = np.zeros(self.size + 1, dtype=np.int64)
            found[self.of_row] = by_row
        else:
            found = np.bincount(self.of_row, weights=by_row, minlength=self.size + 1).astype(np.int64)
        found[self.size] = 0
        return found

    def by_row(self, by_domain: npt.NDArray[D]) -> npt.NDArray[D]:
        """What holds for the domain of every row; not to be written to."""
        return by_domain[: self.size] if self.single else by_domain[self.of_row]

    def any(self, rows: Mask) -> Mask:
        """Domains that have one of these rows."""
        found = np.zeros(self.size + 1, dtype=np.bool_)
        found[self.of_row[rows]] = True
        found[self.size] = False
        return found


@dataclass(slots=True)
class Topologies:
    """What was worked out about one layout."""

    by_label: dict[tuple[str, ...], Topology] = field(default_factory=dict)
    masks: dict[object, Mask] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows by name of node."""
    scores: dict[object, npt.NDArray[np.float64]] = field(default_factory=dict)
    """Numbers by row that follow from nodes alone."""


def numbered(values: list[str | None]) -> Topology:
    """The topology of rows with these values; None: without the label."""
    ids: dict[str, int] = {}
    found = [ids.setdefault(value, len(ids)) if value is not None else -1 for value in values]
    of_row = np.array(found, dtype=np.intp)
    of_row[of_row < 0] = len(ids)
    return Topology(of_row, len(ids), single=len(ids) == len(values))


def joint(topologies: list[Topology]) -> Topology:
    """Domains in which all of them agree; a node that lacks a label of any is outside."""
    first = topologies[0]
    if len(topologies) == 1 or first.single:
        return first
    inside = np.ones(len(first.of_row), dtype=np.bool_)
    key = np.zeros(len(first.of_row), dtype=np.int64)
    for each in topologies:
        inside &= each.of_row != each.size
        key = key * (each.size + 1) + each.of_row
    values, of_row = np.unique(key[inside], return_inverse=True)
    found = np.full(len(key), len(values), dtype=np.intp)
    found[inside] = of_row
    return Topology(found, len(values), single=False)
