"""Queues as they should not be, many at once, and what their status says: told on the real agent."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from apis import keys, kinds
from machinery.errors import Conflict
from machinery.metrics import Metrics
from machinery.port import PatchType
from member_agent.app import run_agent
from member_agent.settings import AgentSettings
from simulator.faults import Moment, answer
from simulator.programs import Programs, Surroundings, federation
from tests.member_agent.queues.making import command, found, local, marked, queue, settled, state, told, write_state
from tests.member_agent.world import EAST, Doc, Stage, job, play

AGENT = f"agent-{EAST}"


def status(stage: Stage, name: str) -> Doc:
    return found(stage.world, name).get("status") or {}


def counts(stage: Stage, name: str) -> dict[str, int]:
    """Counters that are not zero."""
    phases = ("pending", "inqueue", "running", "unknown", "completed")
    return {phase: status(stage, name)[phase] for phase in phases if status(stage, name).get(phase)}


def writes(stage: Stage) -> list[str]:
    """What the agent wrote to Queues."""
    return [
        f"{each.name} {each.subresource}"
        for each in stage.world.faults.log
        if each.kind == kinds.QUEUE.name and each.actor == AGENT
    ]


# --- bad trees -------------------------------------------------------------------------------------------------------


def test_a_queue_whose_parent_does_not_exist_says_so_and_works_until_it_does() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "a", parent="lab")
        await settled(stage, a="Open")
        await stage.until(lambda: "ParentMissing" in told(stage, "a"))
        await command(stage, "a", "CloseQueue")
        await settled(stage, a="Closed")
        await command(stage, "a", "OpenQueue")
        await settled(stage, a="Open")
        await queue(stage, "lab")
        await settled(stage, lab="Open")
        await write_state(stage, "lab", "Closed")
        await settled(stage, lab="Closed", a="Closed")

    play(story, register=False)


def test_queues_in_a_circle_say_so_are_told_apart_and_can_be_closed_and_opened() -> None:
    async def story(stage: Stage) -> None:
        for name, parent in (("a", "c"), ("b", "a"), ("c", "b"), ("good", "root")):
            await queue(stage, name, parent=parent)
        await settled(stage, a="Open", b="Open", c="Open", good="Open")
        await stage.until(lambda: all("QueueCycle" in told(stage, name) for name in "abc"))
        await command(stage, "a", "CloseQueue")
        await command(stage, "good", "CloseQueue")
        await settled(stage, a="Closed", b="Open", c="Open", good="Closed")
        await command(stage, "a", "OpenQueue")
        await settled(stage, a="Open", b="Open", c="Open")
        await command(stage, "a", "CloseQueue")
        await settled(stage, a="Closed")
        await stage.world.client(EAST).patch(kinds.QUEUE, "a", {"spec": {"parent": "root"}}, type=PatchType.MERGE)
        await settled(stage, a="Closed", b="Closed", c="Closed")  # now it is a tree, and its root is closed

    play(story, register=False)


def test_a_parent_that_is_deleted_leaves_its_children_as_they_were() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        for name in ("a", "b"):
            await queue(stage, name, parent="lab")
        await command(stage, "b", "CloseQueue")
        await settled(stage, lab="Open", a="Open", b="Closed")
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed", a="Closed")
        await stage.world.client(EAST).delete(kinds.QUEUE, "lab")
        await stage.until(lambda: "ParentMissing" in told(stage, "a") & told(stage, "b"))
        await stage.world.advance(30)
        assert (state(stage, "a"), marked(stage, "a"), state(stage, "b")) == ("Closed", True, "Closed")
        await queue(stage, "lab")
        await settled(stage, lab="Open", a="Open", b="Closed")

    play(story, register=False)


def test_a_queue_that_cannot_be_used_is_named_and_stops_no_other() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "debt", capability={"cpu": "-4"})
        await queue(stage, "good")
        await settled(stage, debt="Open", good="Open")
        await stage.until(lambda: "QueueUnreadable" in told(stage, "debt"))
        events = [each for each in stage.world.all(kinds.EVENT, server=EAST) if each["reason"] == "QueueUnreadable"]
        assert [each["message"] for each in events] == ["spec.capability.cpu: -4 is negative; it counts as not given"]
        await command(stage, "debt", "CloseQueue")
        await settled(stage, debt="Closed")

    play(story, register=False)


def test_a_queue_that_the_hub_manages_keeps_its_spec() -> None:
    async def story(stage: Stage) -> None:
        meta = {"name": "theirs", "labels": {keys.MANAGED_LABEL: "true"}}
        body = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": meta, "spec": {"weight": 2}}
        await stage.world.client(EAST).create(kinds.QUEUE, body)
        await settled(stage, theirs="Open")
        await command(stage, "theirs", "CloseQueue")
        await settled(stage, theirs="Closed")
        await stage.world.advance(30)
        assert "parent" not in found(stage.world, "theirs")["spec"]

    play(story, register=False)


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_counts_groups_by_phase_and_amounts_with_all_below() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        await queue(stage, "a", parent="lab")
        await settled(stage, lab="Open", a="Open")
        await stage.world.apply([local(job("train", replicas=3, command="sleep 60"), "a")], server=EAST)
        await stage.world.apply([local(job("big", replicas=9, cpu="7"), "a")], server=EAST)
        await stage.until(lambda: counts(stage, "a") == {"running": 1, "pending": 1})
        await stage.until(lambda: (status(stage, "lab").get("allocated") or {}).get("cpu") == "3")
        assert status(stage, "a")["allocated"] == status(stage, "lab")["allocated"]
        assert counts(stage, "lab") == {}
        await stage.until(lambda: stage.phase("train") == "Completed", timeout=200)
        await stage.until(lambda: counts(stage, "a") == {"pending": 1} and not status(stage, "a").get("allocated"))
        await stage.until(lambda: not status(stage, "lab").get("allocated"))

    play(story, register=False)


def test_a_queue_that_moves_takes_its_amounts_with_it() -> None:
    async def story(stage: Stage) -> None:
        for name, parent in (("lab", "root"), ("shop", "root"), ("a", "lab")):
            await queue(stage, name, parent=parent)
        await stage.world.apply([local(job("train", command="sleep 300"), "a")], server=EAST)
        await stage.until(lambda: (status(stage, "lab").get("allocated") or {}).get("cpu") == "2")
        await stage.world.client(EAST).patch(kinds.QUEUE, "a", {"spec": {"parent": "shop"}}, type=PatchType.MERGE)
        await stage.until(lambda: (status(stage, "shop").get("allocated") or {}).get("cpu") == "2")
        await stage.until(lambda: not status(stage, "lab").get("allocated"))

    play(story, register=False)


def test_a_burst_of_jobs_is_written_together_and_an_idle_queue_is_not_written_at_all() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "a")
        await settled(stage, root="Open", default="Open", a="Open")
        await stage.world.advance(20)
        before = len(writes(stage))
        await stage.world.apply(
            [local(job(f"train-{number}", replicas=1, cpu="500m", command="sleep 2"), "a") for number in range(20)], server=EAST
        )
        await stage.until(lambda: all(stage.phase(f"train-{number}") == "Completed" for number in range(20)), timeout=200)
        await stage.world.advance(30)
        assert len(writes(stage)) - before <= 8, writes(stage)[before:]
        assert counts(stage, "a") == {}
        settled_at = len(writes(stage))
        await stage.world.advance(600)
        assert len(writes(stage)) == settled_at

    play(story, register=False)


def test_amounts_that_somebody_else_wrote_are_put_right() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "a")
        await settled(stage, a="Open")
        wrong = {"status": {"allocated": {"cpu": "99"}, "running": 7}}
        await stage.world.client(EAST).patch(kinds.QUEUE, "a", wrong, type=PatchType.MERGE, subresource="status")
        await stage.until(lambda: counts(stage, "a") == {} and not status(stage, "a").get("allocated"))
        assert state(stage, "a") == "Open"

    play(story, register=False)


def test_metrics_count_groups_by_queue_and_forget_a_queue_that_is_deleted() -> None:
    registry = CollectorRegistry()

    async def measured(at: Surroundings) -> None:
        assert at.local is not None
        await run_agent(
            at.hub,
            at.local,
            clock=at.clock,
            chance=at.chance,
            ids=at.ids,
            settings=AgentSettings(cluster=at.member, **at.settings),
            metrics=Metrics(registry),
        )

    def gauge(phase: str, name: str) -> float | None:
        return registry.get_sample_value(f"volcano_queue_pod_group_{phase}_count", {"queue_name": name})

    async def story(stage: Stage) -> None:
        await queue(stage, "a")
        await stage.world.apply([local(job("train", command="sleep 60"), "a")], server=EAST)
        await stage.until(lambda: gauge("running", "a") == 1)
        assert (gauge("pending", "a"), gauge("inqueue", "a"), gauge("completed", "a")) == (0, 0, 0)
        await stage.world.client(EAST).delete(kinds.JOB, "train", namespace="default")
        await stage.until(lambda: gauge("running", "a") == 0)
        await stage.world.client(EAST).delete(kinds.QUEUE, "a")
        await stage.until(lambda: gauge("running", "a") is None)
        assert gauge("running", "default") == 0

    play(story, register=False, programs=Programs(member={**federation().member, "agent": measured}))


# --- many ------------------------------------------------------------------------------------------------------------


def test_ten_queues_at_once_are_open_and_ten_deleted_leave_nothing() -> None:
    async def story(stage: Stage) -> None:
        names = [f"stress-{number}" for number in range(10)]
        for name in names:
            await queue(stage, name, weight=1)
        await settled(stage, **dict.fromkeys(names, "Open"))
        for name in names:
            await stage.world.client(EAST).delete(kinds.QUEUE, name)
        await stage.world.advance(30)
        left = {each["metadata"]["name"] for each in stage.world.all(kinds.QUEUE, server=EAST)}
        assert left == {"root", "default"}

    play(story, register=False)


def test_a_closed_tree_of_forty_queues_opens_as_it_was() -> None:
    async def story(stage: Stage) -> None:
        names = [f"q{number}" for number in range(40)]
        for number, name in enumerate(names):
            await queue(stage, name, **({"parent": names[(number - 1) // 3]} if number else {}))
        await settled(stage, **dict.fromkeys(names, "Open"))
        for name in names[5::7]:
            await command(stage, name, "CloseQueue")
        await stage.world.advance(10)
        before = {name: (state(stage, name), marked(stage, name)) for name in names}
        assert {"Open", "Closed"} == {each for each, _ in before.values()}
        await command(stage, "q0", "CloseQueue")
        await settled(stage, **dict.fromkeys(names, "Closed"))
        await command(stage, "q0", "OpenQueue")
        await stage.world.advance(10)
        assert {name: (state(stage, name), marked(stage, name)) for name in names} == before

    play(story, register=False)


# --- the server says no ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [409, 500, 0])
def test_writes_that_fail_are_made_again(code: int) -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "lab")
        await queue(stage, "a", parent="lab")
        await settled(stage, lab="Open", a="Open")
        number = len(stage.world.faults.writes_of(AGENT))
        for ahead in range(1, 12, 2):
            stage.world.faults.at(AGENT, number + ahead, Moment.BEFORE, answer(code))
        await command(stage, "lab", "CloseQueue")
        await settled(stage, lab="Closed", a="Closed")
        await command(stage, "lab", "OpenQueue")
        await settled(stage, lab="Open", a="Open")
        await stage.until(lambda: not marked(stage, "a"))

    play(story, register=False)


def test_states_are_applied_under_the_name_of_upstreams_controller() -> None:
    async def story(stage: Stage) -> None:
        await queue(stage, "a")
        await settled(stage, a="Open")
        port = stage.world.client(EAST)
        body = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": "a"},
            "status": {"state": "Closed"},
        }
        with pytest.raises(Conflict, match="queue-controller"):
            await port.patch(kinds.QUEUE, "a", body, type=PatchType.APPLY, subresource="status", field_manager="me")

    play(story, register=False)
