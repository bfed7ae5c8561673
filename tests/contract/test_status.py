"""The status subresource and generation."""

from __future__ import annotations

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from tests.contract.story import CONFIGMAP, LEASE, POD, Story, job_spec, pod_spec, read, version

JOB = kinds.JOB


async def test_status_given_at_creation_is_dropped(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec(), status={"running": 7})
    assert made.get("status", {}).get("running") is None


async def test_a_put_changes_everything_but_status(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec())
    after = await story.put(JOB, {**made, "spec": job_spec(priorityClassName="b"), "status": {"running": 7}})
    assert after["spec"]["priorityClassName"] == "b"
    assert after.get("status", {}).get("running") is None


async def test_a_status_put_changes_status_alone(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec(priorityClassName="a"))
    wanted = {**made, "spec": job_spec(priorityClassName="c"), "status": {"running": 7}}
    wanted["metadata"] = {**made["metadata"], "labels": {"l": "v"}}
    after = await story.put(JOB, wanted, subresource="status")
    assert after["status"]["running"] == 7
    assert after["spec"]["priorityClassName"] == "a"
    assert "labels" not in after["metadata"]


async def test_a_status_put_with_an_old_version_conflicts(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec())
    await story.put(JOB, {**made, "spec": job_spec(priorityClassName="b")})
    with pytest.raises(errors.Conflict):
        await story.put(JOB, {**made, "status": {"running": 1}}, subresource="status")


async def test_a_merge_patch_of_status_leaves_the_spec(story: Story) -> None:
    await story.create(JOB, "a", spec=job_spec(priorityClassName="a"))
    patch = {"spec": {"priorityClassName": "c"}, "status": {"running": 2}}
    after = read(await story.port.patch(JOB, "a", patch, type=PatchType.MERGE, namespace=story.namespace, subresource="status"))
    assert (after["spec"]["priorityClassName"], after["status"]["running"]) == ("a", 2)


async def test_generation_counts_changes_of_the_spec(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec(priorityClassName="a"))
    assert made["metadata"]["generation"] == 1
    labelled = await story.put(JOB, {**made, "metadata": {**made["metadata"], "labels": {"l": "v"}}})
    assert labelled["metadata"]["generation"] == 1
    reported = await story.put(JOB, {**labelled, "status": {"running": 1}}, subresource="status")
    assert reported["metadata"]["generation"] == 1
    changed = await story.put(JOB, {**reported, "spec": job_spec(priorityClassName="b")})
    assert changed["metadata"]["generation"] == 2
    assert changed["status"]["running"] == 1


async def test_the_same_status_again_changes_nothing(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec())
    once = await story.put(JOB, {**made, "status": {"running": 1}}, subresource="status")
    again = await story.put(JOB, once, subresource="status")
    assert version(again) == version(once)


async def test_a_pod_group_has_no_status_subresource(story: Story) -> None:
    made = await story.create(kinds.POD_GROUP, "a", spec={"minMember": 1}, status={"phase": "Pending"})
    assert made["status"]["phase"] == "Pending"
    with pytest.raises(errors.NotFound):
        await story.put(kinds.POD_GROUP, made, subresource="status")


@pytest.mark.parametrize("kind", [CONFIGMAP, LEASE], ids=["configmap", "lease"])
async def test_kinds_without_status_subresource_say_so(story: Story, kind: kinds.Kind) -> None:
    made = await story.create(kind, "a")
    with pytest.raises(errors.NotFound):
        await story.put(kind, made, subresource="status")


async def test_a_pod_reports_through_status(story: Story) -> None:
    made = await story.create(POD, "a", spec=pod_spec())
    made["status"]["phase"] = "Running"
    assert (await story.put(POD, made))["status"]["phase"] == "Pending"
    assert (await story.put(POD, made, subresource="status"))["status"]["phase"] == "Running"
