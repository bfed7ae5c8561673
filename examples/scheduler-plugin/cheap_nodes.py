"""A scheduler plugin of one's own: cheap nodes first, dear ones never.

Nodes carry their price per hour in a label. The plugin scores nodes by it and, if `most` is set, keeps pods off nodes that
cost more. A node without a price, or with one that is no number, counts as free of charge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from member_agent.room import Columns, Layout, Mask, Scores
from member_agent.scheduling.plugins.protocol import Plugin
from policies.shapes import PodShape


class Arguments(BaseModel):
    """What stands under `arguments` in the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = Field(default="example.com/price-per-hour", description="label of nodes with their price")
    weight: float = Field(default=1.0, ge=0, description="beside the scores of other plugins, which give up to 100 each")
    most: float = Field(default=math.inf, gt=0, description="the highest price that is paid")


class CheapNodes(Plugin):
    """One object per session. Rows are nodes; whatever is asked is asked about all of them at once."""

    name = "cheap-nodes"
    arguments = Arguments

    def __init__(self, arguments: Arguments, **session: Any) -> None:
        super().__init__(arguments, **session)
        self._with = arguments

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        return self._prices(layout) <= self._with.most

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        prices = self._prices(columns.layout)
        dearest = max(float(prices.max(initial=0.0)), 1e-9)
        return 100 * self._with.weight * (1 - prices[columns.rows] / dearest)

    def _prices(self, layout: Layout) -> Scores:
        """By node: labels are looked at once per class of equal nodes."""
        by_class = np.array([self._price(dict(each.labels)) for each in layout.classes], dtype=np.float64)
        return by_class[layout.class_of]

    def _price(self, labels: dict[str, str]) -> float:
        try:
            price = float(labels.get(self._with.label, "0"))
        except ValueError:
            return 0.0
        return price if math.isfinite(price) and price > 0 else 0.0
