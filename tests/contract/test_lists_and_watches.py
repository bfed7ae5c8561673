"""Lists, pages, selectors, watches."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from apis import kinds
from machinery import errors
from machinery.port import EventType
from tests.contract.story import CONFIGMAP, LEASE, POD, Story, job_spec, pod_spec, read, told, version


async def test_lists_are_in_order_of_name(story: Story) -> None:
    for name in ("b", "a-z", "c", "a"):
        await story.create(CONFIGMAP, name)
    assert [n for n in await story.names(CONFIGMAP) if n != "kube-root-ca.crt"] == ["a", "a-z", "b", "c"]


async def test_an_empty_list_has_a_version(story: Story) -> None:
    page = await story.port.list(LEASE, namespace=story.namespace)
    assert list(page.items) == []
    assert int(page.resource_version) > 0
    assert page.continue_token == ""


async def test_pages_show_one_instant(story: Story) -> None:
    for index in range(5):
        await story.create(LEASE, f"l{index}")
    first = await story.port.list(LEASE, namespace=story.namespace, limit=2)
    await story.create(LEASE, "l25")
    await story.port.delete(LEASE, "l3", namespace=story.namespace)
    second = await story.port.list(LEASE, namespace=story.namespace, limit=2, continue_token=first.continue_token)
    third = await story.port.list(LEASE, namespace=story.namespace, limit=2, continue_token=second.continue_token)
    names = [read(item)["metadata"]["name"] for page in (first, second, third) for item in page.items]
    assert names == ["l0", "l1", "l2", "l3", "l4"]
    assert third.continue_token == ""
    assert first.resource_version == second.resource_version == third.resource_version


async def test_a_token_that_cannot_be_read_is_refused(story: Story) -> None:
    with pytest.raises((errors.Invalid, errors.Expired)):
        await story.port.list(LEASE, namespace=story.namespace, limit=2, continue_token="nonsense")


async def test_selectors_by_label(story: Story) -> None:
    await story.create(LEASE, "a", metadata={"labels": {"app": "x", "tier": "1"}})
    await story.create(LEASE, "b", metadata={"labels": {"app": "y"}})
    await story.create(LEASE, "c")
    for selector, names in {
        "app=x": ["a"],
        "app==y": ["b"],
        "app!=x": ["b", "c"],
        "app in (x, y)": ["a", "b"],
        "app notin (x)": ["b", "c"],
        "app": ["a", "b"],
        "!app": ["c"],
        "app=x,tier=1": ["a"],
        "app=x,tier=2": [],
    }.items():
        assert await story.names(LEASE, labels=selector) == names, selector
    with pytest.raises(errors.Invalid):
        await story.names(LEASE, labels="app=(")


async def test_selectors_by_field(story: Story) -> None:
    await story.create(POD, "a", spec=pod_spec())
    await story.create(POD, "b", spec=pod_spec())
    await story.port.bind("b", namespace=story.namespace, node="n1")
    assert await story.names(POD, fields="spec.nodeName=n1") == ["b"]
    assert await story.names(POD, fields="spec.nodeName=") == ["a"]
    assert await story.names(POD, fields="spec.nodeName!=n1") == ["a"]
    assert await story.names(POD, fields="metadata.name=a,status.phase=Pending") == ["a"]
    with pytest.raises(errors.Invalid):
        await story.names(POD, fields="spec.priority=1")
    with pytest.raises(errors.Invalid):
        await story.names(kinds.JOB, fields="spec.queue=q")


async def test_a_watch_tells_what_happened_after_its_version(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    made = await story.create(LEASE, "a", spec={"holderIdentity": "x"})
    await story.put(LEASE, {**made, "spec": {"holderIdentity": "y"}})
    await story.port.delete(LEASE, "a", namespace=story.namespace)
    events = await story.events(LEASE, 3, resource_version=start)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(version(read(event.document))) for event in events]
    assert versions == sorted(set(versions))


async def test_a_watch_from_an_objects_version_starts_after_it(story: Story) -> None:
    first = await story.create(LEASE, "a")
    await story.create(LEASE, "b")
    assert told(await story.events(LEASE, 1, resource_version=version(first))) == [("ADDED", "b")]


async def test_a_watch_waits_for_what_comes(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(story.events(LEASE, 1, resource_version=start))
        await asyncio.sleep(0.2)
        await story.create(LEASE, "a")
    assert told(waiting.result()) == [("ADDED", "a")]


async def test_a_watch_without_version_begins_with_what_is_there(story: Story) -> None:
    await story.create(LEASE, "a")
    await story.create(LEASE, "b")
    assert sorted(told(await story.events(LEASE, 2))) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_sees_objects_enter_and_leave_its_selector(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    made = await story.create(LEASE, "a")
    entered = await story.put(LEASE, {**made, "metadata": {**made["metadata"], "labels": {"app": "x"}}})
    left = await story.put(LEASE, {**entered, "metadata": {**entered["metadata"], "labels": {"app": "y"}}})
    events = await story.events(LEASE, 2, resource_version=start, labels="app=x")
    assert told(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert version(read(events[1].document)) == version(left)
    assert read(events[1].document)["metadata"]["labels"] == {"app": "x"}


async def test_a_streaming_list_ends_with_a_bookmark(story: Story) -> None:
    await story.create(LEASE, "a")
    await story.create(LEASE, "b")
    seen: list[str] = []
    async with asyncio.timeout(30), aclosing(story.port.watch(LEASE, namespace=story.namespace, send_initial=True)) as watch:  # type: ignore[type-var]
        async for event in watch:
            if event.type is EventType.BOOKMARK:
                assert event.initial_end
                bookmark = int(version(read(event.document)))
                break
            assert event.type is EventType.ADDED
            seen.append(read(event.document)["metadata"]["name"])
    assert sorted(seen) == ["a", "b"]
    assert bookmark >= int(version(await story.get(LEASE, "b")))


async def test_a_watch_ends_when_its_time_is_up(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    async with asyncio.timeout(30):
        async for event in story.port.watch(LEASE, namespace=story.namespace, resource_version=start, timeout=1):
            assert event.type is EventType.BOOKMARK


async def test_a_watch_of_all_namespaces_hears_of_this_one(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    await story.create(LEASE, "a")
    async with asyncio.timeout(30), aclosing(story.port.watch(LEASE, resource_version=start)) as watch:  # type: ignore[type-var]
        async for event in watch:
            if read(event.document)["metadata"].get("namespace") == story.namespace:
                break


async def test_a_watch_can_keep_to_one_name(story: Story) -> None:
    start = (await story.port.list(LEASE, namespace=story.namespace)).resource_version
    await story.create(LEASE, "a")
    await story.create(LEASE, "b")
    assert told(await story.events(LEASE, 1, resource_version=start, fields="metadata.name=b")) == [("ADDED", "b")]


async def test_the_last_state_of_a_finalized_object_is_told(story: Story) -> None:
    await story.create(kinds.JOB, "a", metadata={"finalizers": ["volcano-federation.io/test"]}, spec=job_spec())
    await story.port.delete(kinds.JOB, "a", namespace=story.namespace)
    marked = await story.get(kinds.JOB, "a")
    await story.put(kinds.JOB, {**marked, "metadata": {**marked["metadata"], "finalizers": []}})
    events = await story.events(kinds.JOB, 1, resource_version=version(marked))
    assert told(events) == [("DELETED", "a")]
    assert int(version(read(events[0].document))) > int(version(marked))
