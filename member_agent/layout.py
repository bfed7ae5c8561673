"""Nodes as rows and resources as columns: what stays while pods come and go, and what a rule may see of it.

Amounts are milli units (apis/vectors). Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from member_agent.topology import Topologies, Topology, joint, numbered
from policies.selectors import NODE_NAME, tolerated
from policies.shapes import PodShape, Taint, Term

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
    images: tuple[tuple[tuple[str, int], ...], ...] = ()
    """Container images of every row with their sizes in bytes, by name; empty where nobody says."""
    topologies: Topologies = field(default_factory=Topologies, compare=False)
    """Domains by label, and what else was worked out about nodes."""
    cordoned: int = 0
    """Nodes that somebody took out of service for new pods; the others that are not usable are not ready."""

    def admits(self, shape: PodShape) -> Mask:
        """Which nodes may run the shape, requests apart."""
        known = self.masks.get(shape)
        if known is None:
            known = self.masks[shape] = self._evaluate(shape)
        return known

    def _evaluate(self, shape: PodShape) -> Mask:
        if shape.undecided:
            return np.zeros(len(self.names), dtype=np.bool_)
        by_name = any(_reads(shape, label) for label in (HOSTNAME, NODE_NAME))
        return self.nodes(lambda labels, taints: shape.accepts(labels, taints=taints), by_name=by_name) & self.usable

    def selected(self, shape: PodShape) -> Mask:
        """Which nodes its selector and required affinity accept, ready or not."""
        key = ("selected", shape.node_selector, shape.node_affinity)
        known = self.topologies.masks.get(key)
        if known is None:
            by_name = any(_reads(shape, label) for label in (HOSTNAME, NODE_NAME))
            known = self.topologies.masks[key] = self.nodes(lambda labels, _: shape.selects(labels), by_name=by_name)
        return known

    def matching(self, term: Term) -> Mask:
        """Which nodes meet a term of node affinity."""
        by_name = any(each.key in (HOSTNAME, NODE_NAME) for each in term)
        return self.nodes(lambda labels, _: all(each.holds(labels) for each in term), by_name=by_name)

    def tolerated(self, shape: PodShape) -> Mask:
        """Which nodes have no taint that keeps it away; nodes that take no pods count as tainted."""
        key = ("tolerated", shape.tolerations)
        known = self.topologies.masks.get(key)
        if known is None:
            found = self.nodes(lambda _, taints: tolerated(taints, by=shape.tolerations) is None, by_name=False)
            known = self.topologies.masks[key] = found & self.usable
        return known

    def nodes(self, test: Callable[[Mapping[str, str], tuple[Taint, ...]], bool], *, by_name: bool) -> Mask:
        """Nodes whose labels and taints pass a test; asked node by node only where it looks at names."""
        if not by_name:
            by_class = np.array([test(dict(each.labels), each.taints) for each in self.classes], dtype=np.bool_)
            return by_class[self.class_of] if len(self.names) else np.zeros(0, dtype=np.bool_)
        known = [dict(each.labels) for each in self.classes]
        found = [
            test(known[index] | {HOSTNAME: host, NODE_NAME: name}, self.classes[index].taints)
            for name, host, index in zip(self.names, self.hosts, self.class_of.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.bool_)

    def kept(self, key: object, make: Callable[[], Scores]) -> Scores:
        """Numbers by row that follow from the nodes alone, made once."""
        known = self.topologies.scores.get(key)
        if known is None:
            known = self.topologies.scores[key] = make()
        return known

    def has_image(self, name: str) -> Scores:
        """Bytes of an image on every row, 0 where it is not."""
        return self.kept(("image", name), lambda: np.array([_size(images, name) for images in self.images], dtype=np.float64))

    def with_images(self, row: int, images: tuple[tuple[str, int], ...]) -> Layout:
        """The same with other images on one row; everything else that is known stays known."""
        scores = {
            key: known for key, known in self.topologies.scores.items() if not (isinstance(key, tuple) and key[0] == "image")
        }
        topologies = Topologies(self.topologies.by_label, self.topologies.masks, self.topologies.rows, scores)
        listed = (*self.images[:row], images, *self.images[row + 1 :])
        return replace(self, images=listed, topologies=topologies)

    def with_node(self, row: int, kind: NodeClass, *, usable: bool, cordoned: int) -> Layout:
        """The same with another kind of node on one row, that takes new pods or does not; `cordoned` nodes in all. No class is
        left without a node. What was worked out about labels stays known where they are the same."""
        before = self.classes[int(self.class_of[row])]
        classes, class_of = _reclassed(self.classes, self.class_of, row, kind)
        takes = self.usable.copy()
        takes[row] = usable
        by_label = self.topologies.by_label if before.labels == kind.labels else {}
        topologies = Topologies(by_label, rows=self.topologies.rows)
        return replace(
            self, classes=classes, class_of=class_of, usable=takes, cordoned=cordoned, masks={}, topologies=topologies
        )

    def topology(self, label: str) -> Topology:
        """The domains of a label."""
        return self.topology_of((label,))

    def topology_of(self, labels: tuple[str, ...]) -> Topology:
        """The domains in which several labels agree."""
        known = self.topologies.by_label.get(labels)
        if known is None:
            known = joint([self.topology(each) for each in labels]) if len(labels) > 1 else self._topology(labels[0])
            self.topologies.by_label[labels] = known
        return known

    def _topology(self, label: str) -> Topology:
        if label == HOSTNAME:
            return numbered(list(self.hosts))
        values = [dict(each.labels).get(label) for each in self.classes]
        return numbered([values[index] for index in self.class_of.tolist()])

    @property
    def rows(self) -> Mapping[str, int]:
        """Rows by name of node."""
        known = self.topologies.rows
        if not known:
            known.update({name: row for row, name in enumerate(self.names)})
        return known


def _size(images: tuple[tuple[str, int], ...], name: str) -> int:
    at = bisect_left(images, (name,))
    return images[at][1] if at < len(images) and images[at][0] == name else 0


def _reclassed(
    classes: tuple[NodeClass, ...], class_of: npt.NDArray[np.int32], row: int, kind: NodeClass
) -> tuple[tuple[NodeClass, ...], npt.NDArray[np.int32]]:
    """Classes, and the class of every row, when one row is of another kind."""
    before = int(class_of[row])
    if classes[before] == kind:
        return classes, class_of
    listed, changed = list(classes), class_of.copy()
    alone = int(np.count_nonzero(class_of == before)) == 1
    if kind in listed:
        changed[row] = listed.index(kind)
        if alone:  # the last class takes the number that nobody has any more
            changed[changed == len(listed) - 1] = before
            listed[before] = listed[-1]
            listed.pop()
    elif alone:
        listed[before] = kind
    else:
        changed[row] = len(listed)
        listed.append(kind)
    return tuple(listed), changed


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


class Columns(NamedTuple):
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

    def limits(self, columns: Columns, shape: PodShape) -> Amounts | None:
        """How many more pods of the shape each row takes; None for as many as there is room for."""
        ...

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        """How good each row is; larger is better."""
        ...
