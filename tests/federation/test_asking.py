"""Work of which only members can tell whether it fits, and work that fits nowhere: whom the hub asks, about what, how often."""

from __future__ import annotations

import json

import pytest

from apis import kinds
from federation.dispatch.asking import LINGER, PATIENCE, lists
from machinery.port import PatchType
from policies.asked import MOST_SHAPES
from tests.federation.world import Tree, World, job, story


def apart(name: str, *, cpu: int | str = 1) -> Tree:
    """A gang of which the hub cannot tell where it fits."""
    made = job(name, cpu=cpu)
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made["spec"]["tasks"][0]["template"]["spec"]["affinity"] = affinity
    return made


async def asked(world: World, member: str) -> list[Tree]:
    tree = json.loads(await world.port.get(kinds.CLUSTER_CAPACITY, "member", namespace=f"karmada-es-{member}"))
    return list((tree.get("spec") or {}).get("shapes") or [])


async def version(world: World, member: str) -> int:
    """Of the spec: it grows with each list that is written."""
    tree = json.loads(await world.port.get(kinds.CLUSTER_CAPACITY, "member", namespace=f"karmada-es-{member}"))
    return int(tree["metadata"]["generation"])


def test_it_waits_for_the_answer_and_goes_where_the_scheduler_says_that_it_fits() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=64, scheduler=lambda shape: 0)
        world.member("west", cpus=8, scheduler=lambda shape: 1)
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.until_phase("train", "Running", within=10)
        assert [each["name"] for each in (await world.binding("train"))["spec"]["clusters"]] == ["west"]
        shape = (await asked(world, "west"))[0]
        assert (shape["queue"], shape["minimum"]) == ("default", 2)
        template = shape["requirements"]["tasks"][0]["template"]["spec"]
        assert template["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
        assert "podAffinity" in template["affinity"]

    story(tell)


def test_while_every_scheduler_says_no_it_waits_with_their_reasons_and_starts_when_one_says_yes() -> None:
    async def tell(world: World) -> None:
        world.hub()
        east = world.member("east", scheduler=lambda shape: 0)
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.clock.sleep(2 * PATIENCE)
        decision = json.loads((await world.binding("train"))["metadata"]["annotations"]["volcano-federation.io/verdicts"])
        assert [(each["code"], each["text"]) for each in decision["clusters"]] == [("NoRoom", "said the fake")]
        east.scheduler = lambda shape: 1
        await world.until_phase("train", "Running", within=10)

    story(tell)


def test_a_member_that_does_not_answer_is_asked_by_a_work_in_the_end() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", scheduler=lambda shape: None)
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.clock.sleep(PATIENCE / 2)
        assert not (await world.binding("train"))["spec"].get("clusters")
        await world.until_phase("train", "Running", within=PATIENCE)

    story(tell)


def test_where_nobody_answers_nobody_is_asked_and_the_refusal_is_the_answer_at_once() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.until_phase("train", "Running", within=5)
        assert await asked(world, "east") == []

    story(tell)


def test_no_more_gangs_are_sent_on_one_answer_than_it_says() -> None:
    async def tell(world: World) -> None:
        world.hub()
        east = world.member("east", cpus=64, seconds=1000)
        east.scheduler = lambda shape: max(2 - len(east.running), 0)
        await world.clock.sleep(5)
        for index in range(4):
            body = apart("train", cpu=1)
            body["metadata"]["name"] = f"train-{index}"
            await world.submit(body)
        await world.clock.sleep(30)
        assert len(east.running) == 2

    story(tell)


def test_work_that_fits_nowhere_is_asked_about_when_it_has_waited_a_little_and_seldom() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=4, scheduler=lambda shape: 0)
        await world.clock.sleep(5)
        before = await version(world, "east")
        for index in range(10):
            await world.submit(job(f"large-{index}", cpu=5 + index))
        await world.clock.sleep(1)
        assert await asked(world, "east") == []
        await world.clock.sleep(5)
        assert len(await asked(world, "east")) == 10
        await world.clock.sleep(120)
        assert await version(world, "east") - before <= 2
        for index in range(10):
            await world.port.delete(kinds.JOB, f"large-{index}", namespace="default")
        await world.clock.sleep(2 * LINGER)
        assert await asked(world, "east") == []

    story(tell)


def test_the_member_knows_better_what_its_rounded_rows_hide() -> None:
    """Two pods of 5 do not fit on what 8 + 8 are told to be free; the member's scheduler sees that they do."""

    async def tell(world: World) -> None:
        world.hub()
        east = world.member("east", cpus=4, nodes=2, scheduler=lambda shape: 1)
        await world.clock.sleep(5)
        await world.submit(job("train", cpu=5))
        await world.until_phase("train", "Running", within=15)
        assert east.running

    story(tell)


def test_a_list_that_somebody_empties_is_written_again() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", scheduler=lambda shape: 0)
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.clock.sleep(5)
        assert len(await asked(world, "east")) == 1
        nothing: Tree = {"spec": {"shapes": []}}
        await world.port.patch(kinds.CLUSTER_CAPACITY, "member", nothing, type=PatchType.MERGE, namespace="karmada-es-east")
        await world.clock.sleep(5)
        assert len(await asked(world, "east")) == 1

    story(tell)


def test_lists_hold_each_digest_once_and_the_first_ones() -> None:
    east, both = frozenset({"east"}), frozenset({"east", "west"})
    wishes = {("ns", f"j{index:03}"): (f"d{index // 2}", both if index % 4 else east) for index in range(300)}
    found = lists(wishes)
    assert [digest for _, digest in found["east"]] == [f"d{index}" for index in range(MOST_SHAPES)]
    assert found["east"][0] == (("ns", "j000"), "d0")
    assert found["west"][0] == (("ns", "j001"), "d0")


@pytest.mark.parametrize("wishes", [{}])
def test_without_wishes_there_are_no_lists(wishes: dict[tuple[str, str], tuple[str, frozenset[str]]]) -> None:
    assert lists(wishes) == {}


def test_jobs_that_are_alike_but_for_whom_they_want_beside_them_get_answers_of_their_own() -> None:
    def beside_db(shape: Tree) -> int:
        return int("db" in json.dumps(shape["requirements"]["tasks"]))

    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=64, scheduler=beside_db)
        await world.clock.sleep(5)
        await world.submit(apart("cache"))
        await world.submit(apart("db"))
        await world.until_phase("db", "Running", within=10)
        await world.clock.sleep(2 * PATIENCE)
        assert not (await world.binding("cache"))["spec"].get("clusters")

    story(tell)


def test_a_hub_that_takes_over_asks_again_and_places_what_was_answered() -> None:
    async def tell(world: World) -> None:
        first = world.hub()
        east = world.member("east", scheduler=lambda shape: 0)
        await world.clock.sleep(5)
        await world.submit(apart("train"))
        await world.clock.sleep(5)
        first.cancel()
        await world.clock.sleep(30)
        world.hub()
        await world.clock.sleep(15)
        east.scheduler = lambda shape: 1
        await world.until_phase("train", "Running", within=15)

    story(tell)
