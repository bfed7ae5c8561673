"""Two clusters of one name, one cluster under two names, and a hub that would be its own member: refused, in words that name
both."""

from __future__ import annotations

from apis import kinds
from machinery.clock import Chance, Ids
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Doc, Member, World
from tests.support.members import condition
from tests.support.stories import clusters, job, phase

OTHER = "11111111-2222-3333-4444-555555555555"


def named(name: str, uid: str) -> Doc:
    """A Cluster."""
    kind = kinds.CLUSTER
    spec = {"id": uid, "syncMode": "Pull"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def condition_of(world: World, name: str) -> tuple[str, str, str]:
    """What is said of its registration."""
    return condition(world, name, "Registered")


def uid_of(world: World, server: str) -> str:
    found: str = (world.get(kinds.NAMESPACE, "kube-system", server=server) or {})["metadata"]["uid"]
    return found


def test_a_second_cluster_of_a_name_is_refused_and_both_are_named() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        world = World(3, members={name: Member(nodes=uniform(name, 1, cpu=4)) for name in ("east", "west")})
        world.servers["hub"].create(kinds.CLUSTER, named("east", OTHER))
        async with world:
            await world.until(lambda: condition(world, "east", "NameTaken")[0] == "True", timeout=60, what="it is told")
            message = condition(world, "east", "NameTaken")[2]
            assert OTHER in message
            assert uid_of(world, "east") in message
            assert (world.get(kinds.CLUSTER, "east") or {})["spec"]["id"] == OTHER
            await world.apply(job("train", pods=1, runs_for=3))
            await world.until(lambda: phase(world, "train") == "Completed", timeout=60, what="the other member works")
            assert clusters(world, "train") == ["west"]
            writes = [write for write in world.faults.writes_of("agent-east") if write.kind == kinds.CLUSTER.name]
            await world.advance(120.0)
            again = [write for write in world.faults.writes_of("agent-east") if write.kind == kinds.CLUSTER.name]
            assert len(again) == len(writes), "said once"

    run_virtual(main, seed=3)


def test_one_cluster_under_two_names_and_the_hub_itself_are_refused() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(3, members={"east": Member(nodes=uniform("east", 1, cpu=4))}) as world:
            await world.until(lambda: condition(world, "east", "Ready")[0] == "True", timeout=60, what="it is there")
            await world.client().create(kinds.CLUSTER, named("second", uid_of(world, "east")))
            await world.client().create(kinds.CLUSTER, named("itself", uid_of(world, "hub")))
            await world.until(
                lambda: condition_of(world, "second")[0] == "False", timeout=30, what="the second name is refused"
            )
            assert condition_of(world, "second")[1] == "DuplicateId"
            assert "cluster second and cluster east have the same spec.id" in condition_of(world, "second")[2]
            await world.until(lambda: condition_of(world, "itself")[1] == "HubItself", timeout=30, what="the hub is refused")
            assert condition(world, "east", "Ready")[0] == "True"
            await world.client().delete(kinds.CLUSTER, "second")
            await world.until(lambda: world.get(kinds.CLUSTER, "second") is None, timeout=30, what="it can be taken away")

    run_virtual(main, seed=3)
