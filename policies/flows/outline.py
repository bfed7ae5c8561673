"""What a flow is going to be, before anything of it runs: its steps in the order in which they can begin."""

from __future__ import annotations

from dataclasses import dataclass

from policies.flows.graph import FlowGraph
from policies.flows.spec import FlowSpec, Step, named


@dataclass(frozen=True, slots=True)
class Planned:
    """One step. `jobs`: how many Jobs it becomes, None where only a step before it will tell; `targets`: what it waits for, and
    reads from; `layer`: 0 for those that wait for nothing; `ahead`: steps on the longest path that begins with it; `critical`:
    the longest path of the flow goes through it; `handler`: it runs when all others have ended."""

    step: Step
    jobs: int | None
    targets: tuple[str, ...] = ()
    layer: int = 0
    ahead: int = 1
    critical: bool = False
    handler: bool = False


def outline(spec: FlowSpec) -> tuple[Planned, ...]:
    """The steps of a sound flow (`policies.flows.rules.problems` finds nothing), layer by layer, in each the one with the
    longest path ahead first; then its exit handlers. Conditions are taken to hold, and nested flows are one step."""
    steps = named(spec.flows)
    graph = FlowGraph({name: step.targets for name, step in steps.items()})
    ahead, critical = graph.ahead(), set(graph.critical_path())
    found = []
    for layer, names in enumerate(graph.layers()):
        for name in sorted(names, key=lambda each: -ahead[each]):
            step = steps[name]
            found.append(Planned(step, _jobs(step), graph.targets(name), layer, int(ahead[name]), name in critical))
    last = len(graph.layers())
    found += [Planned(step, _jobs(step), layer=last, handler=True) for step in named(spec.on_exit or ()).values()]
    return tuple(found)


def _jobs(step: Step) -> int | None:
    over = step.fan_out
    return 1 if over is None else len(over.items) if over.items is not None else None
