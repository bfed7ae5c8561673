"""`fedctl cluster`: what people see of members, and what they ask of them, on a federation that does it."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
from collections.abc import Awaitable, Callable

import yaml
from rich.console import Console

from apis import cluster_orders, keys, kinds
from apis.runs import Ground
from fedctl import clusters
from fedctl.clusters import NOT_CONFIRMED, TIMED_OUT, Wait
from fedctl.flows import NOT_FOUND, OK, REFUSED, Place
from simulator.world import World
from tests.support.members import condition, notes_of
from tests.support.stage import play
from tests.support.stories import binding_run, home, job, running


class Desk:
    """A person at a terminal beside a federation; `answers` is what is said to every question."""

    def __init__(self, world: World, *, answers: bool = True) -> None:
        self.world, self.answers = world, answers
        self.out, self.err = io.StringIO(), io.StringIO()
        self.asked: list[str] = []

    @property
    def place(self) -> Place:
        out, err = Console(file=self.out, width=200), Console(file=self.err, width=200)
        return Place(self.world.client(), "", out, err, self.world.clock.now())

    def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return self.answers

    async def drain(self, name: str, *, seconds: float = 120.0, why: str = "") -> int:
        return await clusters.drain(
            self.place, name, why=why, confirm=self.confirm, wait=Wait(seconds=seconds), clock=self.world.clock
        )

    async def unjoin(self, name: str) -> int:
        return await clusters.unjoin(self.place, name, confirm=self.confirm, wait=Wait(seconds=240.0), clock=self.world.clock)

    async def declare(self, name: str) -> int:
        return await clusters.declare_lost(
            self.place, name, why="flooded", confirm=self.confirm, wait=Wait(seconds=60.0), clock=self.world.clock
        )

    async def get(self, *names: str, output: str = "table", labels: str = "") -> str:
        self.out.seek(0)
        self.out.truncate()
        code = await clusters.get(self.place, names, output=output, labels=labels, watch=False, clock=self.world.clock)
        assert code == OK
        return self.out.getvalue()


def at_a_desk(tell: Callable[[Desk], Awaitable[None]], *, answers: bool = True) -> None:
    async def story(world: World) -> None:
        await tell(Desk(world, answers=answers))

    play(story, cpus={"east": 8, "west": 4}, pods={"default/train": 2})


async def train(desk: Desk) -> None:
    """A Job that runs in the east."""
    await desk.world.apply(job("train", pods=2, runs_for=900))
    await desk.world.until(lambda: running(desk.world, "train") == 2, timeout=60, what="it runs")
    assert home(desk.world, "train") == "east"


def test_members_are_listed_with_how_they_stand() -> None:
    async def tell(desk: Desk) -> None:
        await train(desk)
        lines = (await desk.get()).splitlines()
        assert lines[0].split() == ["NAME", "MODE", "STATUS", "VERSION", "NODES", "AGE"]
        assert [line.split()[:3] for line in lines[1:]] == [["east", "Pull", "Ready"], ["west", "Pull", "Ready"]]
        assert "1" in (await desk.get("east", output="wide")).splitlines()[1].split()
        assert await desk.get("west", output="name") == "cluster.cluster.karmada.io/west\n"
        listed = json.loads(await desk.get(output="json"))
        assert [each["metadata"]["name"] for each in listed["items"]] == ["east", "west"]
        assert "managedFields" not in listed["items"][0]["metadata"]
        assert [each["kind"] for each in yaml.safe_load_all(await desk.get(output="yaml"))] == ["Cluster", "Cluster"]
        assert await desk.get(labels="tier=gold") == ""
        assert (
            await clusters.get(desk.place, ["nowhere"], output="table", labels="", watch=False, clock=desk.world.clock)
            == NOT_FOUND
        )

    at_a_desk(tell)


def test_a_member_is_described_with_orders_and_conditions() -> None:
    async def tell(desk: Desk) -> None:
        assert await clusters.cordon(desk.place, ["east"], value=True) == OK
        desk.out.truncate(0)
        assert await clusters.describe(desk.place, "east") == OK
        text = desk.out.getvalue()
        for words in (
            "Ready,Cordoned",
            "Fence number:",
            "cordon",
            "cluster.karmada.io/unschedulable:NoSchedule",
            "ClusterReady",
        ):
            assert words in text, text
        assert await clusters.describe(desk.place, "nowhere") == NOT_FOUND

    at_a_desk(tell)


def test_cordon_and_uncordon_keep_what_others_wrote() -> None:
    async def tell(desk: Desk) -> None:
        assert await clusters.cordon(desk.place, ["east", "nowhere"], value=True) == NOT_FOUND
        spec = (desk.world.get(kinds.CLUSTER, "east") or {})["spec"]
        assert [each["key"] for each in spec["taints"]] == [keys.TAINT_UNSCHEDULABLE]
        assert list(cluster_orders.stamps(notes_of(desk.world, "east"))) == ["cordon"]
        assert await clusters.cordon(desk.place, ["east"], value=False) == OK
        assert (desk.world.get(kinds.CLUSTER, "east") or {})["spec"]["taints"] == []
        assert cluster_orders.ORDERED_BY not in notes_of(desk.world, "east")

    at_a_desk(tell)


def test_a_drain_asks_first_and_tells_how_far_it_is() -> None:
    async def tell(desk: Desk) -> None:
        await train(desk)
        desk.answers = False
        assert await desk.drain("east") == NOT_CONFIRMED
        assert desk.asked == ["1 run of east will be stopped and started again elsewhere. Drain it?"]
        assert notes_of(desk.world, "east").get(cluster_orders.DRAIN) is None
        desk.answers = True
        assert await desk.drain("east", why="a new kernel") == OK
        text = desk.out.getvalue()
        assert "Draining: 1 run is left" in text
        assert text.rstrip().endswith("Drained: no run is left; drained by kubectl")
        assert "Drained" in await desk.get("east")
        assert await clusters.cordon(desk.place, ["east"], value=False) == OK
        assert cluster_orders.DRAIN not in notes_of(desk.world, "east")
        await desk.world.until(lambda: running(desk.world, "train") == 2, timeout=60, what="it runs in the west")

    at_a_desk(tell)


def test_whoever_waits_for_an_absent_member_is_told_why_and_let_go() -> None:
    async def tell(desk: Desk) -> None:
        await train(desk)
        desk.world.cut("east")
        await desk.world.until(lambda: condition(desk.world, "east", "Ready")[0] == "Unknown", timeout=90, what="silent")
        assert await desk.drain("east", seconds=20.0) == TIMED_OUT
        assert "MemberAbsent" in desk.out.getvalue()
        assert "the hub goes on with it" in desk.err.getvalue()
        desk.world.heal("east")
        await desk.world.until(lambda: home(desk.world, "train") == "west", timeout=120, what="it is drained after all")

    at_a_desk(tell)


def test_only_a_silent_member_is_declared_lost() -> None:
    async def tell(desk: Desk) -> None:
        await train(desk)
        assert await desk.declare("east") == REFUSED
        assert "is heard from" in desk.err.getvalue()
        desk.world.lose("east")
        await desk.world.until(lambda: condition(desk.world, "east", "Ready")[0] == "Unknown", timeout=90, what="silent")
        assert await desk.declare("east") == OK
        assert "they run twice" in desk.asked[0]
        await desk.world.until(lambda: running(desk.world, "train") == 2, timeout=60, what="it runs in the west")
        record = binding_run(desk.world, "train")
        assert record is not None
        assert [past.ground for past in record.past] == [Ground.DECLARED]
        assert "Lost" in await desk.get("east")

    at_a_desk(tell)


def test_unjoining_an_absent_member_is_the_word_that_it_is_lost() -> None:
    async def tell(desk: Desk) -> None:
        await train(desk)
        desk.world.lose("east")
        await desk.world.until(lambda: condition(desk.world, "east", "Ready")[0] == "Unknown", timeout=90, what="silent")
        assert await desk.unjoin("east") == OK
        assert "is your word that they do not" in desk.asked[0]
        assert desk.world.get(kinds.CLUSTER, "east") is None
        assert (await desk.get()).splitlines()[1].split()[0] == "west"

    at_a_desk(tell)


def test_a_watch_tells_changes_alone() -> None:
    async def tell(desk: Desk) -> None:
        watching = asyncio.create_task(
            clusters.get(desk.place, [], output="table", labels="", watch=True, clock=desk.world.clock)
        )
        await desk.world.advance(5.0)
        first = len(desk.out.getvalue().splitlines())
        await clusters.cordon(Desk(desk.world).place, ["west"], value=True)
        await desk.world.advance(30.0)
        watching.cancel()
        told = desk.out.getvalue().splitlines()[first:]
        assert [line.split()[:3] for line in told] == [["west", "Pull", "Ready,Cordoned"]]

    at_a_desk(tell)


def test_ages_are_short() -> None:
    from fedctl.cluster_table import age

    now = datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC)
    assert [age(each, now) for each in ("2026-01-01T00:00:00Z", "2026-01-02T21:00:00Z", "")] == ["2d", "3h", "-"]
