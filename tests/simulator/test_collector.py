"""What an owner leaves behind is collected, whatever its kind; and every kind of ours is served."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import Propagation
from simulator.api import MemoryPort
from simulator.discovery import SERVED
from simulator.loop import SimClock

Doc = dict[str, Any]

MADE = (
    kinds.POD,
    kinds.POD_GROUP,
    kinds.SERVICE,
    kinds.CONFIGMAP,
    kinds.SECRET,
    kinds.CLAIM,
    kinds.NETWORK_POLICY,
    kinds.COMMAND,
)


async def owned(port: MemoryPort, kind: Kind, *, uid: str) -> None:
    owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train", "uid": uid, "controller": True}
    body: Doc = {"apiVersion": kind.api_version, "kind": kind.kind}
    body["metadata"] = {"name": "made", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    if kind == kinds.POD:
        body["spec"] = {"containers": [{"name": "main", "image": "busybox:1"}]}
    if kind == kinds.COMMAND:
        body |= {"action": "AbortJob", "target": owner}
    await port.create(kind, body, namespace="default")


async def owner_uid(port: MemoryPort) -> str:
    spec = {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}}]}
    body = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    return str(orjson.loads(await port.create(kinds.JOB, body, namespace="default"))["metadata"]["uid"])


async def there(port: MemoryPort, kind: Kind, name: str) -> bool:
    try:
        await port.get(kind, name, namespace="default")
    except errors.NotFound:
        return False
    return True


@pytest.mark.parametrize("propagation", [None, Propagation.FOREGROUND])
@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.plural)
async def test_what_a_job_owned_goes_with_it(
    port: MemoryPort, clock: SimClock, kind: Kind, propagation: Propagation | None
) -> None:
    await owned(port, kind, uid=await owner_uid(port))
    await clock.sleep(1)
    assert await there(port, kind, "made")
    await port.delete(kinds.JOB, "train", namespace="default", propagation=propagation)
    assert await there(port, kind, "made")
    await clock.sleep(2)
    assert not await there(port, kind, "made")
    assert not await there(port, kinds.JOB, "train")


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.plural)
async def test_what_is_made_for_an_owner_that_has_gone_goes_too(port: MemoryPort, clock: SimClock, kind: Kind) -> None:
    await owned(port, kind, uid="of-nobody")
    await clock.sleep(2)
    assert not await there(port, kind, "made")


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.name)
async def test_every_kind_is_listed_and_served(port: MemoryPort, kind: Kind) -> None:
    path = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    found = orjson.loads(await port.request("GET", path))["resources"]
    assert (kind.plural, kind.kind, kind.namespaced) in {(each["name"], each["kind"], each["namespaced"]) for each in found}
    await port.list(kind, namespace="default" if kind.namespaced else None)
