"""A real API server takes our flow control as it is meant: every schema finds its level."""

from __future__ import annotations

import json
import logging

import pytest

from apis import kinds
from federation.clusters import fairness, guard
from machinery.port import Port

pytestmark = [pytest.mark.e2e]


async def test_flow_control_is_taken_and_no_schema_dangles(hub_port: Port, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):  # every leader applies it anew
        await guard.apply(hub_port)
        await fairness.apply(hub_port)
    assert caplog.messages == []
    for kind, body in fairness.manifests():
        found = json.loads(await hub_port.get(kind, body["metadata"]["name"]))
        for field in ("type", "matchingPrecedence", "distinguisherMethod", "priorityLevelConfiguration"):
            assert found["spec"].get(field) == body["spec"].get(field)
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or ()}
        assert conditions.get("Dangling", "False") == "False", f"{kind.kind} {body['metadata']['name']}: {conditions}"
        if kind == kinds.PRIORITY_LEVEL:
            assert found["spec"]["limited"]["nominalConcurrencyShares"] == body["spec"]["limited"]["nominalConcurrencyShares"]
