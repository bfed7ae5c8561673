"""The DAG of a flow, on networkx: what depends on what, what lies behind a step, which path is the longest."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a flow cannot be run: the field of the JobFlow and the reason."""

    field: str
    message: str


class FlowGraph:
    """Steps in the order of the spec; an edge leads from a target to the step that waits for it."""

    def __init__(self, targets: Mapping[str, Sequence[str]]) -> None:
        self._targets = {step: tuple(dict.fromkeys(names)) for step, names in targets.items()}
        self._graph: Any = networkx.DiGraph()
        self._graph.add_nodes_from(self._targets)
        self._graph.add_edges_from((target, step) for step, names in self._targets.items() for target in names)

    def problems(self) -> list[Problem]:
        """Unknown targets, steps that wait for themselves, and one cycle named step by step."""
        found = []
        for index, (step, names) in enumerate(self._targets.items()):
            for place, target in enumerate(names):
                if target not in self._targets:
                    field = f"spec.flows[{index}].dependsOn.targets[{place}]"
                    found.append(Problem(field, f"step {step!r} depends on {target!r}: vertex is not defined"))
        if not found and not networkx.is_directed_acyclic_graph(self._graph):
            cycle = self._cycle()
            found.append(Problem("spec.flows", f"jobflow Flow is not DAG: {' -> '.join([*cycle, cycle[0]])}"))
        return found

    def _cycle(self) -> list[str]:
        """Steps that wait for each other, looked for only among those that can be reached from themselves: there the first path
        that ends has met itself."""
        order = {step: place for place, step in enumerate(self._targets)}
        knots = networkx.strongly_connected_components(self._graph)
        knot = min(
            (each for each in knots if len(each) > 1 or any(step in self._targets[step] for step in each)),
            key=lambda each: min(order[step] for step in each),
        )
        inside = self._graph.subgraph(knot)
        return [edge[0] for edge in networkx.find_cycle(inside, source=min(knot, key=order.__getitem__))]

    def knows(self, step: str) -> bool:
        """Whether there is such a step."""
        return step in self._targets

    def targets(self, step: str) -> tuple[str, ...]:
        """What a step waits for, each once."""
        return self._targets[step]

    def comes_before(self, step: str, other: str) -> bool:
        """Whether `other` waits for `step`, directly or not; False for what is no step. Of graphs without cycles alone."""
        place = self._places.get(step)
        return place is not None and bool(self._above[other] >> place & 1)

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {step: place for place, step in enumerate(self._targets)}

    @functools.cached_property
    def _above(self) -> dict[str, int]:
        """By step, the places of all steps before it as bits: ten thousand steps take a dozen megabytes."""
        above: dict[str, int] = {}
        for step in networkx.topological_sort(self._graph):
            bits = 0
            for target in self._targets[step]:
                bits |= above[target] | 1 << self._places[target]
            above[step] = bits
        return above

    def beyond(self, steps: Iterable[str]) -> frozenset[str]:
        """Every step that waits, directly or not, for one of `steps`."""
        reached: set[str] = set()
        for step in steps:
            if step not in reached:
                reached |= networkx.descendants(self._graph, step)
        return frozenset(reached)

    def ordered(self) -> list[str]:
        """Targets before what waits for them; else in the order of the spec."""
        order = {step: place for place, step in enumerate(self._targets)}
        return list(networkx.lexicographical_topological_sort(self._graph, key=order.__getitem__))

    def layers(self) -> list[list[str]]:
        """Steps by depth: a step stands one layer below its deepest target."""
        order = {step: place for place, step in enumerate(self._targets)}
        return [sorted(layer, key=order.__getitem__) for layer in networkx.topological_generations(self._graph)]

    def ahead(self, lengths: Mapping[str, float] | None = None) -> dict[str, float]:
        """By step, the length of the longest path from it to an end, itself included; every step counts 1 where no length is
        given."""
        known = lengths or {}
        found: dict[str, float] = {}
        for step in reversed(self.ordered()):
            longest = max((found[each] for each in self._graph.successors(step)), default=0.0)
            found[step] = longest + known.get(step, 1.0)
        return found

    def critical_path(self, lengths: Mapping[str, float] | None = None) -> list[str]:
        """The steps of the longest path; ties in the order of the spec."""
        ahead = self.ahead(lengths)
        order = {step: place for place, step in enumerate(self._targets)}
        path: list[str] = []
        steps: Iterable[str] = [step for step, names in self._targets.items() if not names]
        while steps := list(steps):
            path.append(min(steps, key=lambda step: (-ahead[step], order[step])))
            steps = self._graph.successors(path[-1])
        return path
