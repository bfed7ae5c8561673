"""A hub keeps away from an API server where a Karmada is at work, and says what it found and what to do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apis import kinds
from apis.kinds import Kind
from federation import ownership
from tests.federation.world import World, story


def _body(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def _lease() -> dict[str, Any]:
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
    return _body(kinds.LEASE, "karmada-controller-manager", spec=spec)


async def _put(world: World, body: dict[str, Any], kind: Kind, namespace: str | None = None) -> None:
    await world.port.create(kind, body, namespace=namespace)


def test_an_empty_api_server_is_taken() -> None:
    async def tell(world: World) -> None:
        await ownership.check(world.port, clock=world.clock)

    story(tell)


def test_an_aggregated_api_for_clusters_is_somebody_elses() -> None:
    async def tell(world: World) -> None:
        service = {"service": {"name": "karmada-aggregated-apiserver", "namespace": "default"}}
        await _put(world, _body(kinds.API_SERVICE, ownership.API_SERVICE, spec=service), kinds.API_SERVICE)
        with pytest.raises(ownership.Occupied, match=f"APIService {ownership.API_SERVICE}.*API server of its own"):
            await ownership.check(world.port, clock=world.clock)

    story(tell)


def test_an_api_service_of_our_own_crd_is_no_sign() -> None:
    async def tell(world: World) -> None:
        await _put(
            world, _body(kinds.API_SERVICE, ownership.API_SERVICE, spec={"group": "cluster.karmada.io"}), kinds.API_SERVICE
        )
        await ownership.check(world.port, clock=world.clock)

    story(tell)


def test_webhooks_for_karmadas_kinds_are_named_unless_they_are_ours() -> None:
    hook = {"name": "propagationpolicy.karmada.io"}
    ours = _body(kinds.MUTATING_WEBHOOKS, "ours", webhooks=[hook])
    ours["metadata"]["labels"] = {"app.kubernetes.io/part-of": "volcano-federation"}
    theirs = _body(kinds.MUTATING_WEBHOOKS, "mutating-config", webhooks=[hook])
    others = _body(kinds.MUTATING_WEBHOOKS, "cert-manager", webhooks=[{"name": "webhook.cert-manager.io"}])
    assert ownership.foreign_webhooks([ours, theirs, others]) == ["mutating-config"]


def test_a_lease_that_is_renewed_while_we_look_is_a_living_karmada() -> None:
    async def tell(world: World) -> None:
        await _put(world, _lease(), kinds.LEASE, "default")

        async def renew() -> None:
            while True:
                await world.clock.sleep(5.0)
                lease = json.loads(await world.port.get(kinds.LEASE, "karmada-controller-manager", namespace="default"))
                lease["spec"]["renewTime"] = f"{world.clock.boot()}"
                await world.port.replace(kinds.LEASE, lease["metadata"]["name"], lease, namespace="default")

        leader = asyncio.get_running_loop().create_task(renew())
        with pytest.raises(ownership.Occupied, match="Lease default/karmada-controller-manager is renewed"):
            await ownership.check(world.port, clock=world.clock)
        leader.cancel()

    story(tell)


def test_a_lease_that_a_removed_karmada_left_behind_keeps_nobody_away() -> None:
    async def tell(world: World) -> None:
        await _put(world, _lease(), kinds.LEASE, "default")
        await ownership.check(world.port, clock=world.clock)

    story(tell)
