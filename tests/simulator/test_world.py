"""A world of toy programs: the hub's orders become pods in members, and the ends are written back."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from apis import kinds
from machinery import errors
from machinery.clock import Chance, Ids
from machinery.port import PatchType
from simulator.faults import Kill, Moment, WatchFaults
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, Surroundings
from simulator.world import Member, World

ORDERS = 3


async def hub(at: Surroundings) -> None:
    """Makes three orders, then watches them."""
    for index in range(ORDERS):
        body = {"metadata": {"name": f"order-{index}", "labels": {"member": "east"}}}
        try:
            await at.hub.create(kinds.CONFIGMAP, body, namespace="default")
        except errors.AlreadyExists:
            continue
    async for _ in at.hub.watch(kinds.CONFIGMAP, send_initial=True, timeout=1e6):
        pass


async def agent(at: Surroundings) -> None:
    """Runs a pod per order, and writes its phase into the order. Looks again every second."""
    assert at.local is not None
    while True:
        page = await at.hub.list(kinds.CONFIGMAP, namespace="default", labels=f"member={at.member}")
        for item in page.items:
            order = orjson.loads(item)
            if "data" not in order:
                await carry_out(at, order["metadata"]["name"])
        await at.clock.sleep(1)


async def carry_out(at: Surroundings, name: str) -> None:
    assert at.local is not None
    try:
        pod = orjson.loads(await at.local.get(kinds.POD, name, namespace="default"))
    except errors.NotFound:
        container = {"name": "main", "image": "busybox:1", "command": ["sleep", "3"]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        await at.local.create(kinds.POD, {"metadata": {"name": name}, "spec": spec}, namespace="default")
        return
    if not pod["spec"].get("nodeName"):
        await at.local.bind(name, namespace="default", node="n-0")
    elif pod["status"]["phase"] == "Succeeded":
        patch = {"data": {"phase": "Succeeded"}}
        await at.hub.patch(kinds.CONFIGMAP, name, patch, type=PatchType.MERGE, namespace="default")


TOYS = Programs(hub={"hub": hub}, member={"agent": agent})


def world(seed: int) -> World:
    return World(seed, members={"east": Member(nodes=uniform("n", 1)), "west": Member()}, programs=TOYS)


def ended(it: World) -> bool:
    orders = [doc for doc in it.all(kinds.CONFIGMAP) if doc["metadata"]["name"].startswith("order-")]
    return len(orders) == ORDERS and all("data" in order for order in orders)


def play(seed: int, *faults: tuple[str, int, Moment], watches: WatchFaults | None = None) -> World:
    """One run to its end."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> World:
        async with world(seed) as it:
            it.faults.watches = watches or it.faults.watches
            for actor, number, moment in faults:
                it.faults.at(actor, number, moment, Kill())
            await it.until(lambda: ended(it), timeout=120)
            await it.advance(20)  # a kill after the last write, and the life that follows
            assert it.crashes == []
            return it

    return run_virtual(main, seed=seed)


def test_orders_are_carried_out_where_they_belong() -> None:
    it = play(1)
    assert sorted((record.cluster, record.pod, record.exit_code) for record in it.records) == [
        ("east", f"order-{index}", 0) for index in range(ORDERS)
    ]
    assert len(it.faults.writes_of("agent-east")) == 3 * ORDERS
    assert it.faults.writes_of("agent-west") == []


def test_one_seed_is_one_run() -> None:
    first, again, other = ([str(write) for write in play(seed).faults.log] for seed in (4, 4, 5))
    assert first == again
    assert first != other


CLEAN = [(write.actor, write.number) for write in play(1).faults.log]


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize(("actor", "number"), CLEAN)
def test_a_kill_at_any_write_changes_nothing_in_the_end(actor: str, number: int, moment: Moment) -> None:
    it = play(1, (actor, number, moment))
    assert it.faults.fired == [f"Kill {moment} write {number} of {actor}"]
    assert it.records.repeated() == {}
    assert len(it.records) == ORDERS


def test_a_member_that_is_cut_off_catches_up() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with world(2) as it:
            it.cut("east")
            await it.advance(60)
            assert len(it.records) == 0
            it.heal("east")
            with pytest.raises(AssertionError, match="agent-east: Unreachable"):
                await it.until(lambda: ended(it), timeout=1)
            await it.until(lambda: ended(it), timeout=60)

    run_virtual(main, seed=2)


def test_a_lost_member_does_nothing_more() -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with world(2) as it:
            await it.until(lambda: len(it.records) == 1, timeout=60)
            it.lose("east")
            await it.advance(600)
            assert it.records.running() == []
            assert not ended(it)
            assert it.get(kinds.NODE, "n-0", server="east")["status"]["conditions"][0]["status"] == "Unknown"  # type: ignore[index]

    run_virtual(main, seed=2)


async def test_people_apply_manifests_and_look(clock: SimClock) -> None:
    async with World(1, members={}, programs=Programs()) as it:
        await it.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n---\n")
        await it.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        found = it.get(kinds.CONFIGMAP, "a")
        assert found is not None and found["data"] == {"x": "1"}
        assert it.get(kinds.CONFIGMAP, "b") is None
        assert "team" in [doc["metadata"]["name"] for doc in it.all(kinds.NAMESPACE)]
        with pytest.raises(ValueError, match="no such kind"):
            await it.apply("apiVersion: v1\nkind: Nothing\nmetadata: {name: a}")


def test_the_same_world_runs_in_real_time() -> None:
    async def main() -> Any:
        async with World(1, members={"east": Member()}, programs=TOYS) as it:
            await it.until(lambda: len(it.all(kinds.CONFIGMAP)) == ORDERS, timeout=10)
            return it.clock

    assert type(asyncio.run(main())).__name__ == "SystemClock"
