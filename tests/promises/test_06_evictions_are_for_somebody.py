"""Promise 6, in one cluster: an eviction is made only together with an earmark, which ends in the start of the gang it is for,
or in a recorded withdrawal or fault."""

from __future__ import annotations

import pytest

from apis import kinds
from simulator.faults import Kill, Moment
from tests.member_agent.scheduling.test_evictions_stories import CONFIGURED, priorities, running, submit
from tests.member_agent.scheduling.test_stories import configure, told
from tests.member_agent.world import EAST, Stage, play

pytestmark = pytest.mark.story

AGENT = f"agent-{EAST}"


async def crowd(stage: Stage) -> None:
    """Eight less important pods hold everything; a more important gang of three comes."""
    await configure(stage, CONFIGURED)
    await priorities(stage, high=100, low=10)
    await submit(stage, "low", replicas=8, minimum=1, priority="low")
    await stage.until(lambda: running(stage, "low") == 8)
    await submit(stage, "high", replicas=3, priority="high")


def evicting_writes() -> dict[str, list[int]]:
    """What the agent writes for three evictions, by kind of write, as numbers of its writes."""
    found: dict[str, list[int]] = {}

    async def story(stage: Stage) -> None:
        await crowd(stage)
        await stage.until(lambda: running(stage, "high") == 3, timeout=240)
        for write in stage.world.faults.writes_of(AGENT):
            if write.kind == "pods" and write.verb == "delete":
                found.setdefault("delete", []).append(write.number)
            elif write.kind == "pods" and write.verb == "patch" and write.subresource == "status":
                found.setdefault("nominate" if write.name.startswith("high") else "tell", []).append(write.number)

    play(story, nodes=2, cpu="4")
    return found


WRITES = ("tell", "delete", "nominate")


@pytest.fixture(scope="module")
def numbers() -> dict[str, list[int]]:
    found = evicting_writes()
    assert {kind: len(found[kind]) for kind in WRITES} == dict.fromkeys(WRITES, 3)
    return found


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("moment", list(Moment))
def test_an_agent_that_dies_while_it_evicts_ends_what_it_began(
    write: str, moment: Moment, numbers: dict[str, list[int]]
) -> None:
    """Whichever write is its last: its successor evicts nobody beyond what the gang needs, and the gang starts."""

    async def story(stage: Stage) -> None:
        stage.world.faults.at(AGENT, numbers[write][1], moment, Kill())
        await crowd(stage)
        await stage.until(lambda: running(stage, "high") == 3, timeout=400)
        assert stage.world.faults.fired
        await stage.world.advance(120)
        assert (running(stage, "high"), running(stage, "low")) == (3, 5)
        assert stage.phase("low") == "Running"

    play(story, nodes=2, cpu="4")


def test_a_gang_that_goes_while_others_leave_for_it_is_recorded() -> None:
    """Its Job is deleted: what was evicted for it in vain is said, and the room goes back to whoever waits."""

    async def story(stage: Stage) -> None:
        await crowd(stage)
        await stage.until(lambda: bool(told(stage, "Evict")), timeout=60)
        await stage.world.client(EAST).delete(kinds.JOB, "high", namespace="default")
        await stage.until(lambda: running(stage, "low") == 8, timeout=300)

    play(story, nodes=2, cpu="4")
