"""Stories of Commands: carried out, or told why not; never dropped in silence, never lingering."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis import keys, kinds
from simulator.faults import Faults, Kill, Moment
from tests.federation.world import World, job, story


async def events(world: World, name: str) -> dict[str, list[str]]:
    """Warnings about an object of this name: reason to messages."""
    found: dict[str, list[str]] = {}
    for document in (await world.port.list(kinds.EVENT)).items:
        event = json.loads(document)
        if event["involvedObject"]["name"] == name and event["type"] == "Warning":
            found.setdefault(event["reason"], []).append(event["message"])
    return found


async def order(world: World, action: str, *, kind: kinds.Kind, name: str) -> str:
    """A Command as people write it: by name."""
    target = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}
    body = {"apiVersion": kinds.COMMAND.api_version, "kind": "Command", "action": action, "target": target}
    made = await world.port.create(kinds.COMMAND, {**body, "metadata": {"generateName": f"{name}-"}}, namespace="default")
    return str(json.loads(made)["metadata"]["name"])


async def queue_state(world: World, name: str) -> str:
    queue: dict[str, Any] = json.loads(await world.port.get(kinds.QUEUE, name))
    return str(queue.get("status", {}).get("state", ""))


async def no_commands(world: World) -> bool:
    return not (await world.port.list(kinds.COMMAND)).items


async def asked(world: World) -> list[dict[str, str]]:
    """What Works say that their members are to do."""
    works = [json.loads(each) for each in (await world.port.list(kinds.WORK)).items]
    notes = [work["metadata"]["annotations"].get(keys.COMMAND) for work in works]
    return [json.loads(note) for note in notes if note]


@pytest.mark.parametrize("action", ["RestartJob", "TerminateJob", "CompleteJob"])
def test_what_members_do_is_written_on_the_work_once_with_the_id_of_the_command(action: str) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=20.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await order(world, action, kind=kinds.JOB, name="train")
        await world.clock.sleep(2.0)
        (told,) = await asked(world)
        assert told["action"] == action
        assert told["id"] == (await world.run_of("train")).order
        assert await no_commands(world)
        await order(world, action, kind=kinds.JOB, name="train")
        await world.clock.sleep(2.0)
        assert (await asked(world))[0]["id"] != told["id"]
        await world.until_phase("train", "Completed")
        assert len(world.journal.of(uid)) == 1

    story(tell)


def test_a_run_that_is_granted_again_is_not_told_what_the_one_before_was_asked() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=20.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await order(world, "RestartJob", kind=kinds.JOB, name="train")
        await world.clock.sleep(2.0)
        await order(world, "AbortJob", kind=kinds.JOB, name="train")
        await world.until_phase("train", "Aborted")
        await order(world, "ResumeJob", kind=kinds.JOB, name="train")
        await world.until_phase("train", "Running")
        assert (await world.run_of("train")).epoch == 2
        assert await asked(world) == []

    story(tell)


@pytest.mark.parametrize(("action", "phase"), [("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
@pytest.mark.parametrize("before", ["waiting", "aborted"])
def test_a_job_that_does_not_run_is_ended_where_it_waits(action: str, phase: str, before: str) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=20.0, cpus=1 if before == "waiting" else 16)
        await world.clock.sleep(15.0)
        uid = await world.submit(job("train", pods=4))
        if before == "aborted":
            await world.until_phase("train", "Running")
            await order(world, "AbortJob", kind=kinds.JOB, name="train")
            await world.until_phase("train", "Aborted")
        await world.clock.sleep(2.0)
        await order(world, action, kind=kinds.JOB, name="train")
        await world.until_phase("train", phase)
        assert await no_commands(world)
        assert (await world.state("train"))["reason"] == action
        await world.clock.sleep(30.0)
        assert len(world.journal.of(uid)) == (1 if before == "aborted" else 0)

    story(tell)


def test_a_job_that_waits_has_nothing_to_restart_and_waits_on() -> None:
    async def tell(world: World) -> None:
        world.hub()
        await world.submit(job("train"))
        await world.clock.sleep(2.0)
        await order(world, "RestartJob", kind=kinds.JOB, name="train")
        await world.clock.sleep(2.0)
        assert await no_commands(world)
        assert (await world.state("train"))["phase"] == "Pending"
        world.member("east")
        await world.until_phase("train", "Completed")

    story(tell)


@pytest.mark.parametrize("action", ["MakeCoffee"])
def test_a_command_that_this_version_does_not_act_on_is_told_once_on_its_job_and_deleted(action: str) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=20.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await order(world, action, kind=kinds.JOB, name="train")
        await world.clock.sleep(2.0)
        (message,) = (await events(world, "train"))["CommandNotSupported"]
        assert message.startswith(f"{action} of Command train-") and "nothing was done" in message
        assert await no_commands(world)
        await world.until_phase("train", "Completed")
        assert len(world.journal.of(uid)) == 1

    story(tell)


def test_a_command_for_nobody_or_too_late_is_told_and_deleted() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        await order(world, "AbortJob", kind=kinds.JOB, name="train")
        lost = await order(world, "AbortJob", kind=kinds.JOB, name="ghost")
        await world.clock.sleep(2.0)
        assert "has ended" in (await events(world, "train"))["CommandTooLate"][0]
        assert "there is no Job default/ghost" in (await events(world, lost))["CommandWithoutTarget"][0]
        assert await no_commands(world)
        assert (await world.state("train"))["phase"] == "Completed"

    story(tell)


def test_a_closed_queue_lets_what_runs_go_on_and_what_was_accepted_wait_and_takes_nothing_new() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=2, seconds=30.0)
        await world.queue("team", weight=1)
        await world.clock.sleep(15.0)
        first = await world.submit(job("first", queue="team"))
        await world.until_phase("first", "Running")
        second = await world.submit(job("second", queue="team"))  # no room beside the first
        await world.until_phase("second", "Pending")
        await order(world, "CloseQueue", kind=kinds.QUEUE, name="team")
        await world.clock.sleep(2.0)
        assert (await queue_state(world, "team"), await no_commands(world)) == ("Closing", True)
        await world.submit(job("third", queue="team"))
        await world.until_phase("third", "Failed")
        assert (await world.state("third"))["reason"] == "QueueClosed"
        await world.until_phase("first", "Completed")
        await world.clock.sleep(30.0)
        assert (await world.state("second"))["reason"] == "QueueClosed"
        assert (await queue_state(world, "team"), world.journal.of(second)) == ("Closing", [])
        await order(world, "OpenQueue", kind=kinds.QUEUE, name="team")
        await world.until_phase("second", "Completed")
        assert await queue_state(world, "team") == "Open"
        await order(world, "CloseQueue", kind=kinds.QUEUE, name="team")
        await world.clock.sleep(2.0)
        assert await queue_state(world, "team") == "Closed"
        assert len(world.journal.of(first)) == len(world.journal.of(second)) == 1

    story(tell)


def test_closing_a_queue_closes_those_under_it_and_the_root_cannot_be_closed() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.queue("lab", weight=1)
        await world.queue("team", weight=1, parent="lab")
        await order(world, "CloseQueue", kind=kinds.QUEUE, name="lab")
        await order(world, "CloseQueue", kind=kinds.QUEUE, name="root")
        await order(world, "PaintQueue", kind=kinds.QUEUE, name="lab")
        lost = await order(world, "CloseQueue", kind=kinds.QUEUE, name="ghost")
        await world.clock.sleep(15.0)
        assert [await queue_state(world, name) for name in ("lab", "root")] == ["Closed", "Open"]
        await world.submit(job("early", queue="team"))
        await world.until_phase("early", "Failed")
        assert "queue team is under queue lab, which is Closed" in (await world.state("early"))["message"]
        assert [*await events(world, "root")] == ["CommandRefused"]
        assert [*await events(world, "lab")] == ["CommandNotSupported"]
        assert [*await events(world, lost)] == ["CommandWithoutTarget"]
        assert await no_commands(world)
        await order(world, "OpenQueue", kind=kinds.QUEUE, name="lab")
        await world.clock.sleep(2.0)
        await world.submit(job("late", queue="team"))
        await world.until_phase("late", "Completed")

    story(tell)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_abort_is_carried_out_once_at_whatever_write_the_hub_dies(nth: int, moment: Moment) -> None:
    async def tell(world: World) -> None:
        faults = Faults(world.chance)
        world.supervised_hub(faults)
        world.member("east", seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.clock.sleep(10.0)
        faults.at("hub", len(faults.writes_of("hub")) + nth, moment, Kill())
        await order(world, "AbortJob", kind=kinds.JOB, name="train")
        await world.until_phase("train", "Aborted", within=60.0)
        await world.until(lambda: no_commands(world), within=60.0)
        await order(world, "ResumeJob", kind=kinds.JOB, name="train")
        await world.until_phase("train", "Running", within=60.0)
        await world.clock.sleep(60.0)
        assert (await world.state("train"))["phase"] == "Running"
        assert len(world.journal.of(uid)) == 2

    story(tell)


def test_commands_given_while_no_hub_leads_are_carried_out_in_their_order() -> None:
    async def tell(world: World) -> None:
        hub = world.hub()
        world.member("east", seconds=500.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Running")
        hub.cancel()
        await world.clock.sleep(1.0)
        for action in ("AbortJob", "ResumeJob", "AbortJob"):
            await order(world, action, kind=kinds.JOB, name="train")
        world.hub()
        await world.clock.sleep(40.0)
        assert ((await world.state("train"))["phase"], await no_commands(world)) == ("Aborted", True)
        assert len(world.journal.of(uid)) == 1

    story(tell)


def test_an_order_that_comes_before_its_job_is_placed_or_needs_nothing_is_used_up() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=10.0)
        await world.submit(job("train"))
        await order(world, "ResumeJob", kind=kinds.JOB, name="train")
        await world.until_phase("train", "Completed")
        assert await no_commands(world)

    story(tell)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_order_to_a_queue_is_not_lost_when_the_hub_dies_over_it(at: int) -> None:
    async def tell(world: World) -> None:
        faults = Faults(world.chance)
        hub = world.supervised_hub(faults)
        await world.queue("team", weight=1)
        await world.clock.sleep(15.0)
        assert hub.life is not None
        for _ in range(at):
            hub.kill()
            await order(world, "CloseQueue", kind=kinds.QUEUE, name="team")
            await world.clock.sleep(0.02)
            hub.kill()
        await order(world, "OpenQueue", kind=kinds.QUEUE, name="team")
        await order(world, "CloseQueue", kind=kinds.QUEUE, name="team")
        await world.clock.sleep(40.0)
        assert (await queue_state(world, "team"), await no_commands(world)) == ("Closed", True)

    story(tell)
