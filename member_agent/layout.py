"""Nodes as rows and resources as columns: what stays while pods come and go, and what a rule may see of it.

Amounts are milli units (apis/vectors). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from policies.shapes import PodShape, Taint

Amounts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Scores = npt.NDArray[np.float64]

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label that makes every node unlike all others; node classes leave it out."""

UNBOUNDED: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that are alike to every rule: labels (without the host name) and taints."""

    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What does not change while pods come and go: node names in row order, their classes, and who takes new pods."""

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    """Host name labels, in row order."""
    columns: Mapping[str, int]
    classes: tuple[NodeClass, ...]
    class_of: npt.NDArray[np.int32]
    usable: Mask
    """Ready and not cordoned."""
    masks: dict[PodShape, Mask] = field(default_factory=dict, compare=False)
    """Answers of `admits`, kept as long as the layout."""

    def admits(self, shape: PodShape) -> Mask:
        """Which nodes may run the shape, requests apart."""
        known = self.masks.get(shape)
        if known is None:
            known = self.masks[shape] = self._evaluate(shape)
        return known

    def _evaluate(self, shape: PodShape) -> Mask:
        if not self.names or shape.unknown:
            return np.zeros(len(self.names), dtype=np.bool_)
        if _reads(shape, HOSTNAME):
            by_node = [
                shape.accepts(dict(self.classes[index].labels) | {HOSTNAME: name}, taints=self.classes[index].taints)
                for name, index in zip(self.hosts, self.class_of.tolist(), strict=True)
            ]
            return np.array(by_node, dtype=np.bool_) & self.usable
        by_class = [shape.accepts(dict(each.labels), taints=each.taints) for each in self.classes]
        found: Mask = np.array(by_class, dtype=np.bool_)[self.class_of] & self.usable
        return found


def _reads(shape: PodShape, label: str) -> bool:
    """Whether the shape's selectors look at this label."""
    return any(key == label for key, _ in shape.node_selector) or any(
        each.key == label for term in shape.node_affinity for each in term
    )


@dataclass(frozen=True, slots=True)
class Spot:
    """So many pods of one shape on one node (its row)."""

    row: int
    shape: PodShape
    count: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Some rows of a room as a rule may see them: `free` and `allocatable` belong to `rows`, one column per resource. A row may
    stand there several times with different amounts: what it would look like with one more pod, with two more, …"""

    layout: Layout
    rows: Rows
    free: Amounts
    allocatable: Amounts

    def column(self, resource: str) -> int | None:
        """Where a resource stands; None when no node has it."""
        return self.layout.columns.get(resource)


class Rules(Protocol):
    """What decides where pods may go and where they go best, requests apart."""

    @property
    def scores_nodes(self) -> bool:
        """Whether `node_order` tells nodes apart; where it does not, the fullest node is the best."""
        ...

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        """Nodes that may run the shape."""
        ...

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        """How many more pods of the shape each row takes."""
        ...

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        """How good each row is; larger is better."""
        ...
