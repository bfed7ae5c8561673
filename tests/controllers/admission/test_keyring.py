"""Replicas that share their certificates in a Secret, on virtual time: one makes them, all show them, none is ever without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson

from apis import keys, kinds
from controllers.admission import certificates
from controllers.admission.certificates import Step
from controllers.admission.keyring import Keyring, read, written
from controllers.admission.settings import DAY, Lifetimes
from machinery.clock import Chance, Ids
from machinery.informer import Informers
from machinery.port import PatchType
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

LIVES = Lifetimes(authority=10 * DAY, serving=2 * DAY, settle=3600)
SPACE, NAME = keys.SYSTEM_NAMESPACE, "hooks"


class Stage:
    """An API server and replicas of the program."""

    def __init__(self, clock: SimClock, chance: Chance, ids: Ids) -> None:
        self.clock, self.chance = clock, chance
        self.server = ApiServer(clock, ids=ids, chance=chance)
        self.server.create(kinds.NAMESPACE, {"metadata": {"name": SPACE}})
        self.port = MemoryPort(self.server)
        self.writes = 0
        self.server.listeners.append(self._count)

    def _count(self, change: object) -> None:
        self.writes += 1

    def replica(self, group: asyncio.TaskGroup) -> Keyring:
        port = MemoryPort(self.server)
        informers = Informers(port, self.clock, self.chance)
        ring = Keyring(
            port, informers=informers, clock=self.clock, namespace=SPACE, name=NAME, names=("hooks.svc",), lives=LIVES
        )
        group.create_task(informers.run())
        group.create_task(ring.run())
        return ring

    def stored(self) -> certificates.Ring:
        ring = read(self.server.read(kinds.SECRET, NAME, namespace=SPACE).raw).ring
        assert ring is not None
        return ring


def play(story: Callable[[Stage, asyncio.TaskGroup], Awaitable[None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with asyncio.TaskGroup() as group:
            stage = Stage(clock, chance, ids)
            await story(stage, group)
            for task in [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]:
                task.cancel()

    run_virtual(main, seed=1)


def test_two_replicas_that_start_at_once_agree_on_one_ring() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        one, other = stage.replica(group), stage.replica(group)
        await one.wait_ready()
        await other.wait_ready()
        await stage.clock.sleep(5)
        assert one.bundle == other.bundle == stage.stored().bundle

    play(story)


def test_a_ring_grows_old_and_is_replaced_step_by_step_while_both_replicas_follow() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        one, other = stage.replica(group), stage.replica(group)
        await one.wait_ready()
        await other.wait_ready()
        first, bundles = stage.stored(), {one.bundle}
        await stage.clock.sleep(60)  # looks come a little after what is due
        for _ in range(20 * 24):
            await stage.clock.sleep(3600)
            ring, now = stage.stored(), stage.clock.now()
            assert one.bundle == other.bundle == ring.bundle
            assert certificates.due(ring, now=now, names=("hooks.svc",), lives=LIVES) is None
            bundles.add(ring.bundle)
        assert stage.stored().authority != first.authority
        assert len(bundles) >= 7, "each authority comes in three steps: told of, signing, alone"

    play(story)


def test_nothing_is_written_while_nothing_is_due() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        ring = stage.replica(group)
        await ring.wait_ready()
        before = stage.writes
        await stage.clock.sleep(DAY)
        assert stage.writes == before

    play(story)


def test_a_secret_that_is_deleted_comes_back_as_it_was() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        ring = stage.replica(group)
        await ring.wait_ready()
        before = stage.stored()
        await stage.port.delete(kinds.SECRET, NAME, namespace=SPACE)
        await stage.clock.sleep(5)
        assert stage.stored() == before

    play(story)


def test_a_secret_that_holds_nonsense_is_made_anew_and_listeners_are_told() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        ring = stage.replica(group)
        await ring.wait_ready()
        before, told = stage.stored(), []
        with ring.listening(lambda: told.append(ring.bundle)):
            await stage.port.patch(
                kinds.SECRET, NAME, {"data": {"ca.crt": "bm9uc2Vuc2U="}}, type=PatchType.MERGE, namespace=SPACE
            )
            await stage.clock.sleep(5)
        assert stage.stored().authority != before.authority
        assert told[-1] == stage.stored().bundle

    play(story)


def test_a_replica_that_comes_later_takes_what_is_there() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        first = stage.replica(group)
        await first.wait_ready()
        before = stage.writes
        second = stage.replica(group)
        await second.wait_ready()
        await stage.clock.sleep(5)
        assert second.bundle == first.bundle
        assert stage.writes == before

    play(story)


def test_the_ring_waits_for_the_namespace_it_is_kept_in() -> None:
    async def story(stage: Stage, group: asyncio.TaskGroup) -> None:
        await stage.port.delete(kinds.NAMESPACE, SPACE)
        await stage.clock.sleep(5)
        ring = stage.replica(group)
        await stage.clock.sleep(5)
        assert not ring.ready
        await stage.port.create(kinds.NAMESPACE, {"metadata": {"name": SPACE}})
        async with asyncio.timeout(10):
            await ring.wait_ready()

    play(story)


def test_a_ring_is_read_as_it_was_written() -> None:
    import datetime

    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    ring = certificates.take(Step.MAKE, ring=None, now=now, names=("a",), lives=LIVES)
    ready = certificates.take(Step.PREPARE, ring=ring, now=now, names=("a",), lives=LIVES)
    for each in (ring, ready, replace(ready, trusted=ring.authority.certificate)):
        secret = written(each, namespace=SPACE, name=NAME, version="7")
        secret["metadata"]["uid"] = "u"
        assert read(orjson.dumps(secret)).ring == each
