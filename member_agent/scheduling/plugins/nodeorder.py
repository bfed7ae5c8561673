"""Which node is better: fuller or emptier, evenly used, free of taints that ask to stay away."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from member_agent.room import Columns, Scores
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from policies.shapes import PodShape, Taint


class Arguments(BaseModel):
    """Weights of the scores; 0 switches one off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_requested: int = Field(default=1, ge=0, alias="leastrequested.weight", description="emptier nodes")
    most_requested: int = Field(default=0, ge=0, alias="mostrequested.weight", description="fuller nodes")
    balanced: int = Field(default=1, ge=0, alias="balancedresource.weight", description="cpu and memory used alike")
    taints: int = Field(default=3, ge=0, alias="tainttoleration.weight", description="fewer PreferNoSchedule taints")


class NodeOrder(Plugin):
    """Scores of kube-scheduler, as vectors."""

    name = "nodeorder"
    arguments = Arguments
    later = frozenset({"nodeaffinity.weight", "podaffinity.weight", "imagelocality.weight", "podtopologyspread.weight"})

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._weights = arguments
        self._taints: dict[PodShape, Scores | float] = {}

    def local(self, shape: PodShape) -> bool:
        return True

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        weights = self._weights
        cpu, memory = _used(columns, shape, "cpu"), _used(columns, shape, "memory")
        mean = (cpu + memory) * 50
        scores: Scores = weights.least_requested * (100 - mean)
        if weights.most_requested:
            scores += weights.most_requested * mean
        if weights.balanced:
            # The standard deviation of two shares is half their distance.
            scores += weights.balanced * (100 - 50 * np.abs(cpu - memory))
        if weights.taints:
            scores += weights.taints * self._untainted(columns, shape)
        return scores

    def _untainted(self, columns: Columns, shape: PodShape) -> Scores | float:
        """100 for nodes without a taint the shape would rather avoid, 0 for those with the most."""
        known = self._taints.get(shape)
        if known is None:
            counts = np.array([_avoided(each.taints, shape) for each in columns.layout.classes], dtype=np.float64)
            most = float(counts.max(initial=0))
            known = (100 * (1 - counts / most))[columns.layout.class_of] if most else 100.0
            self._taints[shape] = known
        return known if isinstance(known, float) else known[columns.rows]


def _used(columns: Columns, shape: PodShape, resource: str) -> Scores:
    """Share in use with one more pod of the shape, 0..1."""
    column = columns.column(resource)
    if column is None:
        return np.zeros(len(columns.rows))
    size = np.maximum(columns.allocatable[:, column], 1)
    used: Scores = 1 - (columns.free[:, column] - shape.requests.get(resource)) / size
    return np.minimum(np.maximum(used, 0.0, out=used), 1.0, out=used)


def _avoided(taints: tuple[Taint, ...], shape: PodShape) -> int:
    return sum(
        taint.effect == "PreferNoSchedule" and not any(each.tolerates(taint) for each in shape.tolerations) for taint in taints
    )
