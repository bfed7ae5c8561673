"""Promise 5: a step never starts before its dependencies hold; what was recorded as ended never runs again."""

from __future__ import annotations

import pytest

from apis import keys, kinds, naming
from apis.kinds import Kind
from simulator.world import HUB, World
from tests.support.quickstart import watch
from tests.support.stage import play
from tests.support.stories import clusters, flow, job, phase, running, starts, template

CHAIN = (
    template("one", pods=2, runs_for=3),
    template("two", pods=2, runs_for=30),
    template("three", runs_for=3),
    flow("chain", {"one": (), "two": ("one",), "three": ("one", "two")}),
)


def test_steps_start_in_order_whatever_dies_on_the_way() -> None:
    """The watch compares every start with the ends of what it waits for, by the nodes' own records."""

    async def story(world: World) -> None:
        seen = watch(world, CHAIN)
        await world.apply(CHAIN)
        for actor in ("hub", "agent-east", "agent-west", "hub", "fencer-west", "hub"):
            await world.advance(4)
            world.kill(actor)
        await world.until(lambda: phase(world, "chain", kind=kinds.JOB_FLOW) == "Succeed", timeout=240)
        seen.check()
        assert [starts(world, f"chain-{step}") for step in ("one", "two", "three")] == [2, 2, 1]

    play(story, pods={"default/chain-one": 2, "default/chain-two": 2})


def test_a_finished_step_stays_finished_when_its_job_is_deleted() -> None:
    """Its Job is deleted while the next step runs: the flow goes on and the step is not made again."""

    async def story(world: World) -> None:
        await world.apply(CHAIN)
        await world.until(lambda: running(world, "chain-two") == 2, timeout=60)
        await world.client().delete(kinds.JOB, "chain-one", namespace="default")
        await world.until(lambda: phase(world, "chain", kind=kinds.JOB_FLOW) == "Succeed", timeout=120)
        await world.advance(60)
        assert [starts(world, f"chain-{step}") for step in ("one", "two", "three")] == [2, 2, 1]

    play(story, pods={"default/chain-one": 2, "default/chain-two": 2})


@pytest.mark.parametrize(
    "what", [kinds.RESOURCE_BINDING, kinds.WORK, kinds.JOB, kinds.POD_GROUP, kinds.POD], ids=lambda it: it.kind
)
@pytest.mark.parametrize("restart", [False, True], ids=["", "and the programs restart"])
def test_a_finished_job_never_runs_again_whatever_is_deleted(what: Kind, restart: bool) -> None:
    """Binding or Work at the hub; Job, PodGroup or pod at the member."""

    async def story(world: World) -> None:
        await world.apply(job("train", runs_for=3))
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        (there,) = clusters(world, "train")
        server, namespace, name = HUB, "default", naming.binding_name("train")
        if what == kinds.WORK:
            namespace, name = keys.execution_namespace(there), naming.work_name("train", namespace="default")
        elif what != kinds.RESOURCE_BINDING:
            server, (name, *_) = there, [it["metadata"]["name"] for it in world.all(what, server=there)]
        await world.client(server).delete(what, name, namespace=namespace)
        if restart:
            for actor in list(world.supervisors):
                world.kill(actor)
        await world.advance(180)
        assert (starts(world, "train"), phase(world, "train")) == (1, "Completed")

    play(story)
