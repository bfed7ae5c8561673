"""What an agent may do at the hub: its own exchange and nothing of anybody else."""

from __future__ import annotations

import json
from typing import Any

from apis import keys, kinds
from federation.clusters import guard, rights
from machinery.errors import NotFound
from tests.federation.world import World, story

Doc = dict[str, Any]


def _may(cluster: str, *, verb: str, resource: str, namespace: str | None, name: str = "") -> bool:
    """Whether the rights of a member allow a request, as an API server reads them."""
    for kind, body, where in rights.manifests(cluster, uid="u"):
        if kind not in (kinds.ROLE, kinds.CLUSTER_ROLE) or where is not None and where != namespace:
            continue
        for rule in body["rules"]:
            named = not rule.get("resourceNames") or name in rule["resourceNames"]
            if resource in rule["resources"] and verb in rule["verbs"] and named:
                return True
    return False


def test_a_member_has_its_own_exchange() -> None:
    own = keys.execution_namespace("east")
    assert _may("east", verb="watch", resource="works", namespace=own)
    assert _may("east", verb="patch", resource="works/status", namespace=own)
    assert _may("east", verb="update", resource="leases", namespace=own, name="member")
    assert _may("east", verb="update", resource="clusters", namespace=None, name="east")


def test_a_member_has_nothing_of_another_and_no_more_than_it_needs() -> None:
    own, other = keys.execution_namespace("east"), keys.execution_namespace("west")
    assert not _may("east", verb="get", resource="works", namespace=other)
    assert not _may("east", verb="update", resource="clusters", namespace=None, name="west")
    assert not _may("east", verb="delete", resource="works", namespace=own)
    assert not _may("east", verb="create", resource="works", namespace=own)
    assert not _may("east", verb="update", resource="leases", namespace=own, name="another")
    assert not _may("east", verb="get", resource="secrets", namespace=own)


def test_rights_hang_on_a_group_that_names_the_member_and_on_nobody_elses_user() -> None:
    for kind, body, _ in rights.manifests("east", uid="u"):
        if kind in (kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING):
            assert [(each["kind"], each["name"]) for each in body["subjects"]] == [
                ("Group", f"{guard.AGENTS}:east"),
                ("ServiceAccount", "member-agent"),
            ]


def test_a_hub_gives_rights_to_register_first_and_to_the_exchange_once_there_is_one() -> None:
    async def tell(world: World) -> None:
        await world.port.create(
            kinds.CLUSTER,
            {
                "apiVersion": kinds.CLUSTER.api_version,
                "kind": "Cluster",
                "metadata": {"name": "east"},
                "spec": {"syncMode": "Pull"},
            },
        )
        world.hub()
        await world.clock.sleep(15.0)
        wide = json.loads(await world.port.get(kinds.CLUSTER_ROLE, "volcano-federation:member:east"))
        cluster = json.loads(await world.port.get(kinds.CLUSTER, "east"))
        assert wide["metadata"]["ownerReferences"][0]["uid"] == cluster["metadata"]["uid"]
        namespace = keys.execution_namespace("east")
        try:
            await world.port.get(kinds.ROLE, rights.ROLE, namespace=namespace)
            raise AssertionError("there is no namespace yet")
        except NotFound:
            pass
        cluster["spec"]["id"] = "east-uid"
        await world.port.replace(kinds.CLUSTER, "east", cluster)
        await world.clock.sleep(15.0)
        assert json.loads(await world.port.get(kinds.ROLE, rights.ROLE, namespace=namespace))["rules"]
        assert json.loads(await world.port.get(kinds.ROLE_BINDING, rights.ROLE, namespace=namespace))["subjects"]

    story(tell)
