"""Fuller or emptier nodes, resource by resource; pods that need nothing scarce keep away from nodes that have it.

Scores after Volcano's plugin of this name: a share of use or of what is left per resource, weighted; `sra` prefers nodes
without scarce resources; `proportional` keeps cpu and memory free in proportion to what is free of a scarce one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from member_agent.aspects import aspect
from member_agent.room import UNBOUNDED, Amounts, Columns, Scores
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from member_agent.views.hints import STRATEGY_TYPE, STRATEGY_WEIGHT, hint
from policies.shapes import PodShape

Kind = Literal["LeastAllocated", "MostAllocated"]
KINDS: Final[Mapping[str, Kind]] = {"LeastAllocated": "LeastAllocated", "MostAllocated": "MostAllocated"}

GIGABYTE: Final = 1_000_000_000

Names = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda text: tuple(each for each in map(str.strip, text.split(",")) if each) if isinstance(text, str) else text
    ),
]
"""Resources, written with commas between them."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Rule(_Part):
    """How a resource is scored."""

    type: Kind = Field(default="LeastAllocated", description="emptier or fuller nodes first")
    weight: int = Field(default=1, ge=1, description="beside other resources")


class Scarce(_Part):
    """Pods prefer nodes without these resources."""

    enable: bool = False
    resources: Names = ()
    weight: int = Field(default=1, ge=0, description="beside the plugin's other score")
    of_each: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict, alias="resourceWeight")


class Proportional(_Part):
    """Pods that ask for none of these resources leave so much beside each free unit of them: `<resource>.cpu` cores,
    `<resource>.memory` gigabytes, 1 unless said otherwise."""

    enable: bool = False
    resources: Names = ()
    beside: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict, alias="resourceProportion"
    )

    @model_validator(mode="after")
    def _named(self) -> Proportional:
        known = {f"{name}.{beside}" for name in self.resources for beside in ("cpu", "memory")}
        for name in sorted(self.beside.keys() - known):
            raise ValueError(f"resourceProportion.{name}: no such resource is named")
        return self


class Arguments(_Part):
    """Of resource-strategy-fit."""

    weight: int = Field(
        default=10, ge=0, alias="resourceStrategyFitWeight", description="beside other plugins; 0: no such score"
    )
    resources: dict[str, Rule] = Field(
        default_factory=lambda: {"cpu": Rule(), "memory": Rule()},
        description="a name may end in *; the longest that fits counts",
    )
    sra: Scarce = Scarce()
    proportional: Proportional = Proportional()

    @field_validator("resources")
    @classmethod
    def _stars(cls, given: dict[str, Rule]) -> dict[str, Rule]:
        for name in given:
            if "*" in name[:-1] or name == "*":
                raise ValueError(f"{name}: a star stands at the end of a name, and not alone")
        return given


Own = tuple[str, tuple[tuple[str, int], ...]]
"""What a pod itself asks for: the way of scoring, and weights of resources."""


class ResourceStrategyFit(Plugin):
    """Scores by what each node would have in use of the resources a pod asks for."""

    name = "resource-strategy-fit"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._arguments = arguments

    def aspect(self, gang: Waiting, *, pod: PodView) -> Own | None:
        return own_strategy(hint(pod.hints, STRATEGY_TYPE), hint(pod.hints, STRATEGY_WEIGHT)) if pod.hints else None

    def local(self, shape: PodShape) -> bool:
        return True

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        return frozenset() if aspect(shape, of=self.name) is None else None

    # --- where pods go best ------------------------------------------------------------------------------------------

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        scores: Scores = np.zeros(len(columns.rows))
        if self._arguments.weight:
            scores += self._fit(columns, shape) * 100 * self._arguments.weight
        if self._arguments.sra.enable and self._arguments.sra.weight:
            scores += self._without_scarce(columns, shape) * 100 * self._arguments.sra.weight
        return scores

    def _fit(self, columns: Columns, shape: PodShape) -> Scores:
        """The weighted mean over resources, 0..1."""
        scores: Scores = np.zeros(len(columns.rows))
        total = 0
        for name, rule in self._rules(shape):
            column = columns.column(name)
            if column is None:
                continue
            size = columns.allocatable[:, column]
            used = 1 - (columns.free[:, column] - shape.requests.get(name)) / np.maximum(size, 1)
            used = np.clip(used, 0.0, 1.0)
            share = used if rule.type == "MostAllocated" else 1 - used
            scores += rule.weight * np.where(size > 0, share, 0.0)
            total += rule.weight
        return scores / total if total else scores

    def _rules(self, shape: PodShape) -> Iterator[tuple[str, Rule]]:
        """Resources the pod asks for that count, and how."""
        own = aspect(shape, of=self.name)
        kind, weights = own if isinstance(own, tuple) else ("", ())
        listed = dict(weights)
        for name in shape.requests:
            rule = self._rule(name)
            if listed:
                weight = listed.get(name, 0)
                rule = Rule(type=rule.type if rule is not None else "LeastAllocated", weight=weight) if weight else None
            if rule is not None:
                yield name, Rule(type=KINDS[kind], weight=rule.weight) if kind else rule

    def _rule(self, name: str) -> Rule | None:
        given = self._arguments.resources
        if name in given:
            return given[name]
        fitting = [each for each in given if each.endswith("*") and name.startswith(each[:-1])]
        return given[max(fitting, key=len)] if fitting else None

    def _without_scarce(self, columns: Columns, shape: PodShape) -> Scores:
        """1 where a node has nothing scarce, less by the weight of what it has; 0 where it lacks what the pod asks for."""
        scarce = self._arguments.sra
        total = sum(scarce.of_each.get(name, 1) for name in scarce.resources)
        scores: Scores = np.ones(len(columns.rows))
        for name in scarce.resources if total else ():
            column = columns.column(name)
            if column is not None:
                scores -= (columns.allocatable[:, column] > 0) * scarce.of_each.get(name, 1) / total
        for name in shape.requests:
            column = columns.column(name)
            if column is not None:
                scores[columns.allocatable[:, column] <= 0] = 0.0
        return scores

    # --- where they may go -------------------------------------------------------------------------------------------

    def limits(self, columns: Columns, shape: PodShape) -> Amounts:
        keeps = self._arguments.proportional
        least = np.full(len(columns.rows), UNBOUNDED, dtype=np.int64)
        if not keeps.enable or any(shape.requests.get(name) for name in keeps.resources):
            return least
        for name in keeps.resources:
            column = columns.column(name)
            if column is None:
                continue
            has = columns.allocatable[:, column] > 0
            units = np.maximum(columns.free[:, column], 0).astype(np.float64)  # milli units
            for beside, unit in (("cpu", 1), ("memory", GIGABYTE)):
                kept = units * keeps.beside.get(f"{name}.{beside}", 1.0) * unit
                fits = _beyond(columns, beside, kept, amount=shape.requests.get(beside))
                np.minimum(least, np.where(has, fits, UNBOUNDED), out=least)
        return least


def _beyond(columns: Columns, resource: str, kept: Scores, *, amount: int) -> Amounts:
    """How many pods fit that ask for so much, where `kept` stays free."""
    column = columns.column(resource)
    free = columns.free[:, column].astype(np.float64) if column is not None else np.zeros(len(kept))
    if not amount:
        return np.where(free >= kept, np.int64(UNBOUNDED), np.int64(0))
    return (np.maximum(free - kept, 0.0) // amount).astype(np.int64)


@lru_cache(maxsize=1024)
def own_strategy(kind: str, weights: str) -> Own | None:
    """What a pod's annotations ask for; what cannot be read counts as not given, None where nothing is left."""
    read: dict[str, int] = {}
    try:
        read = msgspec.json.decode(weights, type=dict[str, int]) if weights else {}
    except (msgspec.DecodeError, msgspec.ValidationError):
        read = {}
    kept = tuple(sorted((name, weight) for name, weight in read.items() if weight > 0))
    known = kind if kind in KINDS else ""
    return (known, kept) if known or kept else None
