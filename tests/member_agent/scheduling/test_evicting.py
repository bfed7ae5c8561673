"""An eviction as it is written: the reason first, then the deletion of exactly that pod; failures are facts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from machinery import errors
from machinery.port import PatchType
from member_agent.scheduling.applier import Bound, SchedulingApplier
from member_agent.scheduling.decisions import Eviction
from member_agent.scheduling.reasons import Reason
from tests.member_agent.scheduling.build import gang

NOW = "2026-01-01T00:00:00Z"
EVICTION = Eviction(gang("low", on=["n0"]).pods[0], "preempt", Reason("PreemptionByScheduler", "it made room"), ("ns", "high"))


class Door:
    """An API server that keeps what was written, and refuses deletions with `refusal`."""

    def __init__(self, refusal: errors.ApiError | None = None) -> None:
        self.refusal = refusal
        self.written: list[tuple[str, dict[str, Any]]] = []

    async def patch(self, kind: object, name: str, body: dict[str, Any], *, type: PatchType, **more: object) -> bytes:
        self.written.append((f"patch {name} {type.name}", {**body, **more}))
        return b"{}"

    async def delete(self, kind: object, name: str, *, namespace: str, preconditions: Any) -> None:
        self.written.append((f"delete {name}", {"uid": preconditions.uid}))
        if self.refusal is not None:
            raise self.refusal


async def test_the_pod_is_told_and_then_deleted_by_its_uid() -> None:
    door = Door()
    assert await SchedulingApplier(door).evict(EVICTION, now=NOW) == (Bound.DONE, "")  # type: ignore[arg-type]
    (patched, body), deleted = door.written
    assert patched == "patch low-0 APPLY"
    assert body["subresource"] == "status"
    assert body["metadata"]["uid"] == "uid-low-0"
    conditions = {each["type"]: (each["status"], each["reason"]) for each in body["status"]["conditions"]}
    assert conditions == {
        "DisruptionTarget": ("True", "PreemptionByScheduler"),
        "Ready": ("False", "PreemptionByScheduler"),
    }
    assert deleted == ("delete low-0", {"uid": "uid-low-0"})


@pytest.mark.parametrize("gone", [errors.NotFound("gone"), errors.Conflict("another UID")])
async def test_a_pod_that_has_gone_is_gone(gone: errors.ApiError) -> None:
    assert await SchedulingApplier(Door(gone)).evict(EVICTION, now=NOW) == (Bound.DONE, "")  # type: ignore[arg-type]


async def test_a_refusal_is_a_fact_and_what_nobody_knows_is_tried_again() -> None:
    refused = await SchedulingApplier(Door(errors.Forbidden("not this one"))).evict(EVICTION, now=NOW)  # type: ignore[arg-type]
    assert refused == (Bound.REFUSED, "not this one")
    with pytest.raises(errors.Throttled):
        await SchedulingApplier(Door(errors.Throttled("later"))).evict(EVICTION, now=NOW)  # type: ignore[arg-type]


async def test_a_pod_that_stays_is_told_so_and_is_as_ready_as_it_was() -> None:
    for ready in (True, False):
        door = Door(errors.Forbidden("the webhook says no"))
        eviction = dataclasses.replace(EVICTION, pod=dataclasses.replace(EVICTION.pod, ready=ready))
        await SchedulingApplier(door).evict(eviction, now=NOW)  # type: ignore[arg-type]
        told = [body["status"]["conditions"] for what, body in door.written if what.startswith("patch")]
        assert len(told) == 2
        conditions = {each["type"]: (each["status"], each["reason"]) for each in told[-1]}
        assert conditions["DisruptionTarget"] == ("False", "EvictionRefused")
        assert conditions["Ready"][0] == str(ready)
        assert told[-1][0]["message"] == "the webhook says no"


async def test_a_nomination_is_written_and_taken_back() -> None:
    door, pod = Door(), gang("high").pods[0]
    applier = SchedulingApplier(door)  # type: ignore[arg-type]
    await applier.nominate(pod, "n7")
    await applier.nominate(pod, "")
    assert [body["status"] for _, body in door.written] == [{"nominatedNodeName": "n7"}, {"nominatedNodeName": None}]
