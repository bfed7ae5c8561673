"""A FederatedResourceQuota over two members: the second Job waits until the first has ended, whoever is killed."""

from __future__ import annotations

from apis import kinds
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import job, phase, why


def status(world: World) -> Doc:
    """What the quota shows."""
    return (world.get(kinds.FEDERATED_RESOURCE_QUOTA, "team") or {}).get("status") or {}


def test_a_namespace_never_uses_more_than_its_quota_over_all_clusters() -> None:
    async def story(world: World) -> None:
        kind = kinds.FEDERATED_RESOURCE_QUOTA
        quota = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"overall": {"cpu": "5"}},
        }
        await world.apply(quota)
        await world.advance(2)
        for name in ("first", "second", "third"):
            await world.apply(job(name, pods=2, cpu=2, runs_for=40))
            await world.advance(1)
        await world.until(lambda: phase(world, "first") == "Running", timeout=30)
        assert [phase(world, name) for name in ("second", "third")] == ["Pending", "Pending"]
        assert "QuotaExceeded" in why(world, "second")
        await world.advance(2)
        assert status(world) == {"overall": {"cpu": "5"}, "overallUsed": {"cpu": "4"}}
        world.kill("hub")
        await world.advance(20)
        assert [phase(world, name) for name in ("second", "third")] == ["Pending", "Pending"]
        await world.until(lambda: phase(world, "first") == "Completed", timeout=60)
        await world.until(lambda: phase(world, "second") == "Running", timeout=30, what="its end lets the next one start")
        assert phase(world, "third") == "Pending"
        await world.apply({**quota, "spec": {"overall": {"cpu": "8"}}})
        await world.until(lambda: phase(world, "third") == "Running", timeout=30, what="more quota lets it start")
        for name in ("second", "third"):
            await world.until(lambda name=name: phase(world, name) == "Completed", timeout=90)  # type: ignore[misc]
        await world.advance(3)
        assert status(world) == {"overall": {"cpu": "8"}, "overallUsed": {"cpu": "0"}}

    play(story, pods={f"default/{name}": 2 for name in ("first", "second", "third")})


def test_a_static_assignment_is_a_resource_quota_in_its_cluster_follows_edits_and_goes() -> None:
    async def story(world: World) -> None:
        kind = kinds.FEDERATED_RESOURCE_QUOTA
        quota: Doc = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"overall": {"cpu": "8"}, "staticAssignments": [{"clusterName": "west", "hard": {"cpu": "3"}}]},
        }
        await world.apply(quota)

        def hard(member: str) -> object:
            found = world.get(kinds.RESOURCE_QUOTA, "team", server=member)
            return None if found is None else found["spec"]["hard"]

        await world.until(lambda: hard("west") == {"cpu": "3"}, timeout=30)
        assert hard("east") is None
        quota["spec"]["staticAssignments"] = [
            {"clusterName": "west", "hard": {"cpu": "4"}},
            {"clusterName": "east", "hard": {}},
        ]
        await world.apply(quota)
        await world.until(lambda: hard("west") == {"cpu": "4"} and hard("east") is not None, timeout=30)
        world.kill("hub")
        await world.client().delete(kind, "team", namespace="default")
        await world.until(lambda: hard("west") is None and hard("east") is None, timeout=60)
        await world.until(lambda: not world.all(kinds.WORK), timeout=30)

    play(story)
