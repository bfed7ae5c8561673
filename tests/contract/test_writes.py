"""Creating, replacing, patching: versions, conflicts, identity."""

from __future__ import annotations

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from tests.contract.story import CONFIGMAP, LEASE, POD, Story, job_spec, pod_spec, read, version


async def test_a_new_object_gets_an_identity(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a", data={"x": "1"})
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert int(version(made)) > 0
    assert made["metadata"]["namespace"] == story.namespace
    assert made == await story.get(CONFIGMAP, "a")
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


async def test_versions_grow_over_kinds(story: Story) -> None:
    first = await story.create(CONFIGMAP, "a")
    second = await story.create(LEASE, "a", spec={})
    assert int(version(second)) > int(version(first))


async def test_a_taken_name_is_refused(story: Story) -> None:
    await story.create(CONFIGMAP, "a")
    with pytest.raises(errors.AlreadyExists):
        await story.create(CONFIGMAP, "a")


async def test_a_name_can_be_generated(story: Story) -> None:
    body = {"metadata": {"generateName": "run-"}}
    made = read(await story.port.create(CONFIGMAP, body, namespace=story.namespace))
    assert made["metadata"]["name"].startswith("run-")
    assert len(made["metadata"]["name"]) == len("run-") + 5


async def test_an_object_without_a_name_is_refused(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await story.port.create(CONFIGMAP, {"metadata": {}}, namespace=story.namespace)


async def test_a_name_that_is_no_dns_name_is_refused(story: Story) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(CONFIGMAP, "Not_A_Name")
    assert [cause.field for cause in refusal.value.causes] == ["metadata.name"]


async def test_a_label_that_is_too_long_is_refused(story: Story) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(CONFIGMAP, "a", metadata={"labels": {"app": "x" * 64}})
    assert [cause.field for cause in refusal.value.causes] == ["metadata.labels"]


async def test_a_namespace_that_does_not_exist_is_not_found(story: Story) -> None:
    with pytest.raises(errors.NotFound):
        await story.port.create(CONFIGMAP, {"metadata": {"name": "a"}}, namespace="nowhere-at-all")


async def test_the_namespace_in_the_body_must_be_the_one_asked_for(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await story.create(CONFIGMAP, "a", metadata={"namespace": "default"})


async def test_an_object_that_is_not_there_is_not_found(story: Story) -> None:
    with pytest.raises(errors.NotFound):
        await story.get(CONFIGMAP, "a")
    with pytest.raises(errors.NotFound):
        await story.port.delete(CONFIGMAP, "a", namespace=story.namespace)
    with pytest.raises(errors.NotFound):
        await story.port.patch(CONFIGMAP, "a", {}, type=PatchType.MERGE, namespace=story.namespace)


async def test_a_dry_run_leaves_nothing(story: Story) -> None:
    body = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    answer = read(await story.port.create(CONFIGMAP, body, namespace=story.namespace, dry_run=True))
    assert answer["data"] == {"x": "1"}
    assert not await story.exists(CONFIGMAP, "a")


async def test_the_second_writer_of_one_version_conflicts(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a", data={"x": "1"})
    changed = await story.put(CONFIGMAP, {**made, "data": {"x": "2"}})
    assert int(version(changed)) > int(version(made))
    with pytest.raises(errors.Conflict):
        await story.put(CONFIGMAP, {**made, "data": {"x": "3"}})
    assert (await story.get(CONFIGMAP, "a"))["data"] == {"x": "2"}


async def test_a_put_for_another_uid_conflicts(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a")
    made["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(errors.Conflict):
        await story.put(CONFIGMAP, made)


async def test_a_built_in_kind_takes_a_put_without_version(story: Story) -> None:
    await story.create(CONFIGMAP, "a", data={"x": "1"})
    changed = await story.put(CONFIGMAP, {"metadata": {"name": "a"}, "data": {"x": "2"}})
    assert changed["data"] == {"x": "2"}


@pytest.mark.parametrize("kind", [LEASE, kinds.JOB], ids=["lease", "job"])
async def test_leases_and_custom_kinds_refuse_a_put_without_version(story: Story, kind: kinds.Kind) -> None:
    spec = job_spec() if kind == kinds.JOB else {"holderIdentity": "me"}
    made = await story.create(kind, "a", spec=spec)
    del made["metadata"]["resourceVersion"]
    with pytest.raises(errors.Invalid) as refusal:
        await story.put(kind, made)
    assert [cause.field for cause in refusal.value.causes] == ["metadata.resourceVersion"]


async def test_a_put_on_nothing_is_not_found(story: Story) -> None:
    with pytest.raises(errors.NotFound):
        await story.put(CONFIGMAP, {"metadata": {"name": "a"}})


async def test_writing_the_same_again_changes_nothing(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a", data={"x": "1"})
    assert version(await story.put(CONFIGMAP, made)) == version(made)
    same = await story.port.patch(CONFIGMAP, "a", {"data": {"x": "1"}}, type=PatchType.MERGE, namespace=story.namespace)
    assert version(read(same)) == version(made)


async def test_a_merge_patch_merges_and_null_removes(story: Story) -> None:
    await story.create(CONFIGMAP, "a", data={"x": "1", "y": "2"})
    patch = {"data": {"x": None, "z": "3"}, "metadata": {"labels": {"l": "v"}}}
    patched = read(await story.port.patch(CONFIGMAP, "a", patch, type=PatchType.MERGE, namespace=story.namespace))
    assert patched["data"] == {"y": "2", "z": "3"}
    assert patched["metadata"]["labels"] == {"l": "v"}


async def test_a_patch_may_insist_on_a_version(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a", data={"x": "1"})
    await story.put(CONFIGMAP, {**made, "data": {"x": "2"}})
    patch = {"metadata": {"resourceVersion": version(made)}, "data": {"x": "3"}}
    with pytest.raises(errors.Conflict):
        await story.port.patch(CONFIGMAP, "a", patch, type=PatchType.MERGE, namespace=story.namespace)


async def test_a_json_patch_applies_all_or_nothing(story: Story) -> None:
    await story.create(CONFIGMAP, "a", data={"x": "1"})
    good = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
    patched = read(await story.port.patch(CONFIGMAP, "a", good, type=PatchType.JSON, namespace=story.namespace))
    assert patched["data"] == {"x": "2"}
    bad = [{"op": "replace", "path": "/data/x", "value": "9"}, {"op": "test", "path": "/data/x", "value": "1"}]
    with pytest.raises(errors.Invalid):
        await story.port.patch(CONFIGMAP, "a", bad, type=PatchType.JSON, namespace=story.namespace)
    assert (await story.get(CONFIGMAP, "a"))["data"] == {"x": "2"}


async def test_system_metadata_cannot_be_written(story: Story) -> None:
    made = await story.create(CONFIGMAP, "a")
    forged = {**made, "metadata": {**made["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"a": "b"}}}
    after = await story.put(CONFIGMAP, forged)
    assert after["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_a_pod_is_defaulted(story: Story) -> None:
    made = await story.create(POD, "a", spec=pod_spec())
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["status"]["phase"] == "Pending"


async def test_requests_default_to_limits(story: Story) -> None:
    container = {"name": "main", "image": "busybox:1", "resources": {"limits": {"cpu": "1"}}}
    made = await story.create(POD, "a", spec={"containers": [container]})
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        (pod_spec(restartPolicy="Sometimes"), "spec.restartPolicy"),
    ],
)
async def test_a_malformed_pod_is_refused_by_field(story: Story, spec: dict[str, object], field: str) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(POD, "a", spec=spec)
    assert field in [cause.field for cause in refusal.value.causes]


async def test_the_spec_of_a_pod_does_not_change(story: Story) -> None:
    made = await story.create(POD, "a", spec=pod_spec(restartPolicy="Never"))
    made["spec"]["restartPolicy"] = "Always"
    with pytest.raises(errors.Invalid):
        await story.put(POD, made)


async def test_an_owner_reference_must_be_complete(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await story.create(
            CONFIGMAP, "a", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": ""}]}
        )
