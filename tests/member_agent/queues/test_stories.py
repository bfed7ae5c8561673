"""Queues of a member, told on the real agent in a simulated cluster."""

from __future__ import annotations

from apis import kinds
from machinery.port import PatchType
from tests.member_agent.queues.making import (
    command,
    commands,
    found,
    local,
    marked,
    queue,
    reason,
    settled,
    state,
    told,
    write_state,
)
from tests.member_agent.world import EAST, Stage, job, play


def test_the_two_first_queues_are_made_and_every_queue_hangs_from_root_and_is_open() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "research", weight=3)
        await settled(stage, root="Open", default="Open", research="Open")
        await stage.until(lambda: found(stage.world, "research")["spec"].get("parent") == "root")
        assert found(stage.world, "default")["spec"]["parent"] == "root"
        assert "parent" not in found(stage.world, "root")["spec"]
        assert found(stage.world, "research")["spec"]["weight"] == 3
        await stage.world.client(EAST).delete(kinds.QUEUE, "default")
        await settled(stage, default="Open")

    play(story, register=False)


def test_a_queue_without_jobs_is_closed_and_opened_by_command() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "research")
        await settled(stage, research="Open")
        await command(stage, "research", "CloseQueue")
        await settled(stage, research="Closed")
        await command(stage, "research", "OpenQueue", namespace="kube-system")
        await settled(stage, research="Open")
        await stage.until(lambda: "CommandIssued" in told(stage, "research"))

    play(story, register=False)


def test_a_queue_with_a_running_job_is_closing_until_the_job_is_gone() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "research")
        await stage.world.apply([local(job("train", command="sleep 60"), "research")], server=EAST)
        await stage.until(lambda: stage.phase("train") == "Running")
        await command(stage, "research", "CloseQueue")
        await settled(stage, research="Closing")
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=200)
        await settled(stage, research="Closed")

    play(story, register=False)


def test_a_closing_queue_that_is_opened_takes_jobs_again() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "research")
        await stage.world.apply([local(job("train", command="sleep 60"), "research")], server=EAST)
        await stage.until(lambda: stage.phase("train") == "Running")
        await command(stage, "research", "CloseQueue")
        await settled(stage, research="Closing")
        await stage.world.apply([local(job("late"), "research")], server=EAST)
        await stage.until(lambda: reason(stage, "late") == "QueueClosed")
        assert stage.pods("late") == []
        await command(stage, "research", "OpenQueue")
        await stage.until(lambda: stage.phase("late") == "Completed")

    play(story, register=False)


def test_closing_a_parent_closes_what_is_open_under_it_and_opening_it_opens_exactly_that() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        for name in ("a", "b"):
            await queue(stage, name, parent="lab")
        await queue(stage, "deep", parent="a")
        await settled(stage, lab="Open", a="Open", b="Open", deep="Open")
        await command(stage, "b", "CloseQueue")
        await settled(stage, b="Closed")
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed", a="Closed", deep="Closed", b="Closed", default="Open")
        assert [marked(stage, name) for name in ("lab", "a", "deep", "b")] == [False, True, True, False]
        await command(stage, "lab", "OpenQueue")
        await settled(stage, lab="Open", a="Open", deep="Open", b="Closed")
        await stage.until(lambda: not any(marked(stage, name) for name in ("lab", "a", "deep", "b")))

    play(story, register=False)


def test_a_child_cannot_be_opened_before_its_parent_and_opens_with_it() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        await queue(stage, "a", parent="lab")
        await settled(stage, lab="Open", a="Open")
        await command(stage, "a", "CloseQueue")
        await settled(stage, a="Closed")
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed")
        await command(stage, "a", "OpenQueue")
        await settled(stage, a="Closed")
        await stage.until(lambda: "OpensLater" in told(stage, "a"))
        await command(stage, "lab", "OpenQueue")
        await settled(stage, lab="Open", a="Open")

    play(story, register=False)


def test_a_queue_made_or_moved_under_a_closed_parent_is_closed_until_that_opens() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        await queue(stage, "mover")
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed", mover="Open")
        await queue(stage, "born", parent="lab")
        await stage.world.client(EAST).patch(kinds.QUEUE, "mover", {"spec": {"parent": "lab"}}, type=PatchType.MERGE)
        await settled(stage, born="Closed", mover="Closed")
        await stage.world.client(EAST).patch(kinds.QUEUE, "mover", {"spec": {"parent": "root"}}, type=PatchType.MERGE)
        await settled(stage, mover="Open", born="Closed")
        await command(stage, "lab", "OpenQueue")
        await settled(stage, lab="Open", born="Open")

    play(story, register=False)


def test_a_state_that_is_written_by_hand_is_respected_and_goes_down_the_tree() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        await queue(stage, "a", parent="lab")
        await settled(stage, lab="Open", a="Open")
        await write_state(stage, "lab", "Closed")
        await settled(stage, lab="Closed", a="Closed")
        await stage.world.advance(60)
        assert (state(stage, "lab"), state(stage, "a")) == ("Closed", "Closed")
        await write_state(stage, "lab", "Open")
        await settled(stage, lab="Open", a="Open")
        await write_state(stage, "a", "Unknown")
        await settled(stage, a="Open")

    play(story, register=False)


def test_root_cannot_be_closed_by_command_or_by_hand() -> None:
    async def story(stage: Stage) -> None:
        await settled(stage, root="Open", default="Open")
        await command(stage, "root", "CloseQueue")
        await stage.until(lambda: "CommandRefused" in told(stage, "root") and not commands(stage))
        await write_state(stage, "root", "Closed")
        await settled(stage, root="Open", default="Open")
        await stage.until(lambda: "QueueReopened" in told(stage, "root"))

    play(story, register=False)


def test_commands_that_nobody_can_carry_out_are_told_and_deleted() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "research")
        await settled(stage, research="Open")
        await command(stage, "research", "AbortJob")
        await stage.until(lambda: "CommandNotSupported" in told(stage, "research"))
        await command(stage, "research", "CloseQueue", uid="somebody-else")
        await command(stage, "nowhere", "CloseQueue", uid="x")
        await stage.until(lambda: not commands(stage))
        await stage.world.advance(5)
        events = [each for each in stage.world.all(kinds.EVENT, server=EAST) if each["reason"] == "CommandWithoutTarget"]
        assert len(events) == 2
        assert state(stage, "research") == "Open"

    play(story, register=False)
