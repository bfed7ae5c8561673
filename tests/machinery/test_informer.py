"""Informers keep a store that is never emptier than the world because a read failed."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest

from apis.kinds import CONFIGMAP, POD
from machinery.clock import Chance
from machinery.errors import Expired, Forbidden, Invalid, ServerFailed, Throttled, Unreachable
from machinery.informer import AT_ONCE, Change, Informer, Informers, is_newer
from machinery.port import EventType
from tests.machinery.fakes import FakePort, LoopClock, Thing, expired, project

pytestmark = pytest.mark.looptime


class Story:
    """An informer and what its handlers were told."""

    def __init__(self, port: FakePort, *, page_size: int = 500, streaming: bool = False) -> None:
        self.port = port
        self.informer: Informer[Thing] = Informer(
            port, POD, project, clock=LoopClock(), chance=Chance(1), page_size=page_size, streaming=streaming
        )
        self.told: list[str] = []
        self.informer.subscribe(self._hear)

    def _hear(self, change: Change[Thing]) -> None:
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.told.append(f"{sign}{change.key[1]}")

    def names(self) -> list[str]:
        return [thing.name for thing in self.informer.sorted()]

    async def settle(self, seconds: float = 0.2) -> None:
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def running(run: Callable[[], object]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())  # type: ignore[call-overload]
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def port() -> FakePort:
    port = FakePort()
    port.put(POD, "a", namespace="n", size=1)
    port.put(POD, "b", namespace="n", size=2)
    return port


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_store_follows_the_server(port: FakePort, streaming: bool) -> None:
    story = Story(port, streaming=streaming)
    assert not story.informer.synced
    async with running(story.informer.run):
        await story.informer.wait_synced()
        assert story.told == ["+a", "+b"]
        await story.settle()
        port.put(POD, "c", namespace="n")
        port.put(POD, "a", namespace="n", size=7)
        port.drop(POD, "b", namespace="n")
        await story.settle()
        assert story.told == ["+a", "+b", "+c", "~a", "-b"]
        assert story.names() == ["a", "c"]
        found = story.informer.get("n", "a")
        assert found is not None
        assert found.size == 7
        assert story.informer.reached == str(port.version)
    assert port.count("list") == (0 if streaming else 1)


async def test_bookmarks_advance_what_the_watch_has_reached(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        port.bookmark()
        await story.settle()
        assert story.informer.reached == str(port.version)
        port.break_watches()
        await story.settle(60)
        assert port.calls[-1] == ("watch", "Pod", str(port.version))
        assert port.count("list") == 1


async def test_a_list_is_read_page_by_page(port: FakePort) -> None:
    for index in range(9):
        port.put(POD, f"p{index}", namespace="n")
    story = Story(port, page_size=4)
    async with running(story.informer.run):
        await story.informer.wait_synced()
        assert len(story.informer) == 11
        assert port.count("list") == 3


async def test_a_page_token_that_expired_starts_the_list_over(port: FakePort) -> None:
    story = Story(port, page_size=1)

    port.fail("list", None, expired())
    async with running(story.informer.run):
        await story.informer.wait_synced()
        assert story.names() == ["a", "b"]
        assert port.count("list") == 4


async def test_an_expired_watch_lists_again_and_tells_only_the_difference(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        story.told.clear()
        kept = story.informer.get("n", "a")
        port.drop(POD, "b", namespace="n", silent=True)
        port.put(POD, "c", namespace="n", silent=True)
        port.break_watches(expired())
        await story.settle()
        assert story.told == ["-b", "+c"]
        assert story.informer.get("n", "a") is kept


async def test_a_name_taken_over_while_nobody_watched_is_an_end_and_a_beginning(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        story.told.clear()
        port.put(POD, "a", namespace="n", uid="another", silent=True)
        port.break_watches(expired())
        await story.settle()
        assert story.told == ["-a", "+a"]


@pytest.mark.parametrize("error", [Unreachable("reset"), ServerFailed("no", code=500), Forbidden("not now", code=403)])
async def test_a_failed_read_never_looks_like_an_empty_list(port: FakePort, error: Exception) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        assert isinstance(error, Unreachable | ServerFailed | Forbidden)
        port.fail("list", *[error] * 5)
        port.break_watches(expired())
        await story.settle(5)
        assert story.names() == ["a", "b"]
        await story.settle(300)
        assert story.told == ["+a", "+b"]
        assert port.count("list") == 7


async def test_failures_are_tried_again_ever_more_slowly(port: FakePort) -> None:
    story = Story(port)
    port.fail("list", *[Unreachable("refused")] * 100)
    async with running(story.informer.run):
        await story.settle(600)
        assert 20 < port.count("list") < 60


async def test_a_server_that_asks_for_time_gets_it(port: FakePort) -> None:
    story = Story(port)
    port.fail("list", Throttled("busy", code=429, retry_after=120))
    async with running(story.informer.run):
        await story.settle(119)
        assert port.count("list") == 1
        await story.settle(2)
        assert story.informer.synced


async def test_a_watch_that_ends_at_once_is_not_asked_in_a_loop(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        for _ in range(1000):
            await asyncio.sleep(0.01)
            port.break_watches()
        assert port.count("watch") < 20


async def test_an_unreadable_object_is_reported_and_the_others_are_kept(port: FakePort) -> None:
    port.put(POD, "b", namespace="n", size="many")
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        assert story.names() == ["a"]
        assert "Expected `int`" in story.informer.broken["n", "b"]
        port.put(POD, "a", namespace="n", size=[])
        port.put(POD, "c", namespace="n")
        await story.settle()
        assert story.names() == ["a", "c"]  # the last readable projection of a stays
        assert set(story.informer.broken) == {("n", "a"), ("n", "b")}
        assert story.informer.reached == str(port.version)
        port.break_watches(expired())
        await story.settle()
        assert story.names() == ["a", "c"]
        port.put(POD, "b", namespace="n", size=3)
        port.drop(POD, "a", namespace="n")
        await story.settle()
        assert story.names() == ["b", "c"]
        assert not story.informer.broken


async def test_an_event_that_names_no_object_makes_the_informer_list_again(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        port.drop(POD, "a", namespace="n", silent=True)
        port.emit(EventType.DELETED, b'{"metadata": 7}')
        await story.settle()
        assert story.names() == ["b"]


async def test_repeated_and_late_events_change_nothing(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        old = dict(port.objects[POD.name, "n", "a"])
        port.put(POD, "a", namespace="n", size=5)
        port.emit(EventType.MODIFIED, old)
        await story.settle()
        found = story.informer.get("n", "a")
        assert found is not None
        assert found.size == 5
        port.drop(POD, "a", namespace="n")
        port.emit(EventType.ADDED, old)
        await story.settle()
        assert story.names() == ["b"]
        port.put(POD, "a", namespace="n", size=6)
        port.emit(EventType.DELETED, old)
        await story.settle()
        assert story.names() == ["a", "b"]


async def test_a_late_subscriber_is_told_everything_there_is(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle()
        heard: list[Change[Thing]] = []
        story.informer.subscribe(heard.append)
        assert [change.key for change in heard] == [("n", "a"), ("n", "b")]


async def test_an_exception_in_a_handler_surfaces(port: FakePort) -> None:
    def broken(change: Change[Thing]) -> None:
        raise ZeroDivisionError("a bug")

    story = Story(port)
    story.informer.subscribe(broken)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(story.informer.run(), 10)


async def test_a_server_without_streaming_lists_is_read_in_pages(port: FakePort) -> None:
    story = Story(port, streaming=True)
    port.fail("watch", Invalid("sendInitialEvents is forbidden", code=422))
    async with running(story.informer.run):
        await story.informer.wait_synced()
        assert port.count("list") == 1
        assert story.names() == ["a", "b"]


async def test_a_hung_watch_is_given_up(port: FakePort) -> None:
    story = Story(port)
    async with running(story.informer.run):
        await story.settle(330)
        assert port.count("watch") == 2
        assert len(port.watchers) == 1


async def test_a_kind_is_watched_once_however_many_ask(port: FakePort) -> None:
    informers = Informers(port, LoopClock(), Chance(1))
    first = informers.add(POD, project)
    assert informers.add(POD, project) is first
    assert informers.add(POD, project, labels="a=b") is not first
    with pytest.raises(ValueError, match="pods is informed already"):
        informers.add(POD, lambda document: project(document))
    async with running(informers.run):
        await informers.wait_synced()
        late = informers.add(CONFIGMAP, project)
        await late.wait_synced()
        assert informers.synced
        assert port.count("list") == 3


async def test_a_bug_in_one_informer_ends_all_of_them_loudly(port: FakePort) -> None:
    def broken(change: Change[Thing]) -> None:
        raise ZeroDivisionError("a bug")

    informers = Informers(port, LoopClock(), Chance(1))
    informers.add(POD, project).subscribe(broken)
    informers.add(CONFIGMAP, project)
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(informers.run(), 10)
    assert caught.group_contains(ZeroDivisionError)
    assert not port.watchers


async def test_an_object_costs_its_projection_and_not_its_bytes() -> None:
    count = 2000
    port = FakePort()
    for index in range(count):
        port.put(POD, f"pod-{index:05}", namespace="n", size=index, spec={"filler": "x" * 4000})
    story = Story(port)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        story.told.clear()
        async with running(story.informer.run):
            await story.informer.wait_synced()
            story.told.clear()
            await story.settle()
            after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(story.informer) == count
    assert (after - before) / count < 700, "bytes per object"
    assert sys.getsizeof(story.informer.get("n", "pod-00000")) < 200


def test_versions_are_compared_as_numbers() -> None:
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert not is_newer("9", "9")
    assert is_newer("9", "")
    assert not is_newer("", "9")
    assert not issubclass(Unreachable, Expired)


async def test_a_long_list_is_handed_on_in_slices_so_that_others_get_their_turn(port: FakePort) -> None:
    for number in range(3 * AT_ONCE):
        port.put(POD, f"p{number}", namespace="n", size=1)
    story = Story(port)
    slices: list[int] = []

    async def others() -> None:
        """Note how much was told between two turns of theirs."""
        seen = 0
        while not story.informer.synced:
            slices.append(len(story.told) - seen)
            seen = len(story.told)
            await asyncio.sleep(0)
        slices.append(len(story.told) - seen)

    async with running(story.informer.run):
        await others()
        assert len(story.told) == len(story.informer)
        assert max(slices) == AT_ONCE
