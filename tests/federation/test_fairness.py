"""Flow control for agents: what is applied, to whom it applies, and that nothing of anybody else is taken."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from apis import keys, kinds
from federation.clusters import fairness, guard
from machinery.port import PatchType
from tests.federation.world import World, story


def served(*, groups: set[str], group: str, resource: str, namespace: str) -> tuple[str, str]:
    """Level and flow of one request, as the API server finds them: the first schema by precedence that matches."""
    schemas = [body["spec"] for kind, body in fairness.manifests() if kind == kinds.FLOW_SCHEMA]
    for spec in sorted(schemas, key=lambda each: each["matchingPrecedence"]):
        for rule in spec["rules"]:
            (what,) = rule["resourceRules"]
            scope = "namespaces" in what if namespace else what.get("clusterScope", False)
            fits = group in what["apiGroups"] or "*" in what["apiGroups"]
            fits = fits and (resource in what["resources"] or "*" in what["resources"])
            if scope and fits and groups & {each["group"]["name"] for each in rule["subjects"] if "group" in each}:
                flow = namespace if spec["distinguisherMethod"]["type"] == "ByNamespace" else "the user"
                return spec["priorityLevelConfiguration"]["name"], flow
    return "", ""


def test_renewals_have_a_level_of_their_own_and_members_are_told_apart() -> None:
    east, west = keys.execution_namespace("east"), keys.execution_namespace("west")
    agent, lease, work = {guard.AGENTS}, kinds.LEASE, kinds.WORK

    def of(groups: set[str], kind: kinds.Kind, namespace: str = "") -> tuple[str, str]:
        return served(groups=groups, group=kind.group, resource=kind.plural, namespace=namespace)

    assert of(agent, lease, east) == (fairness.LEASES, east)
    assert of(agent, work, east) == (fairness.OTHERS, east)
    assert of(agent, work, west) == (fairness.OTHERS, west)
    assert of(agent, kinds.CLUSTER) == (fairness.OTHERS, "the user")
    assert of({fairness.HUB}, lease, east) == (fairness.LEASES, east)
    assert of({fairness.HUB}, work, east) == of({"system:authenticated"}, lease, east) == ("", "")


def test_a_hub_puts_flow_control_in_place_and_leaves_alone_what_is_not_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=fairness.__name__)

    async def tell(world: World) -> None:
        theirs: dict[str, Any] = {
            "apiVersion": kinds.PRIORITY_LEVEL.api_version,
            "kind": kinds.PRIORITY_LEVEL.kind,
            "metadata": {"name": fairness.LEASES},
            "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 99}},
        }
        await world.port.patch(
            kinds.PRIORITY_LEVEL, fairness.LEASES, theirs, type=PatchType.APPLY, field_manager="somebody-else"
        )
        world.hub()
        await world.clock.sleep(15.0)
        for kind, body in fairness.manifests():
            found = json.loads(await world.port.get(kind, body["metadata"]["name"]))
            mine = body["metadata"]["name"] != fairness.LEASES or kind != kinds.PRIORITY_LEVEL
            assert found["spec"] == (body if mine else theirs)["spec"]
        (said,) = caplog.messages
        assert said.startswith("PriorityLevelConfiguration volcano-federation-leases is not in place")

    story(tell)
