"""Keeping the credential of a member young, and telling Prometheus how that goes."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from machinery.clock import Chance, Ids
from machinery.metrics import Metrics
from member_agent.joining.command import opened
from member_agent.joining.joiner import Joiner, NotJoined, Place
from member_agent.joining.renewal import AGAIN, LONGEST, keep_young
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual


class Fickle(Joiner):
    """The hub signs nothing at the second look, and everything at others."""

    looks = 0

    async def renew(self) -> float:
        self.looks += 1
        if self.looks == 2:
            raise NotJoined("nobody signs")
        return LONGEST


def test_a_renewal_that_fails_is_counted_and_tried_again_soon() -> None:
    registry = CollectorRegistry()

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        local = MemoryPort(ApiServer(clock, ids=ids, chance=chance))
        joiner = Fickle(local, clock=clock, cluster="east", place=Place("hub", "system"), opened=opened)
        keeping = asyncio.create_task(keep_young(joiner, clock=clock, metrics=Metrics(registry)))
        await clock.sleep(LONGEST + AGAIN + 1.0)
        assert joiner.looks == 3
        keeping.cancel()

    run_virtual(main, seed=1)
    shown = generate_latest(registry).decode()
    assert 'volcano_federation_credential_checks_total{outcome="ok"} 2.0' in shown
    assert 'volcano_federation_credential_checks_total{outcome="failed"} 1.0' in shown
