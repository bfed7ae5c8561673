"""Budgets of writes, measured with the log of a whole federation (protocol.md 7, design.md 12); printed with `-s`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from apis import kinds
from machinery.clock import Chance, Ids
from simulator.faults import Write
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import HUB, Member, World
from tests.support.stories import job, phase

APART = {
    kind.name for kind in (kinds.EVENT, kinds.LEASE, kinds.CLUSTER_CAPACITY, kinds.QUEUE, kinds.CLUSTER, kinds.USAGE_REPORT)
}
"""Written for people, for the members as a whole, or on a clock; never once per Job."""
TO_THE_END, TO_VANISH, AT_THE_MEMBER, PER_POD = 10, 3, 5, 2
LATER = 3
"""After the folded end: the PodGroup goes, its status may be written in that very instant, and the Work shrinks; nobody waits
for any of it."""
NAMES = [f"train-{number}-x" for number in range(6)]


def counted(writes: Iterable[Write], name: str) -> tuple[int, int, int]:
    """Writes for one Job: at the hub, at its member for the Job, at its member for its pods."""
    mine = [write for write in writes if write.name.startswith(name) and write.kind not in APART]
    hub = sum(write.server == HUB for write in mine)
    pods = sum(write.server != HUB and write.kind == kinds.POD.name for write in mine)
    return hub, len(mine) - hub - pods, pods


@pytest.mark.parametrize(("pods", "runs_for"), [(1, 1), (4, 5), (8, 90)])
def test_a_job_costs_no_more_writes_than_its_budget(pods: int, runs_for: int) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        members = {name: Member(nodes=uniform(name, 4, cpu=32)) for name in ("east", "south", "west")}
        async with World(3, members=members) as world:
            await world.advance(15)
            begin = len(world.faults.log)
            await world.apply([job(name, pods=pods, runs_for=runs_for) for name in NAMES])
            await world.until(lambda: all(phase(world, name) == "Completed" for name in NAMES), timeout=300)
            await world.advance(60)
            end = len(world.faults.log)
            for name in NAMES:
                await world.client().delete(kinds.JOB, name, namespace="default")
            await world.until(lambda: not world.all(kinds.WORK) and not world.all(kinds.RESOURCE_BINDING), timeout=300)
            await world.advance(60)
            report(world.faults.log[begin:end], world.faults.log[end:], pods=pods)

    run_virtual(main, seed=3)


def report(living: list[Write], leaving: list[Write], *, pods: int) -> None:
    """Print what was counted, and compare."""
    for name in NAMES:
        end = max(write.number for write in living if is_the_end(write, name))
        index = next(at for at, write in enumerate(living) if write.actor == "hub" and write.number == end)
        hub, member, of_pods = counted(living[: index + 1], name)
        late = sum(counted(living[index + 1 :], name))
        gone, gone_there, _ = counted(leaving, name)
        print(
            f"{name}, {pods} pods: to the end {hub} at the hub, {member} and {of_pods} for pods at the member; {late} later; "
            f"to vanish {gone} at the hub, {gone_there} at the member"
        )
        story = "\n".join(str(write) for write in [*living, *leaving] if write.name.startswith(name))
        assert hub + 1 <= TO_THE_END, story  # the shrinking counts; the PodGroup is the member's own affair
        assert gone <= TO_VANISH, story
        assert member <= AT_THE_MEMBER, story
        assert of_pods <= PER_POD * pods, story
        assert late <= LATER, story
    others = Counter(write.kind for write in [*living, *leaving] if not write.name.startswith("train-"))
    assert set(others) <= APART, others


def is_the_end(write: Write, name: str) -> bool:
    """The hub folds the Job's status for the last time."""
    return write.actor == "hub" and write.kind == kinds.JOB.name and write.subresource == "status" and write.name == name
