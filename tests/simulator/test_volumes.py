"""Claims bind at once, and pods wait for what they mount."""

from __future__ import annotations

import orjson
import pytest

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from tests.simulator.pool import Doc, Stage, container


def claim(name: str, **spec: str) -> Doc:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**asked, **spec}}


def mounting(name: str) -> list[Doc]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


async def phase_of(stage: Stage, name: str) -> str:
    try:
        return str(orjson.loads(await stage.port.get(kinds.CLAIM, name, namespace="default"))["status"]["phase"])
    except errors.NotFound:
        return ""


async def test_a_claim_is_bound_as_soon_as_it_is_there(stage: Stage) -> None:
    await stage.port.create(kinds.CLAIM, claim("data"), namespace="default")
    await stage.port.create(kinds.CLAIM, claim("never", storageClassName="missing"), namespace="default")
    await stage.clock.sleep(1)
    assert (await phase_of(stage, "data"), await phase_of(stage, "never")) == ("Bound", "Pending")


async def test_a_pod_waits_for_its_claim(stage: Stage) -> None:
    await stage.run("a", "sleep 5", volumes=mounting("data"))
    await stage.clock.sleep(30)
    assert await stage.phase("a") == "Pending"
    await stage.port.create(kinds.CLAIM, claim("data"), namespace="default")
    await stage.clock.sleep(4)
    assert await stage.phase("a") == "Running"


@pytest.mark.parametrize("kind", [kinds.CONFIGMAP, kinds.SECRET])
@pytest.mark.parametrize("by", ["volume", "variable"])
async def test_a_pod_waits_for_what_it_reads(stage: Stage, kind: Kind, by: str) -> None:
    source = {"configMap": {"name": "hosts"}} if kind == kinds.CONFIGMAP else {"secret": {"secretName": "hosts"}}
    reference = "configMapKeyRef" if kind == kinds.CONFIGMAP else "secretKeyRef"
    variable = {"name": "HOSTS", "valueFrom": {reference: {"name": "hosts", "key": "k"}}}
    if by == "volume":
        await stage.run("a", "sleep 5", volumes=[{"name": "v", **source}])
    else:
        await stage.run("a", "", containers=[container("main", "sleep 5", env=[variable])])
    await stage.clock.sleep(30)
    assert await stage.phase("a") == "Pending"
    await stage.port.create(kind, {"metadata": {"name": "hosts"}}, namespace="default")
    await stage.clock.sleep(4)
    assert await stage.phase("a") == "Running"


async def test_a_pod_that_waits_for_its_claim_can_be_deleted(stage: Stage) -> None:
    await stage.run("a", "sleep 5", volumes=mounting("data"))
    await stage.clock.sleep(10)
    await stage.port.delete(kinds.POD, "a", namespace="default")
    await stage.clock.sleep(3)
    assert await stage.phase("a") == ""


async def test_a_claim_in_use_is_let_go_when_its_last_pod_has_ended(stage: Stage) -> None:
    await stage.port.create(kinds.CLAIM, claim("data"), namespace="default")
    await stage.run("a", "sleep 20", volumes=mounting("data"))
    await stage.clock.sleep(3)
    await stage.port.delete(kinds.CLAIM, "data", namespace="default")
    await stage.clock.sleep(10)
    assert await phase_of(stage, "data") == "Bound"
    await stage.clock.sleep(15)
    assert await phase_of(stage, "data") == ""
    await stage.port.create(kinds.CLAIM, claim("data"), namespace="default")
    await stage.clock.sleep(1)
    assert await phase_of(stage, "data") == "Bound"
