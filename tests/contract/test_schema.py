"""What the definitions of our kinds default, prune and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from tests.contract.story import CONFIGMAP, LEASE, Story, job_spec, pod_spec, read

JOB, QUEUE, WORK = kinds.JOB, kinds.QUEUE, kinds.WORK


async def test_unknown_fields_are_pruned(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec(somethingElse=1), extra={"x": 1})
    assert "somethingElse" not in made["spec"]
    assert "extra" not in made


async def test_pod_templates_are_kept_as_they_are(story: Story) -> None:
    template = {"metadata": {"labels": {"l": "v"}}, "spec": pod_spec(restartPolicy="Never", fieldOfTheFuture={"x": 1})}
    made = await story.create(JOB, "a", spec=job_spec(tasks=[{"name": "main", "replicas": 1, "template": template}]))
    assert made["spec"]["tasks"][0]["template"] == template


async def test_manifests_in_a_work_are_kept_as_they_are(story: Story) -> None:
    manifest = {"apiVersion": "v1", "kind": "Anything", "metadata": {"name": "x", "odd": 1}, "spec": {"deep": [{"a": None}]}}
    made = await story.create(WORK, "a", spec={"workload": {"manifests": [manifest]}})
    assert made["spec"]["workload"]["manifests"] == [manifest]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"minAvailable": "many"}, "spec.minAvailable"),
        ({"tasks": [{"name": "main", "replicas": "two", "template": {"spec": pod_spec()}}]}, "spec.tasks[0].replicas"),
        ({"tasks": []}, "spec.tasks"),
        ({"minAvailable": 5}, "spec.minAvailable"),
    ],
)
async def test_a_malformed_job_is_refused_by_field(story: Story, change: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(JOB, "a", spec=job_spec(**change))
    assert field in [cause.field for cause in refusal.value.causes]


async def test_a_malformed_quantity_in_a_template_is_refused(story: Story) -> None:
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "lots"}}}
    tasks = [{"name": "main", "replicas": 1, "template": {"spec": {"containers": [container]}}}]
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(JOB, "a", spec=job_spec(tasks=tasks))
    assert refusal.value.causes[0].field.startswith("spec.tasks[0].template.spec.containers[0].resources.requests")


async def test_a_job_keeps_its_queue(story: Story) -> None:
    made = await story.create(JOB, "a", spec=job_spec(queue="default"))
    made["spec"]["queue"] = "other"
    with pytest.raises(errors.Invalid):
        await story.put(JOB, made)


async def test_a_lease_must_last(story: Story) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await story.create(LEASE, "a", spec={"leaseDurationSeconds": 0})
    assert [cause.field for cause in refusal.value.causes] == ["spec.leaseDurationSeconds"]


async def test_a_body_of_another_kind_is_refused(story: Story) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    with pytest.raises(errors.Invalid):
        await story.port.create(CONFIGMAP, body, namespace=story.namespace)


async def test_a_custom_object_must_say_what_it_is(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await story.port.create(JOB, {"metadata": {"name": "a"}, "spec": job_spec()}, namespace=story.namespace)


async def test_an_applied_object_must_say_what_it_is(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        body = {"metadata": {"name": "a"}}
        await story.port.patch(CONFIGMAP, "a", body, type=PatchType.APPLY, field_manager="one", namespace=story.namespace)


async def test_a_node_registers_with_its_status_and_is_tainted(story: Story) -> None:
    body = {"metadata": {"generateName": "contract-node-"}, "status": {"capacity": {"cpu": "2"}}}
    made = read(await story.port.create(kinds.NODE, body))
    await story.port.delete(kinds.NODE, made["metadata"]["name"])
    assert made["status"]["allocatable"] == {"cpu": "2"}
    assert {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"} in made["spec"]["taints"]


async def test_a_lease_is_created_by_put(story: Story) -> None:
    made = await story.put(LEASE, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    assert made["spec"]["holderIdentity"] == "me"


async def test_a_body_that_is_no_json_is_refused(story: Story) -> None:
    with pytest.raises(errors.Invalid):
        await story.port.create(CONFIGMAP, b"{nonsense", namespace=story.namespace)


async def test_discovery_names_our_kinds(story: Story) -> None:
    answer = await story.port.request("GET", "/apis/batch.volcano.sh/v1alpha1")
    assert b'"jobs"' in answer
    assert b'"gitVersion"' in await story.port.request("GET", "/version")
    with pytest.raises(errors.NotFound):
        await story.port.request("GET", "/apis/nobody.example/v1")
