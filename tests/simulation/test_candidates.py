"""ClusterProfiles that somebody else keeps name candidates, and give members labels that policies choose by."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from policies.cluster_profiles import CLUSTER_PROFILE, PROFILE, is_label
from simulator.world import Doc, World
from tests.support.members import condition, notes_of
from tests.support.stage import play
from tests.support.stories import clusters, job, phase


def profile(name: str, **properties: str) -> Doc:
    """A ClusterProfile with its status."""
    listed = [{"name": key.replace("__", "/").replace("_", "."), "value": value} for key, value in properties.items()]
    return {
        "apiVersion": CLUSTER_PROFILE.api_version,
        "kind": CLUSTER_PROFILE.kind,
        "metadata": {"name": name, "namespace": "fleet"},
        "spec": {"displayName": name, "clusterManager": {"name": "somebody"}},
        "status": {"properties": listed},
    }


async def put(world: World, doc: Doc) -> None:
    """As its manager writes it: the object, then its status."""
    name, client = doc["metadata"]["name"], world.client()
    await client.create(CLUSTER_PROFILE, doc, namespace="fleet")
    body = {"status": doc["status"]}
    await client.patch(CLUSTER_PROFILE, name, body, type=PatchType.MERGE, namespace="fleet", subresource="status")


def labels(world: World, cluster: str) -> dict[str, str]:
    found: dict[str, str] = ((world.get(kinds.CLUSTER, cluster) or {}).get("metadata") or {}).get("labels") or {}
    return found


def by_label(key: str, value: str) -> dict[str, Any]:
    kind = kinds.PROPAGATION_POLICY
    selectors = [{"apiVersion": kinds.JOB.api_version, "kind": "Job"}]
    placement = {"clusterAffinity": {"labelSelector": {"matchLabels": {key: value}}}}
    spec = {"resourceSelectors": selectors, "placement": placement}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def test_a_profile_labels_the_member_of_its_name_and_a_policy_chooses_by_that() -> None:
    async def story(world: World) -> None:
        await world.client().create(kinds.NAMESPACE, {"metadata": {"name": "fleet"}})
        await put(world, profile("west", tier="gold", fleet_example_com__site="b"))
        await world.until(lambda: labels(world, "west").get("tier") == "gold", timeout=30, what="it is labelled")
        assert labels(world, "west")["fleet.example.com/site"] == "b"
        await world.apply([by_label("tier", "gold"), job("train", pods=1, runs_for=3)])
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60, what="the Job ends")
        assert clusters(world, "train") == ["west"]
        await world.client().delete(CLUSTER_PROFILE, "west", namespace="fleet")
        await world.until(lambda: "tier" not in labels(world, "west"), timeout=30, what="the labels go with it")
        assert world.get(kinds.CLUSTER, "west") is not None
        assert PROFILE not in notes_of(world, "west")

    play(story, hub_settings={"cluster_profiles": True})


def test_a_profile_without_a_member_is_a_candidate_until_it_joins_or_goes() -> None:
    async def story(world: World) -> None:
        await world.client().create(kinds.NAMESPACE, {"metadata": {"name": "fleet"}})
        await put(world, profile("north", tier="silver"))
        await world.until(lambda: condition(world, "north", "Registered")[1] == "IdMissing", timeout=30, what="a candidate")
        assert notes_of(world, "north")[PROFILE] == "fleet/north"
        await world.apply([by_label("tier", "silver"), job("waits", pods=1)])
        await world.advance(20.0)
        assert phase(world, "waits") == "Pending", "a candidate runs nothing"
        await world.client().delete(CLUSTER_PROFILE, "north", namespace="fleet")
        await world.until(lambda: world.get(kinds.CLUSTER, "north") is None, timeout=30, what="it goes")

    play(story, hub_settings={"cluster_profiles": True})


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("tier", "gold", True),
        ("example.com/site", "", True),
        ("topology.kubernetes.io/zone", "a", False),
        ("volcano-federation.io/run", "x", False),
        ("has space", "x", False),
        ("tier", "two words", False),
        ("", "x", False),
        ("a/b/c", "x", False),
    ],
)
def test_properties_that_are_no_labels_or_somebody_elses_are_left(key: str, value: str, taken: bool) -> None:
    assert is_label(key, value) is taken
