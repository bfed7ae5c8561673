"""Works carry what override policies change for their cluster; one that cannot be carried out is told and tried again."""

from __future__ import annotations

import json
from typing import Any

from apis import keys, kinds, naming
from machinery.port import PatchType
from tests.federation.world import World, job, story


async def override(world: World, *, path: str = "/spec/maxRetry", value: Any = 7, operator: str = "add") -> None:
    """A policy of the namespace for Jobs in east."""
    rule = {
        "targetCluster": {"clusterNames": ["east"]},
        "overriders": {"plaintext": [{"path": path, "operator": operator, "value": value}]},
    }
    selector = {"apiVersion": kinds.JOB.api_version, "kind": "Job"}
    body = {
        "apiVersion": kinds.OVERRIDE_POLICY.api_version,
        "kind": "OverridePolicy",
        "metadata": {"name": "retries", "namespace": "default"},
        "spec": {"resourceSelectors": [selector], "overrideRules": [rule]},
    }
    await world.port.patch(
        kinds.OVERRIDE_POLICY, "retries", body, type=PatchType.APPLY, namespace="default", field_manager="test", force=True
    )


async def work(world: World, name: str) -> dict[str, Any]:
    there = keys.execution_namespace("east")
    found: dict[str, Any] = json.loads(
        await world.port.get(kinds.WORK, naming.work_name(name, namespace="default"), namespace=there)
    )
    return found


def test_a_work_is_made_as_its_cluster_gets_it_and_says_by_whom() -> None:
    async def tell(world: World) -> None:
        await override(world)
        world.member("east")
        world.hub()
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        made = await work(world, "train")
        assert made["spec"]["workload"]["manifests"][0]["spec"]["maxRetry"] == 7
        assert "retries" in made["metadata"]["annotations"]["policy.karmada.io/applied-overrides"]
        assert (await world.job("train"))["spec"].get("maxRetry") != 7

    story(tell)


def test_what_cannot_be_carried_out_is_told_and_tried_again_when_the_policy_changes() -> None:
    async def tell(world: World) -> None:
        await override(world, path="/spec/minAvailable", value=1, operator="replace")
        world.member("east")
        world.hub()
        await world.submit(job("train"))

        async def told() -> bool:
            events = [json.loads(each) for each in (await world.port.list(kinds.EVENT)).items]
            found = [each for each in events if each["reason"] == "ApplyOverridePolicyFailed"]
            return any("OverridePolicy default/retries: spec.overrideRules[0]" in json.dumps(each) for each in found)

        await world.until(told)
        assert await world.gone(kinds.WORK, naming.work_name("train", namespace="default"), namespace="karmada-es-east")
        await override(world)
        await world.until_phase("train", "Running", within=5.0)

    story(tell)


def test_the_work_of_a_job_that_runs_is_made_anew_when_its_overrides_change_and_only_then() -> None:
    async def tell(world: World) -> None:
        await override(world)
        world.member("east", seconds=500.0)
        world.hub()
        await world.submit(job("train"))
        await world.until_phase("train", "Running")

        def retries(made: dict[str, Any]) -> Any:
            return made["spec"]["workload"]["manifests"][0]["spec"].get("maxRetry")

        before = await work(world, "train")
        assert retries(before) == 7
        await world.clock.sleep(30.0)
        assert (await work(world, "train"))["metadata"]["generation"] == before["metadata"]["generation"]
        await override(world, value=9)

        async def anew() -> bool:
            return bool(retries(await work(world, "train")) == 9)

        await world.until(anew, within=30.0)
        await world.port.delete(kinds.OVERRIDE_POLICY, "retries", namespace="default")

        async def as_written() -> bool:
            found = await work(world, "train")
            return bool(retries(found) == retries({"spec": {"workload": {"manifests": [await world.job("train")]}}}))

        await world.until(as_written, within=30.0)
        after = await work(world, "train")
        await world.clock.sleep(60.0)
        assert (await work(world, "train"))["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"], "the run goes on"
        assert not {"policy.karmada.io/applied-overrides", keys.OVERRIDES} & set(after["metadata"]["annotations"])

    story(tell)
