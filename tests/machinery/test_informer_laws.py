"""Whatever happens on the way, the store ends like the server, and the changes handed out add up to it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from apis.kinds import POD
from machinery.clock import Chance
from machinery.errors import ServerFailed, Unreachable
from machinery.informer import Change, Informer, Key
from machinery.port import EventType
from tests.machinery.fakes import FakePort, LoopClock, Thing, expired, project

pytestmark = pytest.mark.looptime


class Mirror:
    """What somebody who only listens to changes believes; complains about impossible ones."""

    def __init__(self) -> None:
        self.things: dict[Key, Thing] = {}

    def hear(self, change: Change[Thing]) -> None:
        assert self.things.get(change.key) == change.old
        assert change.old is None or change.new is None or change.old.uid == change.new.uid
        if change.new is None:
            del self.things[change.key]
        else:
            self.things[change.key] = change.new


def disturb(port: FakePort, chance: Chance) -> None:
    """One thing that may happen to a server or on the way to it."""
    name = f"p{chance.below(6)}"
    exists = (POD.name, "n", name) in port.objects
    silent = chance.below(8) == 0  # the event is lost, which only happens together with an expired watch
    match chance.below(9):
        case 0 | 1 | 2:
            port.put(POD, name, namespace="n", size=chance.below(100), silent=silent)
        case 3 | 4 if exists:
            port.drop(POD, name, namespace="n", silent=silent)
        case 5 if exists:
            port.emit(EventType.MODIFIED, dict(port.objects[POD.name, "n", name]))
        case 6:
            port.break_watches(expired())
        case 7:
            port.fail(
                ("list", "watch")[chance.below(2)], (Unreachable("reset"), ServerFailed("no"), expired())[chance.below(3)]
            )
        case _:
            port.bookmark()
    if silent:
        port.break_watches(expired())


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("seed", range(10))
async def test_the_store_ends_like_the_server(seed: int, streaming: bool) -> None:
    port, chance, mirror = FakePort(), Chance(seed), Mirror()
    informer: Informer[Thing] = Informer(
        port, POD, project, clock=LoopClock(), chance=Chance(seed), page_size=2, streaming=streaming
    )
    informer.subscribe(mirror.hear)
    task = asyncio.create_task(informer.run())
    for _ in range(60):
        disturb(port, chance)
        await asyncio.sleep(chance.uniform(0, 0.5))
    port.failures.clear()
    await asyncio.sleep(120)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    stored = {key[1:]: document["metadata"]["resourceVersion"] for key, document in port.objects.items()}
    assert {(thing.namespace, thing.name): thing.version for thing in informer.values()} == stored
    assert mirror.things == {(thing.namespace, thing.name): thing for thing in informer.values()}
    assert not port.watchers
