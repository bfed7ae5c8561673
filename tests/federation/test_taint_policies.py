"""Taints of clusters that follow their conditions, and keep new Jobs away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis import kinds
from federation.settings import HubSettings
from tests.federation.world import World, job, story

POLICY = {
    "apiVersion": kinds.CLUSTER_TAINT_POLICY.api_version,
    "kind": "ClusterTaintPolicy",
    "metadata": {"name": "disk"},
    "spec": {
        "addOnConditions": [{"conditionType": "DiskOk", "operator": "In", "statusValues": ["False"]}],
        "removeOnConditions": [{"conditionType": "DiskOk", "operator": "In", "statusValues": ["True"]}],
        "taints": [{"key": "disk", "effect": "NoSchedule", "value": "bad"}],
    },
}


async def say(world: World, cluster: str, status: str) -> None:
    """The member says how its disks are."""
    tree = json.loads(await world.port.get(kinds.CLUSTER, cluster))
    there = [each for each in tree.get("status", {}).get("conditions", []) if each["type"] != "DiskOk"]
    tree["status"] = {**tree.get("status", {}), "conditions": [*there, {"type": "DiskOk", "status": status}]}
    await world.port.replace(kinds.CLUSTER, cluster, tree, subresource="status")


async def taints(world: World, cluster: str) -> list[dict[str, Any]]:
    """Without their times."""
    tree = json.loads(await world.port.get(kinds.CLUSTER, cluster))
    return [{key: value for key, value in each.items() if key != "timeAdded"} for each in tree["spec"].get("taints") or []]


@pytest.mark.parametrize("policy_first", [True, False])
def test_a_cluster_with_a_bad_disk_gets_no_jobs_until_it_is_well_again(policy_first: bool) -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=64)
        world.member("west", cpus=8)
        await world.clock.sleep(20.0)
        if policy_first:
            await world.port.create(kinds.CLUSTER_TAINT_POLICY, POLICY)
        await say(world, "east", "False")
        await world.clock.sleep(5.0)
        if not policy_first:
            assert await taints(world, "east") == []
            await world.port.create(kinds.CLUSTER_TAINT_POLICY, POLICY)
            await world.clock.sleep(5.0)
        assert await taints(world, "east") == [{"key": "disk", "effect": "NoSchedule", "value": "bad"}]
        first = await world.submit(job("first"))
        await world.until_phase("first", "Completed")
        assert [stint.cluster for stint in world.journal.of(first)] == ["west"]
        await say(world, "east", "True")
        await world.clock.sleep(5.0)
        assert (await taints(world, "east"), await taints(world, "west")) == ([], [])
        second = await world.submit(job("second"))
        await world.until_phase("second", "Completed")
        assert [stint.cluster for stint in world.journal.of(second)] == ["east"]

    story(tell)


def test_taints_of_people_stay_and_nothing_is_written_while_nothing_changes() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east")
        await world.clock.sleep(20.0)
        tree = json.loads(await world.port.get(kinds.CLUSTER, "east"))
        tree["spec"]["taints"] = [{"key": "mine", "effect": "PreferNoSchedule"}]
        await world.port.replace(kinds.CLUSTER, "east", tree)
        await world.port.create(kinds.CLUSTER_TAINT_POLICY, POLICY)
        await say(world, "east", "False")
        await world.clock.sleep(5.0)
        assert [each["key"] for each in await taints(world, "east")] == ["mine", "disk"]
        before = json.loads(await world.port.get(kinds.CLUSTER, "east"))["metadata"]["resourceVersion"]
        await world.clock.sleep(60.0)
        assert json.loads(await world.port.get(kinds.CLUSTER, "east"))["metadata"]["resourceVersion"] == before

    story(tell)


def test_policies_put_on_no_taints_that_evict_unless_the_hub_is_set_so() -> None:
    async def tell(world: World, *, evict: bool) -> None:
        world.hub(taint_policies_evict=evict)
        world.member("east")
        await world.clock.sleep(20.0)
        spec = {**POLICY["spec"], "taints": [{"key": "disk", "effect": "NoExecute"}]}  # type: ignore[dict-item]
        await world.port.create(kinds.CLUSTER_TAINT_POLICY, {**POLICY, "spec": spec})
        await say(world, "east", "False")
        await world.clock.sleep(5.0)
        assert [each["effect"] for each in await taints(world, "east")] == (["NoExecute"] if evict else [])

    async def forbidden(world: World) -> None:
        await tell(world, evict=False)

    async def allowed(world: World) -> None:
        await tell(world, evict=True)

    assert HubSettings().taint_policies_evict is False
    story(forbidden)
    story(allowed)
