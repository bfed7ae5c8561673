"""A small federation to tell stories on: two members, watched from the first instant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.watching import GANG_PATIENCE, Watch

SETTLE = 10.0
"""Seconds the programs have to find each other before a story begins."""

Story = Callable[[World], Awaitable[None]]


def play(
    story: Story,
    *,
    cpus: Mapping[str, int] | None = None,
    nodes: int = 2,
    seed: int = 11,
    pods: Mapping[str, int] | None = None,
    restarts: Mapping[str, int] | None = None,
    gang_patience: float = GANG_PATIENCE,
    members: Mapping[str, Member] | None = None,
    **given: Any,
) -> None:
    """Tell it on members with so many CPUs per node (east and west with 4 each); no program may crash and no promise of the
    watch may be broken. `pods`: containers of each Job, namespace/name, 1 unless it is said; `restarts`: how
    often each may be restarted. `gang_patience`: seconds a gang may be bound in part. `members`: instead of those."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        there = {"east": 4, "west": 4} if cpus is None else cpus
        made = members or {name: Member(nodes=uniform(name, nodes, cpu=cpu)) for name, cpu in there.items()}
        async with World(seed, members=made, **given) as world:
            watch = Watch(world, pods=pods or {}, restarts=restarts or {}, gang_patience=gang_patience)
            await world.advance(SETTLE)
            await story(world)
            watch.check()
            assert world.crashes == [], world.story()

    run_virtual(main, seed=seed)
