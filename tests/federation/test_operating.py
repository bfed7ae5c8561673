"""What operators see of a hub: readiness and metrics."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from federation.app import run_hub
from federation.settings import HubSettings
from machinery.metering import MeteredPort
from machinery.metrics import Metrics
from machinery.readiness import Readiness
from tests.federation.world import World, job, story
from tests.support.metrics_page import unlisted


def start(world: World, *, metrics: Metrics | None = None) -> tuple[Readiness, asyncio.Task[None]]:
    """A hub as its command starts it."""
    readiness = Readiness()
    seen = metrics.server("hub") if metrics is not None else None
    port = MeteredPort(world.port, metrics=seen, clock=world.clock, keep_writes=False)
    hub = run_hub(
        port,
        clock=world.clock,
        chance=world.chance,
        ids=world.ids,
        settings=HubSettings(),
        metrics=metrics,
        readiness=readiness,
    )
    return readiness, world.tasks.create_task(hub)


def ready(readiness: Readiness) -> bool:
    return all(check() for check in readiness.checks.values())


def test_a_leader_and_its_standby_are_both_ready_and_the_standby_takes_over() -> None:
    async def tell(world: World) -> None:
        first, leading = start(world)
        assert not ready(first)
        await world.clock.sleep(5.0)
        second, _ = start(world)
        await world.clock.sleep(5.0)
        assert ready(first) and ready(second)
        leading.cancel()
        await world.clock.sleep(30.0)
        assert ready(second)
        world.member("east")
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")

    story(tell)


def test_metrics_show_requests_queues_reconciliations_and_informers() -> None:
    registry = CollectorRegistry()

    async def tell(world: World) -> None:
        start(world, metrics=Metrics(registry))
        world.member("east")
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")

    story(tell)
    assert unlisted(registry) == []
    text = generate_latest(registry).decode()
    for line in (
        'volcano_federation_api_requests_total{kind="works.work.karmada.io",outcome="ok",server="hub",verb="create"} 1.0',
        'volcano_federation_leading{lease="federation-hub"}',
        'volcano_federation_workqueue_depth{queue="collection"} 0.0',
        'volcano_federation_workqueue_wait_seconds_count{queue="dispatch"}',
        'volcano_federation_reconciliations_total{outcome="done",worker="clusters"}',
        'volcano_federation_informer_listed_objects{kind="jobs.batch.volcano.sh",server="hub"}',
        'volcano_federation_informer_events_total{kind="works.work.karmada.io",server="hub",type="ADDED"} 1.0',
    ):
        assert line in text, f"{line} is not in\n{text}"


def test_members_are_counted_by_how_they_are_and_by_nobody_who_does_not_lead() -> None:
    registry, said = CollectorRegistry(), 'volcano_federation_members{ready="%s"} %.1f'

    async def tell(world: World) -> None:
        _, leading = start(world, metrics=Metrics(registry))
        world.member("east")
        west = world.member("west")
        await world.clock.sleep(30.0)
        assert said % ("true", 2) in generate_latest(registry).decode()
        west.away = True
        await world.clock.sleep(120.0)
        shown = generate_latest(registry).decode()
        assert said % ("true", 1) in shown and said % ("unknown", 1) in shown
        leading.cancel()
        await world.clock.sleep(5.0)
        assert "volcano_federation_members{" not in generate_latest(registry).decode()

    story(tell)
