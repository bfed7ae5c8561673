"""The agent is killed before and after every write of a tree that is closed and opened; it comes out the same every time."""

from __future__ import annotations

import pytest

from apis import kinds
from simulator.faults import Action, Kill, Late, Moment, Write
from tests.member_agent.queues.making import command, commands, found, marked, queue, settled, state, write_state
from tests.member_agent.world import EAST, Stage, play

AGENT = f"agent-{EAST}"
NAMES = ("root", "default", "lab", "a", "b")
OF_QUEUES = {kinds.QUEUE.name, kinds.COMMAND.name}


def live(*, strike: tuple[int, Moment, Action] | None = None) -> list[Write]:
    """A parent with one child open and one closed is closed and opened, by Command and by hand; the agent's writes."""
    log: list[Write] = []

    async def story(stage: Stage) -> None:
        if strike is not None:
            stage.world.faults.at(AGENT, *strike)
        await queue(stage, "lab")
        await queue(stage, "a", parent="lab")
        await queue(stage, "b", parent="lab")
        await settled(stage, root="Open", default="Open", lab="Open", a="Open", b="Open")
        await command(stage, "b", "CloseQueue")
        await settled(stage, b="Closed")
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed", a="Closed", b="Closed")
        await stage.until(lambda: marked(stage, "a"))
        await command(stage, "lab", "OpenQueue")
        await settled(stage, lab="Open", a="Open")
        await write_state(stage, "lab", "Closed")
        await settled(stage, lab="Closed", a="Closed")
        await command(stage, "b", "OpenQueue")
        await stage.until(lambda: marked(stage, "b"))
        await write_state(stage, "lab", "Open")
        await settled(stage, lab="Open", a="Open", b="Open")
        log.extend(each for each in stage.world.faults.log if each.actor == AGENT and each.kind in OF_QUEUES)
        await stage.world.advance(40)
        assert len(stage.world.faults.fired) == (strike is not None)
        assert {name: (state(stage, name), marked(stage, name)) for name in NAMES} == dict.fromkeys(NAMES, ("Open", False))
        assert found(stage.world, "lab")["spec"]["parent"] == "root"
        assert commands(stage) == []

    play(story, seed=5, register=False)
    return log


@pytest.fixture(scope="module")
def clean() -> list[Write]:
    """A life without accidents: which writes there are."""
    return live()


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_queue_changes_nothing_in_the_end(clean: list[Write], moment: Moment) -> None:
    assert {"create", "patch", "delete"} <= {write.verb for write in clean}
    for write in clean:
        live(strike=(write.number, moment, Kill()))


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 8.0])
def test_a_write_that_lands_late_changes_nothing_in_the_end(clean: list[Write], seconds: float) -> None:
    for write in clean:
        live(strike=(write.number, Moment.BEFORE, Late(seconds)))
