"""A real API server accepts our CRDs, serves upstream manifests as written, and refuses bad ones naming the field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from apis import crdgen, kinds
from apis.served import SERVED
from machinery.errors import ApiError, Invalid
from machinery.port import PatchType, Port
from tests.manifests import GOOD_JOB, Refusal, kind_of, refused, served

pytestmark = [pytest.mark.e2e]

MANAGER = "volcano-federation"


@pytest.fixture
async def hub(hub_port: Port) -> AsyncIterator[Port]:
    """An API server that serves our kinds."""
    for each in SERVED:
        await hub_port.patch(
            kinds.CRD, each.kind.name, crdgen.definition(each), type=PatchType.APPLY, field_manager=MANAGER, force=True
        )
    for each in SERVED:
        await established(hub_port, each.kind)
    yield hub_port


async def established(port: Port, kind: kinds.Kind) -> dict[str, str]:
    """Conditions of a CRD once it is served; gives up after 30 s."""
    conditions: dict[str, str] = {}
    for _ in range(300):
        document = json.loads(await port.get(kinds.CRD, kind.name))
        conditions = {each["type"]: each["status"] for each in document.get("status", {}).get("conditions", [])}
        if conditions.get("Established") == "True":
            return conditions
        await asyncio.sleep(0.1)
    raise AssertionError(f"{kind.name} is not served: {conditions}")


async def try_create(port: Port, manifest: dict[str, Any]) -> dict[str, Any]:
    """Create without storing; a kind served an instant ago may still be unknown to discovery."""
    kind = kind_of(manifest)
    for _ in range(50):
        try:
            answer = await port.create(kind, manifest, namespace=manifest["metadata"].get("namespace"), dry_run=True)
        except ApiError as error:
            if error.code != 404:
                raise
            await asyncio.sleep(0.1)
        else:
            return dict(json.loads(answer))
    raise AssertionError(f"{kind.name} is established and not served")


async def test_every_crd_is_accepted_and_structural(hub: Port) -> None:
    for each in SERVED:
        assert "NonStructuralSchema" not in await established(hub, each.kind)


async def test_upstream_manifests_are_served_as_they_were_written(hub: Port) -> None:
    for manifest in served():
        answer = await try_create(hub, manifest)
        assert {**answer, "metadata": None} == {**manifest, "metadata": None}


async def test_a_bare_job_gets_its_defaults(hub: Port) -> None:
    spec = {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "busybox"}]}}}]}
    answer = await try_create(hub, job("bare", spec))
    assert (answer["spec"]["queue"], answer["spec"]["maxRetry"]) == ("default", 3)


def job(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": meta, "spec": spec}


async def test_bad_manifests_are_refused_with_the_field(hub: Port) -> None:
    accepted = [str(each) for each in refused() if each.by_schema and not await is_refused(hub, each)]
    assert accepted == []


async def is_refused(port: Port, refusal: Refusal) -> bool:
    try:
        await try_create(port, refusal.manifest)
    except Invalid as error:
        causes = [(cause.field, cause.message) for cause in error.causes]
        assert any(field.startswith(refusal.field) and refusal.says in text for field, text in causes), (str(refusal), causes)
        return True
    return False


async def test_a_thousand_tasks_and_a_thousand_steps_are_accepted(hub: Port) -> None:
    task = GOOD_JOB["tasks"][0]
    await try_create(hub, job("wide", {"tasks": [{**task, "name": f"t{index}"} for index in range(1000)]}))
    layer = [[f"s{depth}-{index}" for index in range(100)] for depth in range(10)]
    flows = [
        {"name": name, "dependsOn": {"targets": layer[depth - 1]}} if depth else {"name": name}
        for depth in range(10)
        for name in layer[depth]
    ]
    meta = {"name": "deep", "namespace": "default"}
    await try_create(
        hub, {"apiVersion": kinds.JOB_FLOW.api_version, "kind": "JobFlow", "metadata": meta, "spec": {"flows": flows}}
    )


async def test_a_running_job_may_be_scaled_and_not_moved(hub: Port) -> None:
    await hub.create(kinds.JOB, job("grown", deepcopy(GOOD_JOB)), namespace="default")
    try:
        tasks = deepcopy(GOOD_JOB["tasks"])
        tasks[0]["replicas"] = 5
        await change(hub, {"tasks": tasks, "minAvailable": 4, "priorityClassName": "high"})
        for spec, says in (
            ({"queue": "other"}, "job updates may not change fields other than"),
            ({"plugins": {"svc": []}}, "job updates may not change fields other than"),
            ({"tasks": tasks[:1]}, "job updates may not add or remove tasks"),
            ({"minAvailable": 9}, "job 'minAvailable' should not be greater than total replicas"),
        ):
            with pytest.raises(Invalid, match=says):
                await change(hub, spec)
    finally:
        await hub.delete(kinds.JOB, "grown", namespace="default")


async def change(port: Port, spec: dict[str, Any]) -> None:
    await port.patch(kinds.JOB, "grown", {"spec": spec}, type=PatchType.MERGE, namespace="default")
