"""Server-side apply."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from tests.contract.story import CONFIGMAP, POD, Doc, Story, job_spec, pod_spec, read, version


async def apply(
    story: Story,
    kind: kinds.Kind,
    name: str,
    /,
    *,
    manager: str = "one",
    force: bool = False,
    subresource: str | None = None,
    **body: Any,
) -> Doc:
    full = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **body.pop("metadata", {})}, **body}
    document = await story.port.patch(
        kind,
        name,
        full,
        type=PatchType.APPLY,
        namespace=story.namespace,
        subresource=subresource,
        field_manager=manager,
        force=force,
    )
    return read(document)


async def test_apply_creates_what_is_not_there(story: Story) -> None:
    made = await apply(story, CONFIGMAP, "a", data={"x": "1"})
    assert made["data"] == {"x": "1"}
    assert await story.exists(CONFIGMAP, "a")


async def test_applying_the_same_again_changes_nothing(story: Story) -> None:
    made = await apply(story, CONFIGMAP, "a", data={"x": "1"})
    assert version(await apply(story, CONFIGMAP, "a", data={"x": "1"})) == version(made)


async def test_a_field_no_longer_applied_goes(story: Story) -> None:
    await apply(story, CONFIGMAP, "a", data={"x": "1", "y": "2"}, metadata={"labels": {"l": "v"}})
    after = await apply(story, CONFIGMAP, "a", data={"y": "2"})
    assert after["data"] == {"y": "2"}
    assert "labels" not in after["metadata"]


async def test_managers_keep_to_their_fields(story: Story) -> None:
    await apply(story, CONFIGMAP, "a", data={"x": "1"})
    after = await apply(story, CONFIGMAP, "a", manager="two", data={"y": "2"})
    assert after["data"] == {"x": "1", "y": "2"}
    after = await apply(story, CONFIGMAP, "a", data={"z": "3"})
    assert after["data"] == {"y": "2", "z": "3"}


async def test_another_managers_value_is_a_conflict_until_forced(story: Story) -> None:
    await apply(story, CONFIGMAP, "a", data={"x": "1"})
    with pytest.raises(errors.Conflict):
        await apply(story, CONFIGMAP, "a", manager="two", data={"x": "2"})
    forced = await apply(story, CONFIGMAP, "a", manager="two", force=True, data={"x": "2"})
    assert forced["data"] == {"x": "2"}
    with pytest.raises(errors.Conflict):
        await apply(story, CONFIGMAP, "a", data={"x": "1"})


async def test_the_same_value_is_shared(story: Story) -> None:
    await apply(story, CONFIGMAP, "a", data={"x": "1"})
    await apply(story, CONFIGMAP, "a", manager="two", data={"x": "1"})
    after = await apply(story, CONFIGMAP, "a", data={"y": "1"})
    assert after["data"] == {"x": "1", "y": "1"}


async def test_a_plain_write_takes_the_field_over(story: Story) -> None:
    made = await apply(story, CONFIGMAP, "a", data={"x": "1"})
    await story.put(CONFIGMAP, {**made, "data": {"x": "2"}})
    with pytest.raises(errors.Conflict):
        await apply(story, CONFIGMAP, "a", data={"x": "1"})


async def test_what_was_created_plainly_is_owned_by_its_creator(story: Story) -> None:
    await story.create(CONFIGMAP, "a", data={"x": "1"})
    with pytest.raises(errors.Conflict):
        await apply(story, CONFIGMAP, "a", data={"x": "2"})
    after = await apply(story, CONFIGMAP, "a", data={"y": "2"})
    assert after["data"] == {"x": "1", "y": "2"}


async def test_apply_may_insist_on_a_version(story: Story) -> None:
    made = await apply(story, CONFIGMAP, "a", data={"x": "1"})
    await apply(story, CONFIGMAP, "a", data={"x": "2"})
    with pytest.raises(errors.Conflict):
        await apply(story, CONFIGMAP, "a", metadata={"resourceVersion": version(made)}, data={"x": "3"})


async def test_conditions_are_kept_apart_by_type(story: Story) -> None:
    await story.create(POD, "a", spec=pod_spec())
    mine = {"conditions": [{"type": "example.com/one", "status": "True"}]}
    theirs = {"conditions": [{"type": "example.com/two", "status": "False"}]}
    await apply(story, POD, "a", subresource="status", status=mine)
    after = await apply(story, POD, "a", manager="two", subresource="status", status=theirs)
    found = {c["type"]: c["status"] for c in after["status"]["conditions"]}
    assert {"example.com/one": "True", "example.com/two": "False"}.items() <= found.items()
    after = await apply(story, POD, "a", manager="two", subresource="status", status={})
    assert "example.com/two" not in {c["type"] for c in after["status"]["conditions"]}
    assert "example.com/one" in {c["type"] for c in after["status"]["conditions"]}


async def test_applying_status_leaves_the_spec(story: Story) -> None:
    await apply(story, kinds.JOB, "a", spec=job_spec(priorityClassName="a"))
    after = await apply(story, kinds.JOB, "a", manager="two", subresource="status", status={"running": 2})
    assert after["status"]["running"] == 2
    assert after["spec"]["priorityClassName"] == "a"
    again = await apply(story, kinds.JOB, "a", spec=job_spec(priorityClassName="b"))
    assert (again["spec"]["priorityClassName"], again["status"]["running"]) == ("b", 2)


async def test_apply_needs_a_manager(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await apply(story, CONFIGMAP, "a", manager="", data={})
