"""Jobs of one group go together or apart, and a policy waits for the override policies that it names."""

from __future__ import annotations

from typing import Any

from apis import kinds
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import job, phase, state


def policy(name: str, **spec: Any) -> Doc:
    """For every Job of the namespace."""
    kind = kinds.PROPAGATION_POLICY
    selectors = [{"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind}]
    body = {"resourceSelectors": selectors, "placement": {}, **spec}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}


def labelled(name: str, group: str, **spec: Any) -> Doc:
    made = job(name, runs_for=None, **spec)
    made["metadata"]["labels"] = {"group": group}
    return made


def home(world: World, name: str) -> str:
    return next((each.cluster for each in world.records.of_job(f"default/{name}")), "")


async def runs(world: World, *names: str) -> None:
    for name in names:
        await world.until(lambda name=name: home(world, name) != "", timeout=60)  # type: ignore[misc]


def test_a_group_stays_together_and_waits_for_room_where_it_is() -> None:
    async def story(world: World) -> None:
        placement = {"workloadAffinity": {"affinity": {"groupByLabelKey": "group"}}}
        await world.apply(policy("together", placement=placement))
        for name in ("one", "two", "three"):
            await world.apply(labelled(name, "a", cpu=2))
        await runs(world, "one", "two", "three")
        assert len({home(world, name) for name in ("one", "two", "three")}) == 1
        await world.apply(labelled("alone", "b", cpu=2))
        await runs(world, "alone")
        assert home(world, "alone") != home(world, "one"), "another group goes where there is more room"

    play(story)


def test_a_group_spreads_and_its_third_of_two_clusters_waits_with_the_reason() -> None:
    async def story(world: World) -> None:
        placement = {"workloadAffinity": {"antiAffinity": {"groupByLabelKey": "group"}}}
        await world.apply(policy("apart", placement=placement))
        for name in ("one", "two"):
            await world.apply(labelled(name, "a"))
        await runs(world, "one", "two")
        assert {home(world, "one"), home(world, "two")} == {"east", "west"}
        await world.apply(labelled("three", "a"))
        await world.until(lambda: state(world, "three").get("reason") == "NoClusterFits", timeout=30)
        assert "anti-affinity" in state(world, "three")["message"]
        await world.client().delete(kinds.JOB, "one", namespace="default")
        await runs(world, "three")

    play(story)


def test_a_policy_that_names_override_policies_waits_for_them() -> None:
    async def story(world: World) -> None:
        await world.apply(policy("careful", dependentOverrides=["mirror"]))
        await world.apply(job("train", runs_for=3))
        await world.until(lambda: state(world, "train").get("reason") == "WaitingForOverrides", timeout=30)
        kind = kinds.OVERRIDE_POLICY
        mirror = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "mirror", "namespace": "default"}}
        await world.apply({**mirror, "spec": {"overrideRules": []}})
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)

    play(story)
