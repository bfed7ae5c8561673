"""Bad input and bad days: what cannot be run is refused where people see it and names the field; nothing else stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from simulator.faults import Way
from simulator.world import HUB, Doc, World
from tests.support.accidents import after, expire
from tests.support.quickstart import STARTED, judge, run, watch
from tests.support.stage import play
from tests.support.stories import clusters, flow, home, job, phase, queue, replaced, running, starts, template, why

GOOD = (
    template("first", pods=2, runs_for=2),
    template("second", pods=2, runs_for=2),
    flow("good", {"first": (), "second": ("first",)}),
)


async def the_good_flow_succeeds(world: World) -> None:
    """Beside whatever else is there."""
    seen = watch(world, GOOD)
    await world.apply(GOOD)
    await world.until(lambda: phase(world, "good", kind=kinds.JOB_FLOW) == "Succeed", timeout=60, what="the good flow succeeds")
    seen.check()
    assert {name: starts(world, name) for name in ("good-first", "good-second")} == {"good-first": 2, "good-second": 2}


# --- what the API server refuses -------------------------------------------------------------------------------------

REFUSED = {
    "impossible minimum": (job("train", pods=2, minAvailable=3), "spec.minAvailable"),
    "malformed quantity": (
        job("train", cpu="1x"),
        "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
    ),
    "malformed quantity in a template": (
        template("train", cpu="two"),
        "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
    ),
    "replicas in words": (replaced(job("train"), "spec.tasks.0.replicas", "three"), "spec.tasks[0].replicas"),
    "less than no replicas": (replaced(job("train"), "spec.tasks.0.replicas", -1), "spec.tasks[0].replicas"),
    "no tasks": (replaced(job("train"), "spec.tasks", []), "spec.tasks"),
}


@pytest.mark.parametrize("manifest, field", REFUSED.values(), ids=[*REFUSED])
def test_a_malformed_object_is_refused_at_the_door(manifest: Doc, field: str) -> None:
    async def story(world: World) -> None:
        with pytest.raises(errors.Invalid, match=r".+") as refusal:
            await world.apply(manifest)
        assert field in str(refusal.value)
        await the_good_flow_succeeds(world)

    play(story)


# --- what fails in sight ---------------------------------------------------------------------------------------------

FAILED = {
    "a cycle": (flow("bad", {"a": ["b"], "b": ["a"]}), "spec.flows: jobflow Flow is not DAG: a -> b -> a"),
    "a step that waits for itself": (flow("bad", {"a": ["a"]}), "spec.flows: jobflow Flow is not DAG: a -> a"),
    "an unknown target": (
        flow("bad", {"first": [], "a": ["ghost"]}),
        "spec.flows[1].dependsOn.targets[0]: step 'a' depends on 'ghost'",
    ),
    "a missing queue": (job("bad", queue="nowhere"), "QueueNotFound: spec.queue: queue nowhere does not exist"),
    "the root queue": (job("bad", queue="root"), "QueueNotALeaf: spec.queue"),
    "an impossible minimum of a task": (
        replaced(job("bad", pods=2), "spec.tasks.0.minAvailable", 5),
        "InvalidSpec: spec.tasks[0].minAvailable",
    ),
}


@pytest.mark.parametrize("manifest, told", FAILED.values(), ids=[*FAILED])
def test_what_cannot_run_fails_and_names_the_field(manifest: Doc, told: str) -> None:
    kind = kinds.JOB if manifest["kind"] == "Job" else kinds.JOB_FLOW

    async def story(world: World) -> None:
        await world.apply(manifest)
        await world.until(lambda: phase(world, "bad", kind=kind) == "Failed", timeout=10, what="it fails at once")
        assert told in why(world, "bad", kind=kind)
        await the_good_flow_succeeds(world)
        assert {record.job for record in world.records} == {"default/good-first", "default/good-second"}

    play(story)


def test_a_job_for_a_closed_queue_fails_and_names_the_queue() -> None:
    async def story(world: World) -> None:
        # Closed in the instant it is made, while the hub is about to open what has no state yet: whoever closes it wins.
        await world.apply(queue("shut", weight=1))
        closed = {"status": {"state": "Closed"}}
        await world.client().patch(kinds.QUEUE, "shut", closed, type=PatchType.MERGE, subresource="status")
        await world.apply(job("bad", queue="shut"))
        await world.until(lambda: phase(world, "bad") == "Failed", timeout=10, what="it fails at once")
        assert "QueueClosed: spec.queue: queue shut is Closed" in why(world, "bad")
        await the_good_flow_succeeds(world)
        assert starts(world, "bad") == 0

    play(story)


def test_a_step_whose_job_cannot_run_fails_its_flow_and_no_other() -> None:
    async def story(world: World) -> None:
        steps = flow("bad", {"broken": [], "fine": [], "after": ["broken"]})
        await world.apply((template("broken", queue="nowhere"), template("fine"), template("after"), steps))
        await the_good_flow_succeeds(world)
        await world.until(lambda: phase(world, "bad", kind=kinds.JOB_FLOW) == "Failed", timeout=30, what="the flow fails")
        assert "StepFailed: step broken is Failed" in why(world, "bad", kind=kinds.JOB_FLOW)
        assert "not started because of it: after" in why(world, "bad", kind=kinds.JOB_FLOW)
        assert (phase(world, "bad-fine"), starts(world, "bad-after")) == ("Completed", 0)

    play(story)


def test_a_job_that_fits_nowhere_waits_with_the_reason() -> None:
    async def story(world: World) -> None:
        await world.apply(job("huge", cpu=1000))
        await the_good_flow_succeeds(world)
        assert phase(world, "huge") == "Pending"
        assert "short of cpu" in why(world, "huge")

    play(story)


# --- bad days --------------------------------------------------------------------------------------------------------


def test_an_unreachable_member_holds_up_nobody_else() -> None:
    """Cut off before the flow comes: after 40 s of silence nothing is sent there any more."""

    async def story(world: World) -> None:
        world.cut("east")
        await world.advance(60)
        await the_good_flow_succeeds(world)
        assert {record.cluster for record in world.records} == {"west"}

    play(story)


@pytest.mark.parametrize("way", list(Way))
def test_a_member_that_goes_away_in_the_middle_ends_its_step_once(way: Way) -> None:
    """Its containers go on; the step that waits for them waits until the member can say that they have ended."""

    async def story(world: World) -> None:
        docs = (
            template("first", pods=2, runs_for=20),
            template("side", pods=2, cpu=3, runs_for=20),
            template("last", runs_for=2),
            flow("trip", {"first": [], "side": [], "last": ["first"]}),
        )
        seen = watch(world, docs)
        await world.apply(docs)
        await world.until(lambda: running(world, "trip-first") == 2 and running(world, "trip-side") == 2, timeout=30)
        (away,), (stays,) = clusters(world, "trip-first"), clusters(world, "trip-side")
        assert away != stays
        for role in ("agent", "fencer"):
            world.faults.cut(f"{role}-{away}", HUB, way=way)
        await world.until(lambda: phase(world, "trip-side") == "Completed", timeout=60, what="the other member goes on")
        await world.advance(240)
        seen.check()
        assert running(world, "trip-first") == 0
        assert starts(world, "trip-last") == 0
        world.heal(away)
        await world.until(lambda: phase(world, "trip", kind=kinds.JOB_FLOW) == "Succeed", timeout=120)
        await world.advance(60)
        seen.check()
        judge(world, starts=5)

    play(story)


def test_work_for_a_member_that_was_lost_before_it_started_waits_and_says_so() -> None:
    """`Continue`: only the member itself can say that it did not start. What else there is goes to the others."""

    async def story(world: World) -> None:
        world.cut("east")
        world.cut("west")
        await world.apply(job("stuck", runs_for=5))
        await world.advance(5)
        assert "Dispatched: sent to" in why(world, "stuck")
        away = home(world, "stuck")
        world.heal({"east": "west", "west": "east"}[away])
        await world.advance(60)
        await the_good_flow_succeeds(world)
        assert (phase(world, "stuck"), starts(world, "stuck")) == ("Pending", 0)
        world.heal(away)
        await world.until(lambda: phase(world, "stuck") == "Completed", timeout=60)
        assert (clusters(world, "stuck"), starts(world, "stuck")) == ([away], 1)

    play(story)


@pytest.mark.parametrize("at", [0.1, 2.0, 5.0, 9.0])
def test_a_hub_that_is_away_for_a_minute_in_the_middle_ends_the_flow_right(at: float) -> None:
    async def away(world: World) -> None:
        world.stop("hub")
        await world.advance(60)
        world.resume("hub")

    def strike(world: World) -> list[asyncio.Task[None]]:
        return [after(world, STARTED + at, away)]

    world = run(5, strike=strike, patience=120)
    assert world.supervisors["hub"].lives == 2


@pytest.mark.parametrize("period", [1.5, 4.0])
def test_watches_that_expire_on_every_informer_lose_nothing(period: float) -> None:
    """Again and again all watches of all servers end, and resuming any of them is 410: everything is learnt by listing."""
    refused: list[str] = []

    async def forget(world: World) -> None:
        for name, server in world.servers.items():
            fail = server.failure

            def noted(code: int, reason: str, message: str, name: str = name, fail: Any = fail, **more: Any) -> errors.ApiError:
                if code == 410:
                    refused.append(name)
                return fail(code, reason, message, **more)  # type: ignore[no-any-return]

            server.failure = noted  # type: ignore[method-assign]
        while True:
            await world.advance(period)
            for name in world.servers:
                expire(world, name)

    world = run(5, strike=lambda world: [after(world, STARTED - 1, forget)], patience=300)
    assert {name: refused.count(name) > 5 for name in world.servers} == dict.fromkeys(world.servers, True)


def test_a_conflict_on_every_write_changes_nothing_in_the_end() -> None:
    """Somebody else writes first, every time: each conditional write is refused once and made again from a newer look."""

    def strike(world: World) -> tuple[()]:
        world.faults.conflict_once = True
        return ()

    world = run(5, strike=strike)
    assert len(world.faults.touched) > 20
