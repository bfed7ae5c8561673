"""Our definitions are brought, other people's are left alone, and what those lack is said."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from apis.kinds import CRD, Kind
from machinery.crds import MANAGER, NotEstablished, Served, Standing, apply_crds, missing_fields, packaged
from machinery.errors import Conflict
from machinery.port import Body, Document, PatchType
from tests.machinery.fakes import FakePort, LoopClock

pytestmark = pytest.mark.looptime

SCHEMA: dict[str, Any] = {
    "properties": {
        "spec": {
            "properties": {
                "steps": {"items": {"properties": {"name": {}, "when": {"properties": {"cel": {}}}}}},
                "suspend": {},
            }
        },
        "status": {"properties": {"phase": {}}},
    }
}


def crd(name: str = "jobflows.flow.volcano.sh", **schema: Any) -> dict[str, Any]:
    version = {"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": schema or SCHEMA}}
    return {"metadata": {"name": name}, "spec": {"versions": [{**version, "subresources": {"status": {}}}]}}


class CrdPort(FakePort):
    """Serves what is applied, unless told not to."""

    serves = True

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        answer = await super().patch(kind, name, body, type=type, field_manager=field_manager, force=force)
        stored = self.objects[kind.name, "", name]
        stored["metadata"]["managedFields"] = [{"manager": field_manager, "operation": "Apply"}]
        stored["status"] = {"conditions": [{"type": "Established", "status": str(self.serves), "message": "slow"}]}
        return answer


async def test_absent_definitions_are_applied_and_ours_applied_again() -> None:
    port = CrdPort()
    for _ in range(2):
        assert await apply_crds(port, [crd()], clock=LoopClock()) == [Served(crd()["metadata"]["name"], Standing.APPLIED)]
    assert [(type, manager, force) for type, manager, force, _ in port.patches] == [(PatchType.APPLY, MANAGER, False)] * 2


async def test_a_foreign_definition_is_left_alone_and_its_gaps_are_named() -> None:
    port = CrdPort()
    theirs = copy.deepcopy(SCHEMA)
    del theirs["properties"]["spec"]["properties"]["suspend"]
    del theirs["properties"]["spec"]["properties"]["steps"]["items"]["properties"]["when"]
    foreign = crd(**theirs)
    del foreign["spec"]["versions"][0]["subresources"]
    port.put(CRD, "jobflows.flow.volcano.sh", spec=foreign["spec"])
    (served,) = await apply_crds(port, [crd()], clock=LoopClock())
    assert served.standing is Standing.FOREIGN
    assert served.missing == ("v1alpha1:spec.steps[].when", "v1alpha1:spec.suspend", "v1alpha1:status subresource")
    assert port.patches == []


async def test_a_definition_whose_fields_somebody_else_took_counts_as_theirs() -> None:
    port = CrdPort()
    await apply_crds(port, [crd()], clock=LoopClock())
    port.fail("patch", Conflict("conflict with kubectl", code=409))
    (served,) = await apply_crds(port, [crd()], clock=LoopClock())
    assert served == Served("jobflows.flow.volcano.sh", Standing.FOREIGN)


async def test_a_definition_that_is_taken_and_not_served_is_an_error() -> None:
    port = CrdPort()
    port.serves = False
    with pytest.raises(NotEstablished, match=r"jobflows.flow.volcano.sh is not served after 30 s; Established=False: slow"):
        await apply_crds(port, [crd()], clock=LoopClock())


def test_a_definition_that_keeps_unknown_fields_lacks_none() -> None:
    loose = crd(properties={"spec": {"x-kubernetes-preserve-unknown-fields": True}, "status": SCHEMA["properties"]["status"]})
    assert missing_fields(crd(), served=loose) == []


def test_a_version_that_is_not_served_is_missing() -> None:
    old = crd()
    old["spec"]["versions"][0]["served"] = False
    assert missing_fields(crd(), served=old) == ["v1alpha1:"]


def test_our_definitions_come_with_the_program() -> None:
    names = [document["metadata"]["name"] for document in packaged()]
    assert "jobs.batch.volcano.sh" in names
    assert names == sorted(names)
    assert all(missing_fields(document, served=orjson.loads(orjson.dumps(document))) == [] for document in packaged())
