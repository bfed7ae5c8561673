"""Which node is better: fuller or emptier, evenly used, free of taints that ask to stay away, preferred by the pod, with its
images, near the pods it likes and where few of its kind are (kube-scheduler's scores)."""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from member_agent.grouping import Pull
from member_agent.layout import Layout
from member_agent.room import Amounts, Columns, Mask, Scores
from member_agent.scheduling.likings import affinity_scores, changes_itself, spread_scores
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from policies.shapes import PodShape, Taint

SMALLEST: Final = 23 * 2**20
"""Bytes of images below which a node is no better for having them."""
LARGEST: Final = 1000 * 2**20
"""Bytes of one image above which more makes no difference."""


class Arguments(BaseModel):
    """Weights of the scores; 0 switches one off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_requested: int = Field(default=1, ge=0, alias="leastrequested.weight", description="emptier nodes")
    most_requested: int = Field(default=0, ge=0, alias="mostrequested.weight", description="fuller nodes")
    balanced: int = Field(default=1, ge=0, alias="balancedresource.weight", description="cpu and memory used alike")
    taints: int = Field(default=3, ge=0, alias="tainttoleration.weight", description="fewer PreferNoSchedule taints")
    preferred: int = Field(default=2, ge=0, alias="nodeaffinity.weight", description="nodes that the pod would rather have")
    images: int = Field(default=1, ge=0, alias="imagelocality.weight", description="nodes that have its images")
    pods: int = Field(default=2, ge=0, alias="podaffinity.weight", description="near pods it likes, far from others")
    spread: int = Field(default=2, ge=0, alias="podtopologyspread.weight", description="domains with few of its kind")


class NodeOrder(Plugin):
    """Scores of kube-scheduler, as vectors."""

    name = "nodeorder"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._weights = arguments
        self._taints: dict[PodShape, Scores | float] = {}
        self._preferred: dict[PodShape, Scores] = {}

    def local(self, shape: PodShape) -> bool:
        return True

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        """Of what the shape would rather have it matters which nodes may run it at all."""
        weights, layout = self._weights, self.session.room.layout
        if weights.preferred and shape.prefers:
            return None
        found = {"images"} if weights.images and shape.images else set()
        if weights.taints and any(taint.effect == "PreferNoSchedule" for each in layout.classes for taint in each.taints):
            found.add("tolerations")
        return frozenset(found)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        weights = self._weights
        cpu, memory = _both_used(columns, shape)
        mean = cpu + memory
        mean *= 50
        scores: Scores = weights.least_requested * (100 - mean)
        if weights.most_requested:
            scores += weights.most_requested * mean
        if weights.balanced:
            # The standard deviation of two shares is half their distance.
            apart = np.abs(np.subtract(cpu, memory, out=cpu), out=cpu)
            apart *= 50
            scores += weights.balanced * np.subtract(100, apart, out=apart)
        if weights.taints:
            scores += weights.taints * self._untainted(columns, shape)
        if weights.preferred and shape.prefers:
            scores += weights.preferred * self._liked(columns, shape)
        if weights.images and shape.images:
            scores += weights.images * _local_images(columns, shape)
        return scores

    def company_order(self, shape: PodShape, rows: Mask) -> Pull | None:
        if shape.neighbours is None and not shape.seen:
            return None
        around, weights = self.session.surroundings, self._weights
        near = affinity_scores(shape, around, rows) if weights.pods else None
        even = spread_scores(shape, around, rows) if weights.spread else None
        anew = changes_itself(shape)
        if near is None and even is None:
            return Pull(np.zeros(len(rows)), anew=True) if anew and (weights.pods or weights.spread) else None
        scores = np.zeros(len(rows))
        for weight, found in ((weights.pods, near), (weights.spread, even)):
            if found is not None:
                scores += weight * found
        return Pull(scores, anew=anew)

    def _liked(self, columns: Columns, shape: PodShape) -> Scores:
        """100 for the rows that meet most of the weights of what the shape would rather have, of those that may run it."""
        known = self._preferred.get(shape)
        if known is None:
            met = _weights_met(columns.layout, shape)
            most = max(float(met[self.session.room.admitted(shape)].max(initial=0)), 1.0)
            known = self._preferred[shape] = np.minimum(100 * met / most, 100.0)
        return known[columns.rows]

    def _untainted(self, columns: Columns, shape: PodShape) -> Scores | float:
        """100 for nodes without a taint the shape would rather avoid, 0 for those with the most."""
        known = self._taints.get(shape)
        if known is None:
            counts = np.array([_avoided(each.taints, shape) for each in columns.layout.classes], dtype=np.float64)
            most = float(counts.max(initial=0))
            known = (100 * (1 - counts / most))[columns.layout.class_of] if most else 100.0
            self._taints[shape] = known
        return known if isinstance(known, float) else known[columns.rows]


def _weights_met(layout: Layout, shape: PodShape) -> Scores:
    def make() -> Scores:
        met = np.zeros(len(layout.names))
        for term, weight in shape.prefers:
            met += weight * layout.matching(term)
        return met

    return layout.kept(("prefers", shape.prefers), make)


def _local_images(columns: Columns, shape: PodShape) -> Scores:
    """0..100: bytes of the shape's images that a node has, those of images on many nodes counting more, so that an image on one
    node does not draw all its pods there. Small ones do not count at all."""
    layout, most = columns.layout, LARGEST * len(shape.images)
    if not any(layout.images):
        return np.zeros(len(columns.rows))

    def make() -> Scores:
        found = np.zeros(len(layout.names))
        for name in shape.images:
            sizes = layout.has_image(_tagged(name))
            found += sizes * (np.count_nonzero(sizes) / len(sizes))
        scores: Scores = 100 * (np.clip(found, SMALLEST, most) - SMALLEST) / (most - SMALLEST)
        return scores

    return layout.kept(("image", shape.images), make)[columns.rows]


def _tagged(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _used(columns: Columns, shape: PodShape, resource: str) -> Scores:
    """Share in use with one more pod of the shape, 0..1."""
    column = columns.column(resource)
    if column is None:
        return np.zeros(len(columns.rows))
    return _shares(columns.free[:, column] - shape.requests.get(resource), columns.allocatable[:, column])


def _both_used(columns: Columns, shape: PodShape) -> tuple[Scores, Scores]:
    """Of cpu and memory, which mostly stand side by side: then both are worked out at once."""
    cpu, memory = columns.column("cpu"), columns.column("memory")
    if cpu is None or memory != cpu + 1:
        return _used(columns, shape, "cpu"), _used(columns, shape, "memory")
    asked = np.array((shape.requests.get("cpu"), shape.requests.get("memory")), dtype=np.int64)
    used = _shares(columns.free[:, cpu : cpu + 2] - asked, columns.allocatable[:, cpu : cpu + 2])
    return used[:, 0], used[:, 1]


def _shares(left: Amounts, size: Amounts) -> Scores:
    """Shares in use where so much is left, 0..1."""
    used: Scores = left / np.maximum(size, 1)
    np.subtract(1, used, out=used)
    return np.minimum(np.maximum(used, 0.0, out=used), 1.0, out=used)


def _avoided(taints: tuple[Taint, ...], shape: PodShape) -> int:
    return sum(
        taint.effect == "PreferNoSchedule" and not any(each.tolerates(taint) for each in shape.tolerations) for taint in taints
    )
