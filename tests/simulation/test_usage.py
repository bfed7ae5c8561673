"""What runs used is told by reports that an independent biller agrees with, and Jobs are placed by how long their like took."""

from __future__ import annotations

import pytest

from apis import keys, kinds
from simulator.nodes import uniform
from simulator.world import Doc, Member, World
from tests.support.biller import bill
from tests.support.stage import play
from tests.support.stories import job, phase, policy

PRICES = {"cpu": 3.0, "memory": 0.5}
ASKS = {"cpu": 2.0, "memory": 64 / 1024}


def offer(cluster: str, *, cpu: float, throughput: float = 1.0) -> Doc:
    one = {"name": "all", "prices": {"cpu": str(cpu), "memory": "0.5"}, "throughput": str(throughput)}
    kind = kinds.CLUSTER_OFFER
    spec = {"currency": "EUR", "classes": [one]}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": cluster}, "spec": spec}


def reports(world: World) -> list[Doc]:
    return sorted(world.all(kinds.USAGE_REPORT), key=lambda each: str(each["metadata"]["name"]))


def runs(world: World) -> int:
    return sum(each["status"]["runs"] for each in reports(world))


def test_an_independent_biller_agrees_with_the_reports_and_with_the_estimate() -> None:
    async def story(world: World) -> None:
        await world.apply(offer("east", cpu=3.0))
        names = [f"job-{number}" for number in range(6)]
        await world.apply(policy("east", jobs=names, clusters=["east"]))
        for number, name in enumerate(names):
            given = {f"{keys.GROUP}/estimated-duration": "10m"}
            await world.apply(job(name, pods=2, cpu=2, runs_for=600, annotations=given))
            await world.advance(1 + number)
        for name in names:
            await world.until(lambda name=name: phase(world, name) == "Completed", timeout=3000)  # type: ignore[misc]
        await world.until(lambda: runs(world) == 6, timeout=60)
        (report,) = reports(world)
        assert report["spec"]["cluster"] == "east" and report["spec"]["queue"] == "default"
        found = bill(world, cluster="east", asks={f"default/{name}": ASKS for name in names}, prices=PRICES)
        assert float(report["status"]["money"]) == pytest.approx(found.money, rel=0.02)
        for name, hours in found.hours.items():
            assert float(report["status"]["resourceHours"][name]) == pytest.approx(hours, rel=0.02)
        estimate = sum(2 * ASKS[name] * price * 600 / 3600 for name, price in PRICES.items()) * 6
        assert float(report["status"]["money"]) == pytest.approx(estimate, rel=0.02)
        assert report["status"]["currency"] == "EUR" and "unpriced" not in report["status"]

    play(story, pods={f"default/job-{number}": 2 for number in range(6)})


def test_a_hub_that_dies_counts_no_run_twice_and_forgets_none() -> None:
    async def story(world: World) -> None:
        names = [f"job-{number}" for number in range(5)]
        for name in names:
            await world.apply(job(name, runs_for=20))
            await world.advance(3)
        for _ in range(4):
            await world.advance(6)
            world.kill("hub")
        for name in names:
            await world.until(lambda name=name: phase(world, name) == "Completed", timeout=300)  # type: ignore[misc]
        await world.until(lambda: runs(world) == 5, timeout=60)
        world.kill("hub")
        await world.advance(60)
        assert runs(world) == 5

    play(story)


def test_what_is_stopped_is_paid_for_until_then() -> None:
    async def story(world: World) -> None:
        await world.apply(job("long", runs_for=None))
        await world.until(lambda: phase(world, "long") == "Running", timeout=60)
        await world.advance(100)
        await world.client().delete(kinds.JOB, "long", namespace="default")
        await world.until(lambda: runs(world) == 1, timeout=120)
        (report,) = reports(world)
        assert float(report["status"]["resourceHours"]["cpu"]) == pytest.approx(100 / 3600, rel=0.15)
        assert report["status"]["runTimes"] == []
        assert report["status"]["unpriced"] == ["offer"]

    play(story)


def test_how_long_equal_jobs_took_moves_the_next_one_to_where_that_is_cheaper() -> None:
    """Data is brought for money once, cores are paid by the hour: what takes long is cheaper where cores are."""

    async def story(world: World) -> None:
        await world.apply(offer("west", cpu=1.0))
        east = offer("east", cpu=2.0)
        east["spec"]["egress"] = [{"region": "us", "pricePerGiB": "0.1", "bandwidth": "1Gi"}]
        await world.apply(east)
        given = {f"{keys.GROUP}/profile": "cost-first", f"{keys.GROUP}/reads": "data@east=4Gi"}

        def home(name: str) -> str:
            return next((each.cluster for each in world.records.of_job(f"default/{name}")), "")

        await world.apply(job("first", cpu=1, runs_for=60, annotations=given))
        await world.until(lambda: phase(world, "first") == "Completed", timeout=300)
        assert home("first") == "west", "nobody knows how long it takes: an hour, at 1 less an hour"
        await world.until(lambda: runs(world) == 1, timeout=60)
        await world.apply(job("second", cpu=1, runs_for=60, annotations=given))
        await world.until(lambda: phase(world, "second") == "Completed", timeout=300)
        assert home("second") == "east", "a minute: bringing the data costs more than the cores"

    members = {
        "east": Member(nodes=uniform("east", 2, cpu=4), region="eu"),
        "west": Member(nodes=uniform("west", 2, cpu=4), region="us"),
    }
    play(story, members=members)
