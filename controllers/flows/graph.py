"""The DAG of a flow, on networkx: what depends on what, which step may start, what can still be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
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
        if not found:
            try:
                cycle = [edge[0] for edge in networkx.find_cycle(self._graph)]
            except networkx.NetworkXNoCycle:
                return found
            path = " -> ".join([*cycle, cycle[0]])
            found.append(Problem("spec.flows", f"jobflow Flow is not DAG: {path}"))
        return found

    def startable(self, *, done: Set[str], started: Set[str]) -> list[str]:
        """Steps not started whose targets are all done, in the order of the spec."""
        return [step for step, names in self._targets.items() if step not in started and all(name in done for name in names)]

    def beyond(self, steps: Iterable[str]) -> frozenset[str]:
        """Every step that waits, directly or not, for one of `steps`."""
        reached: set[str] = set()
        for step in steps:
            reached |= networkx.descendants(self._graph, step)
        return frozenset(reached)

    def layers(self) -> list[list[str]]:
        """Steps by depth: a step stands one layer below its deepest target."""
        order = {step: place for place, step in enumerate(self._targets)}
        return [sorted(layer, key=order.__getitem__) for layer in networkx.topological_generations(self._graph)]
