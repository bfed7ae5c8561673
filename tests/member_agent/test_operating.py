"""What operators see of a member's programs: readiness and metrics."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from machinery.clock import Chance, Ids
from machinery.metering import MeteredPort
from machinery.metrics import Metrics
from machinery.readiness import Readiness
from member_agent.app import heartbeat_of, run_agent, run_fencer
from member_agent.settings import AgentSettings, FencerSettings
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs
from simulator.world import Member, World
from tests.member_agent.world import EAST, Stage, job
from tests.support.metrics_page import unlisted


def test_an_agent_is_ready_with_its_informers_a_fencer_with_its_renewals_and_metrics_name_both_servers() -> None:
    registry, readiness = CollectorRegistry(), Readiness()
    metrics = Metrics(registry)
    settings = FencerSettings(cluster=EAST)
    heartbeat = heartbeat_of(settings)

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with World(5, members={EAST: Member(nodes=uniform("node", 2))}, programs=Programs()) as world:
            hub = MeteredPort(world.client(), metrics=metrics.server("hub"), clock=clock, keep_writes=False)
            local = MeteredPort(world.client(EAST), metrics=metrics.server("member"), clock=clock, keep_writes=False)
            agent = run_agent(
                hub,
                local,
                clock=clock,
                chance=chance,
                ids=ids,
                settings=AgentSettings(cluster=EAST),
                metrics=metrics,
                readiness=readiness,
            )
            fencer = run_fencer(hub, local, clock=clock, chance=chance, ids=ids, settings=settings, heartbeat=heartbeat)
            tasks = [asyncio.create_task(agent), asyncio.create_task(fencer)]
            assert not all(check() for check in readiness.checks.values())
            stage = Stage(world)
            await world.advance(5)
            assert not heartbeat.alive(now=clock.boot())  # the hub has not made the Lease yet
            await stage.register()
            work = await stage.grant(job("train", command="sleep 1"))
            await stage.until(lambda: stage.reported(work) == "Completed")
            assert all(check() for check in readiness.checks.values())
            assert heartbeat.alive(now=clock.boot())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main, seed=5)
    assert unlisted(registry) == []
    text = generate_latest(registry).decode()
    for line in (
        'volcano_federation_api_requests_total{kind="pods",outcome="ok",server="member",verb="create"} 2.0',
        'volcano_federation_api_requests_total{kind="works.work.karmada.io/status",outcome="ok",server="hub",verb="patch"}',
        'volcano_federation_workqueue_depth{queue="works"} 0.0',
        'volcano_federation_reconciliations_total{outcome="done",worker="scheduling"}',
        'volcano_federation_informer_listed_objects{kind="nodes",server="member"}',
        'volcano_federation_informer_listed_objects{kind="works.work.karmada.io",server="hub"}',
    ):
        assert line in text, f"{line} is not in\n{text}"
