"""Fuller nodes first, so that whole nodes stay free for large pods."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from member_agent.room import Columns, Scores
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from policies.shapes import PodShape

OTHERS = "binpack.resources"
TIE = 1e-6
"""What the share in use weighs more: beside nodeorder, whose `leastrequested` is the same number the other way round, all nodes
would be equal but for the last digit, and packing would be left to chance."""


class Arguments(BaseModel):
    """Weights; `binpack.resources` names further resources, `binpack.resources.<name>` their weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: int = Field(default=1, ge=0, alias="binpack.weight", description="beside other plugins")
    cpu: int = Field(default=1, ge=0, alias="binpack.cpu")
    memory: int = Field(default=1, ge=0, alias="binpack.memory")
    resources: dict[str, int] = Field(default_factory=dict, alias=OTHERS, description="weights of further resources")

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Bring the weights of further resources together; one whose resource is not named is refused as unknown."""
        names = given.get(OTHERS, "") if isinstance(given, dict) else ""
        if not isinstance(names, str):
            return given
        rest = dict(given)
        listed = [name for name in (each.strip() for each in names.split(",")) if name]
        rest[OTHERS] = {name: rest.pop(f"{OTHERS}.{name}", 1) for name in listed}
        negative = next((name for name, weight in rest[OTHERS].items() if str(weight).startswith("-")), None)
        if negative is not None:
            raise ValueError(f"{OTHERS}.{negative} must not be below 0")
        return rest


class Binpack(Plugin):
    """The share in use with the pod on it, over the resources it asks for."""

    name = "binpack"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._weight = arguments.weight * (1 + TIE)
        self._weights = {"cpu": arguments.cpu, "memory": arguments.memory, **arguments.resources}

    def local(self, shape: PodShape) -> bool:
        return True

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        return frozenset()

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        scores: Scores = np.zeros(len(columns.rows))
        total = 0
        for name, weight in self._weights.items():
            column, amount = columns.column(name), shape.requests.get(name)
            if column is None or not amount or not weight:
                continue
            total += weight
            size = np.maximum(columns.allocatable[:, column], 1)
            scores += weight * np.clip(1 - (columns.free[:, column] - amount) / size, 0.0, 1.0)
        return scores * (100 * self._weight / total) if total else scores
