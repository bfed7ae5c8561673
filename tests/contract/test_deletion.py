"""Deletion: finalizers, grace, preconditions, owners, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType, Preconditions, Propagation
from tests.contract.story import CONFIGMAP, NAMESPACE, POD, Story, job_spec, pod_spec, read, version

JOB = kinds.JOB
KEPT = ["volcano-federation.io/test"]


def owner(doc: dict[str, Any], *, blocks: bool = False) -> dict[str, Any]:
    metadata = doc["metadata"]
    reference = {"apiVersion": doc["apiVersion"], "kind": doc["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "blockOwnerDeletion": True} if blocks else reference


async def bound_pod(story: Story, name: str) -> dict[str, Any]:
    await story.create(POD, name, spec=pod_spec())
    await story.port.bind(name, namespace=story.namespace, node="no-such-node")
    return await story.get(POD, name)


async def test_deleting_removes_at_once(story: Story) -> None:
    await story.create(CONFIGMAP, "a")
    await story.port.delete(CONFIGMAP, "a", namespace=story.namespace)
    assert not await story.exists(CONFIGMAP, "a")


async def test_a_finalizer_keeps_the_object_until_it_is_taken_away(story: Story) -> None:
    await story.create(JOB, "a", metadata={"finalizers": KEPT}, spec=job_spec())
    await story.port.delete(JOB, "a", namespace=story.namespace)
    marked = await story.get(JOB, "a")
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["finalizers"] == KEPT
    await story.put(JOB, {**marked, "metadata": {**marked["metadata"], "finalizers": []}})
    assert not await story.exists(JOB, "a")


async def test_a_finalizer_can_be_taken_away_by_patch(story: Story) -> None:
    await story.create(JOB, "a", metadata={"finalizers": KEPT}, spec=job_spec())
    await story.port.delete(JOB, "a", namespace=story.namespace)
    patch = {"metadata": {"finalizers": None}}
    await story.port.patch(JOB, "a", patch, type=PatchType.MERGE, namespace=story.namespace)
    assert not await story.exists(JOB, "a")


async def test_marking_for_deletion_counts_as_a_generation(story: Story) -> None:
    made = await story.create(JOB, "a", metadata={"finalizers": KEPT}, spec=job_spec())
    await story.port.delete(JOB, "a", namespace=story.namespace)
    marked = await story.get(JOB, "a")
    assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
    await story.port.patch(JOB, "a", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=story.namespace)


async def test_deleting_twice_changes_nothing_more(story: Story) -> None:
    await story.create(JOB, "a", metadata={"finalizers": KEPT}, spec=job_spec())
    await story.port.delete(JOB, "a", namespace=story.namespace)
    once = await story.get(JOB, "a")
    await story.port.delete(JOB, "a", namespace=story.namespace)
    assert version(await story.get(JOB, "a")) == version(once)
    await story.port.patch(JOB, "a", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=story.namespace)


async def test_a_terminating_object_takes_changes_but_no_new_finalizer(story: Story) -> None:
    await story.create(JOB, "a", metadata={"finalizers": KEPT}, spec=job_spec())
    await story.port.delete(JOB, "a", namespace=story.namespace)
    marked = await story.get(JOB, "a")
    reported = await story.put(JOB, {**marked, "status": {"running": 1}}, subresource="status")
    assert reported["status"]["running"] == 1
    more = {**reported, "metadata": {**reported["metadata"], "finalizers": [*KEPT, "volcano-federation.io/late"]}}
    with pytest.raises(errors.Invalid):
        await story.put(JOB, more)
    with pytest.raises(errors.AlreadyExists):
        await story.create(JOB, "a", spec=job_spec())
    await story.port.patch(JOB, "a", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=story.namespace)


async def test_a_deletion_can_insist_on_uid_and_version(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a")
    other = Preconditions(uid="11111111-2222-3333-4444-555555555555")
    with pytest.raises(errors.Conflict):
        await story.port.delete(CONFIGMAP, "a", namespace=story.namespace, preconditions=other)
    changed = await story.put(CONFIGMAP, {**made, "data": {"x": "1"}})
    stale = Preconditions(resource_version=version(made))
    with pytest.raises(errors.Conflict):
        await story.port.delete(CONFIGMAP, "a", namespace=story.namespace, preconditions=stale)
    exact = Preconditions(uid=made["metadata"]["uid"], resource_version=version(changed))
    await story.port.delete(CONFIGMAP, "a", namespace=story.namespace, preconditions=exact)
    assert not await story.exists(CONFIGMAP, "a")


async def test_a_pod_without_node_goes_at_once(story: Story) -> None:
    await story.create(POD, "a", spec=pod_spec())
    await story.port.delete(POD, "a", namespace=story.namespace)
    assert not await story.exists(POD, "a")


async def test_a_bound_pod_stays_for_its_grace(story: Story) -> None:
    await bound_pod(story, "a")
    await story.port.delete(POD, "a", namespace=story.namespace)
    marked = await story.get(POD, "a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    await story.port.delete(POD, "a", namespace=story.namespace, grace_seconds=5)
    assert (await story.get(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await story.port.delete(POD, "a", namespace=story.namespace, grace_seconds=20)
    assert (await story.get(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await story.port.delete(POD, "a", namespace=story.namespace, grace_seconds=0)
    assert not await story.exists(POD, "a")


async def test_a_finished_pod_goes_at_once(story: Story) -> None:
    pod = await bound_pod(story, "a")
    pod["status"]["phase"] = "Succeeded"
    await story.put(POD, pod, subresource="status")
    await story.port.delete(POD, "a", namespace=story.namespace)
    assert not await story.exists(POD, "a")


async def test_a_finalizer_outlasts_the_grace_of_a_pod(story: Story) -> None:
    await story.create(POD, "a", metadata={"finalizers": KEPT}, spec=pod_spec())
    await story.port.bind("a", namespace=story.namespace, node="no-such-node")
    await story.port.delete(POD, "a", namespace=story.namespace)
    await story.port.delete(POD, "a", namespace=story.namespace, grace_seconds=0)
    marked = await story.get(POD, "a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    await story.port.patch(POD, "a", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=story.namespace)
    assert not await story.exists(POD, "a")


async def test_dependents_go_with_their_owner(story: Story) -> None:
    parent = await story.create(CONFIGMAP, "parent")
    await story.create(CONFIGMAP, "child", metadata={"ownerReferences": [owner(parent)]})
    await story.port.delete(CONFIGMAP, "parent", namespace=story.namespace, propagation=Propagation.BACKGROUND)
    assert not await story.exists(CONFIGMAP, "parent")

    async def gone() -> bool:
        return not await story.exists(CONFIGMAP, "child")

    await story.eventually(gone)


async def test_a_dependent_of_nobody_goes(story: Story) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}
    await story.create(CONFIGMAP, "child", metadata={"ownerReferences": [ghost]})

    async def gone() -> bool:
        return not await story.exists(CONFIGMAP, "child")

    await story.eventually(gone)


async def test_orphans_stay(story: Story) -> None:
    parent = await story.create(CONFIGMAP, "parent")
    await story.create(CONFIGMAP, "child", metadata={"ownerReferences": [owner(parent)]})
    await story.port.delete(CONFIGMAP, "parent", namespace=story.namespace, propagation=Propagation.ORPHAN)

    async def released() -> bool:
        child = await story.get(CONFIGMAP, "child")
        return not await story.exists(CONFIGMAP, "parent") and "ownerReferences" not in child["metadata"]

    await story.eventually(released)


async def test_foreground_deletion_waits_for_blocking_dependents(story: Story) -> None:
    parent = await story.create(CONFIGMAP, "parent")
    await story.create(CONFIGMAP, "child", metadata={"ownerReferences": [owner(parent, blocks=True)], "finalizers": KEPT})
    await story.port.delete(CONFIGMAP, "parent", namespace=story.namespace, propagation=Propagation.FOREGROUND)

    async def child_marked() -> bool:
        return bool((await story.get(CONFIGMAP, "child"))["metadata"].get("deletionTimestamp"))

    await story.eventually(child_marked)
    assert (await story.get(CONFIGMAP, "parent"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await story.port.patch(
        CONFIGMAP, "child", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=story.namespace
    )

    async def parent_gone() -> bool:
        return not await story.exists(CONFIGMAP, "parent")

    await story.eventually(parent_gone)


async def test_a_namespace_takes_everything_with_it(story: Story) -> None:
    fresh = read(await story.port.create(NAMESPACE, {"metadata": {"generateName": "contract-doomed-"}}))
    name = fresh["metadata"]["name"]
    assert fresh["status"]["phase"] == "Active"
    doomed = Story(story.port, name)
    await doomed.create(JOB, "kept", metadata={"finalizers": KEPT}, spec=job_spec())
    await doomed.create(CONFIGMAP, "a")
    await story.port.delete(NAMESPACE, name)

    async def only_kept_left() -> bool:
        return not await doomed.exists(CONFIGMAP, "a") and "deletionTimestamp" in (await doomed.get(JOB, "kept"))["metadata"]

    await story.eventually(only_kept_left)
    assert read(await story.port.get(NAMESPACE, name))["status"]["phase"] == "Terminating"
    with pytest.raises(errors.Forbidden):
        await doomed.create(CONFIGMAP, "late")
    await story.port.patch(JOB, "kept", {"metadata": {"finalizers": None}}, type=PatchType.MERGE, namespace=name)

    async def namespace_gone() -> bool:
        try:
            await story.port.get(NAMESPACE, name)
        except errors.NotFound:
            return True
        return False

    await story.eventually(namespace_gone, seconds=60)


async def test_a_pod_is_bound_once(story: Story) -> None:
    made = await story.create(POD, "a", spec=pod_spec())
    with pytest.raises(errors.Conflict):
        await story.port.bind("a", namespace=story.namespace, node="n1", uid="11111111-2222-3333-4444-555555555555")
    await story.port.bind("a", namespace=story.namespace, node="n1", uid=made["metadata"]["uid"])
    bound = await story.get(POD, "a")
    assert bound["spec"]["nodeName"] == "n1"
    assert {"PodScheduled": "True"}.items() <= {c["type"]: c["status"] for c in bound["status"]["conditions"]}.items()
    with pytest.raises(errors.Conflict):
        await story.port.bind("a", namespace=story.namespace, node="n2")
    with pytest.raises(errors.NotFound):
        await story.port.bind("b", namespace=story.namespace, node="n1")
