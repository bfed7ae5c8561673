"""A member joins: the token is spent, the certificate is kept in the member, and renewed by itself later. Hub and member are
the real roles; what signs is a few lines."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apis import kinds
from federation.joining.controller import READ
from machinery import errors
from machinery.port import Port
from member_agent.joining import credential
from member_agent.joining.credential import Hub
from member_agent.joining.joiner import Joiner, NotJoined, Place
from policies import joining
from policies.joining import Token
from simulator.api import MemoryPort
from simulator.server import ApiServer
from tests.federation.world import World, story

PLACE = Place("member-agent-hub", "federation-system")
TOKEN = Token("abcdef", "0123456789abcdef")
AUTHORITY = ec.generate_private_key(ec.SECP256R1())
HUB = Hub("https://hub:6443", b"authority")
LIFE = datetime.timedelta(days=90)


class Signer:
    """What kube-controller-manager does: signs what is approved. And what an API server does: says who asks."""

    def __init__(self, world: World, *, user: str, groups: list[str]) -> None:
        self._world = world
        self.user, self.groups = user, groups
        self.opened: list[str] = []

    @contextlib.asynccontextmanager
    async def open(self, config: str) -> AsyncIterator[Port]:
        self.opened.append(config)
        if "token:" in config and await self._token() is None:
            raise errors.Unauthorized("token", request="GET /")
        yield Vouching(self._world.port, user=self.user, groups=self.groups)

    async def _token(self) -> bytes | None:
        try:
            return await self._world.port.get(kinds.SECRET, f"bootstrap-token-{TOKEN.id}", namespace="kube-system")
        except errors.NotFound:
            return None

    async def run(self) -> None:
        while True:
            for item in (await self._world.port.list(kinds.SIGNING_REQUEST)).items:
                tree = json.loads(item)
                if joining.condition(tree, "Approved") and not tree["status"].get("certificate"):
                    tree["status"]["certificate"] = base64.b64encode(self.sign(tree)).decode()
                    await self._world.port.replace(kinds.SIGNING_REQUEST, tree["metadata"]["name"], tree, subresource="status")
            await self._world.clock.sleep(0.5)

    def sign(self, tree: dict[str, Any]) -> bytes:
        asked = x509.load_pem_x509_csr(base64.b64decode(tree["spec"]["request"]))
        now = self._world.clock.now()
        built = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(x509.Name([]))
            .public_key(asked.public_key())
            .serial_number(1)
            .not_valid_before(now)
            .not_valid_after(now + LIFE)
            .sign(AUTHORITY, hashes.SHA256())
        )
        return built.public_bytes(serialization.Encoding.PEM)


class Vouching(MemoryPort):
    """The hub's API server as one user sees it: it writes into requests who makes them."""

    def __init__(self, port: Port, *, user: str, groups: list[str]) -> None:
        assert isinstance(port, MemoryPort)
        super().__init__(port.server)
        self._asks = {"username": user, "groups": groups}

    async def create(self, kind: Any, body: Any, **more: Any) -> bytes:
        if kind == kinds.SIGNING_REQUEST:
            body = {**body, "spec": {**body["spec"], **self._asks}}
        return await super().create(kind, body, **more)


async def _joiner(world: World, signer: Signer) -> tuple[Joiner, MemoryPort]:
    member = MemoryPort(ApiServer(world.clock, ids=world.ids, chance=world.chance, name="east"))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE.namespace}}
    await member.create(kinds.NAMESPACE, space)
    return Joiner(member, clock=world.clock, cluster="east", place=PLACE, opened=signer.open), member


async def _begin(world: World) -> Signer:
    """A hub that runs, a Cluster and a token for it, and somebody who signs."""
    cluster = {"apiVersion": kinds.CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": "east"}}
    await world.port.create(kinds.CLUSTER, {**cluster, "spec": {"syncMode": "Pull"}})
    secret = joining.token_secret(TOKEN, cluster="east", expires=world.clock.now() + datetime.timedelta(hours=1))
    await world.port.create(kinds.SECRET, secret, namespace="kube-system")
    world.hub()
    signer = Signer(world, user="system:bootstrap:abcdef", groups=[joining.JOINERS, f"{joining.JOINERS}:east"])
    world.tasks.create_task(signer.run())
    await world.clock.sleep(15.0)
    return signer


def test_a_member_joins_by_a_token_that_is_spent_by_it() -> None:
    async def tell(world: World) -> None:
        signer = await _begin(world)
        joiner, member = await _joiner(world, signer)
        assert await joiner.join(HUB, token=str(TOKEN))
        parts = credential.parts_of(json.loads(await member.get(kinds.SECRET, PLACE.name, namespace=PLACE.namespace)))
        assert set(parts) == {"kubeconfig", "tls.crt", "tls.key", "ca.crt"}
        subject = x509.load_pem_x509_certificate(parts["tls.crt"]).subject.rfc4514_string()
        assert "CN=east" in subject and "volcano-federation:agents:east" in subject
        assert credential.hub_of(parts["kubeconfig"].decode()) == HUB
        await world.clock.sleep(READ + 5.0)
        with pytest.raises(errors.NotFound):
            await world.port.get(kinds.SECRET, f"bootstrap-token-{TOKEN.id}", namespace="kube-system")

    story(tell)


def test_joining_again_leaves_a_good_credential_and_the_token_alone() -> None:
    async def tell(world: World) -> None:
        signer = await _begin(world)
        joiner, _ = await _joiner(world, signer)
        assert await joiner.join(HUB, token=str(TOKEN))
        asked = len(signer.opened)
        assert not await joiner.join(HUB, token=str(TOKEN))
        assert len(signer.opened) == asked

    story(tell)


def test_a_reused_token_says_so_and_where_another_is_to_be_had() -> None:
    async def tell(world: World) -> None:
        signer = await _begin(world)
        first, _ = await _joiner(world, signer)
        await first.join(HUB, token=str(TOKEN))
        for wait, says in (
            (0.0, "used already.*fedctl cluster join"),
            (READ + 5.0, "was used or has expired.*fedctl cluster join"),
        ):
            await world.clock.sleep(wait)
            thief, _ = await _joiner(world, signer)
            with pytest.raises(NotJoined, match=says):
                await thief.join(HUB, token=str(TOKEN))

    story(tell)


def test_a_member_that_was_refused_may_join_later_by_another_token() -> None:
    async def tell(world: World) -> None:
        signer = await _begin(world)
        joiner, _ = await _joiner(world, signer)
        signer.groups = [joining.JOINERS, f"{joining.JOINERS}:west"]  # a token that was made for another member
        with pytest.raises(NotJoined, match="no Cluster west"):
            await joiner.join(HUB, token=str(TOKEN))
        signer.groups = [joining.JOINERS, f"{joining.JOINERS}:east"]
        assert await joiner.join(HUB, token=str(TOKEN))

    story(tell)


def test_a_credential_is_renewed_by_itself_when_two_thirds_of_its_life_are_over() -> None:
    async def tell(world: World) -> None:
        signer = await _begin(world)
        joiner, member = await _joiner(world, signer)
        await joiner.join(HUB, token=str(TOKEN))
        left = await joiner.renew()
        assert left == pytest.approx(LIFE.total_seconds() * 2 / 3, abs=60)
        before = credential.parts_of(json.loads(await member.get(kinds.SECRET, PLACE.name, namespace=PLACE.namespace)))
        signer.user, signer.groups = "east", [*joining.groups_of("east"), "system:authenticated"]
        late = Late(world.clock, by=datetime.timedelta(seconds=left + 1))
        again = Joiner(member, clock=late, cluster="east", place=PLACE, opened=signer.open)
        await again.renew()
        after = credential.parts_of(json.loads(await member.get(kinds.SECRET, PLACE.name, namespace=PLACE.namespace)))
        assert after["tls.key"] != before["tls.key"] and "next.key" not in after
        assert "client-certificate-data" in signer.opened[-1]

    story(tell)


class Late:
    """A clock some time ahead."""

    def __init__(self, clock: Any, *, by: datetime.timedelta) -> None:
        self._clock, self._by = clock, by

    def boot(self) -> float:
        return float(self._clock.boot())

    def now(self) -> datetime.datetime:
        moment: datetime.datetime = self._clock.now() + self._by
        return moment

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
