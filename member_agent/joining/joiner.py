"""Asks the hub for a certificate and keeps it: once with a token, later with the certificate that is getting old.

Each step is one write that any replica may take and that a restart goes on from: a key is stored, a request is made under a
name that follows from the key, the certificate is stored.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis import kinds
from machinery import errors
from machinery.clock import Clock
from machinery.port import Port
from member_agent.joining import credential
from member_agent.joining.credential import CA, CERTIFICATE, KEY, KUBECONFIG, NEXT_KEY, Hub
from policies import joining

log = logging.getLogger(__name__)

LIFE: Final = 90 * 86400
"""Seconds that are asked for; the signer may give less."""
PAUSE: Final = 1.0
"""First wait before the hub is asked again whether it has decided; doubles."""
PAUSE_LIMIT: Final = 15.0
PATIENCE: Final = 240.0
"""Seconds within which a hub that runs has decided and signed; helm waits five minutes for a hook."""

Opened = Callable[[str], AbstractAsyncContextManager[Port]]
"""Opens the hub by a kubeconfig."""


class NotJoined(Exception):
    """The hub did not let this member in; the message says why and what to do."""


class Refused(NotJoined):
    """The request was denied: the same key would only find the same answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """The Secret that holds the credential."""

    name: str
    namespace: str


class Joiner:
    """Joins, and renews; all writes of the Secret carry the version they are based on."""

    def __init__(self, local: Port, *, clock: Clock, cluster: str, place: Place, opened: Opened) -> None:
        self._local = local
        self._clock = clock
        self._cluster = cluster
        self._place = place
        self._opened = opened

    async def join(self, hub: Hub, *, token: str) -> bool:
        """Get the first credential; False where there is a good one already, and the token is left alone. Raises NotJoined,
        ApiError."""
        tree = await self._read()
        parts = credential.parts_of(tree) if tree is not None else {}
        if KUBECONFIG in parts and not self._expired(parts):
            return False
        if NEXT_KEY not in parts:
            parts = {**parts, NEXT_KEY: credential.new_key()}
            tree = await self._write(parts, before=tree)
            parts = credential.parts_of(tree)
        await self._ask(hub, credential.token_kubeconfig(hub, cluster=self._cluster, token=token), key=parts[NEXT_KEY])
        return True

    async def renew(self) -> float:
        """Renew if that is due; the seconds until it is due next. Raises NotJoined, ApiError, ValueError."""
        tree = await self._read()
        parts = credential.parts_of(tree) if tree is not None else {}
        if KUBECONFIG not in parts or CERTIFICATE not in parts:
            raise NotJoined(f"secret {self._place.namespace}/{self._place.name} holds no certificate to renew")
        left = (credential.renewal_due(parts[CERTIFICATE]) - self._clock.now()).total_seconds()
        if left > 0:
            return left
        if NEXT_KEY not in parts:
            tree = await self._write({**parts, NEXT_KEY: credential.new_key()}, before=tree)
            parts = credential.parts_of(tree)
        config = parts[KUBECONFIG].decode()
        certificate = await self._ask(credential.hub_of(config), config, key=parts[NEXT_KEY])
        return max((credential.renewal_due(certificate) - self._clock.now()).total_seconds(), PAUSE)

    def _expired(self, parts: dict[str, bytes]) -> bool:
        return CERTIFICATE in parts and credential.expired(parts[CERTIFICATE], now=self._clock.now())

    async def _ask(self, hub: Hub, config: str, *, key: bytes) -> bytes:
        """Get the certificate for a key and keep both; a key that was refused is given up."""
        try:
            certificate = await self._certified(config, key=key)
        except Refused:
            await self._drop(key)
            raise
        await self._keep(hub, certificate=certificate, key=key)
        return certificate

    # --- the hub -----------------------------------------------------------------------------------------------------

    async def _certified(self, config: str, *, key: bytes) -> bytes:
        """The certificate for a key, PEM."""
        name = joining.request_name(self._cluster, digest=credential.digest(key))
        pem = credential.signing_request(key, cluster=self._cluster)
        try:
            async with self._opened(config) as hub:
                try:
                    await hub.create(kinds.SIGNING_REQUEST, joining.request(name, pem=pem, cluster=self._cluster, seconds=LIFE))
                except errors.AlreadyExists:
                    log.info("request %s is there already", name)
                async for tree in self._looks(hub, name):
                    found = self._signed(tree)
                    if found is not None:
                        return found
        except errors.Unauthorized:
            raise NotJoined(
                "the hub does not know this credential: a token that was used or has expired, or a certificate that has. "
                "`fedctl cluster join` makes another token"
            ) from None
        raise NotJoined(
            f"request {name} was not decided and signed within {PATIENCE:.0f} s: does a hub run, and does it sign client "
            "certificates? Where it does not, join with --credential serviceaccount"
        )

    def _signed(self, tree: dict[str, Any]) -> bytes | None:
        for type in ("Denied", "Failed"):
            refused = joining.condition(tree, type)
            if refused is not None:
                raise Refused(f"the hub refused: {refused.get('message') or refused.get('reason') or type}")
        certificate = (tree.get("status") or {}).get("certificate")
        return base64.b64decode(certificate) if certificate else None

    async def _looks(self, hub: Port, name: str) -> AsyncIterator[dict[str, Any]]:
        """The request again and again: a token lets nobody watch."""
        pause, until = PAUSE, self._clock.boot() + PATIENCE
        while True:
            yield orjson.loads(await hub.get(kinds.SIGNING_REQUEST, name))
            if self._clock.boot() + pause > until:
                return
            await self._clock.sleep(pause)
            pause = min(pause * 2, PAUSE_LIMIT)

    # --- the Secret --------------------------------------------------------------------------------------------------

    async def _keep(self, hub: Hub, *, certificate: bytes, key: bytes) -> None:
        """Store what was signed. Another replica may have done so, or may be a step ahead: its word stands."""
        tree = await self._read()
        present = credential.parts_of(tree) if tree is not None else {}
        if present.get(NEXT_KEY) != key:
            return
        config = credential.kubeconfig(hub, cluster=self._cluster, certificate=certificate, key=key)
        parts = {KEY: key, CERTIFICATE: certificate, CA: hub.authority, KUBECONFIG: config.encode()}
        await self._write(parts, before=tree)

    async def _drop(self, key: bytes) -> None:
        tree = await self._read()
        parts = credential.parts_of(tree) if tree is not None else {}
        if parts.get(NEXT_KEY) == key:
            await self._write({part: value for part, value in parts.items() if part != NEXT_KEY}, before=tree)

    async def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads(
                await self._local.get(kinds.SECRET, self._place.name, namespace=self._place.namespace)
            )
        except errors.NotFound:
            return None
        return found

    async def _write(self, parts: dict[str, bytes], *, before: dict[str, Any] | None) -> dict[str, Any]:
        """The Secret as it is afterwards: ours, or that of a replica which was first."""
        name, namespace = self._place.name, self._place.namespace
        version = before["metadata"]["resourceVersion"] if before is not None else ""
        body = credential.secret(name, namespace=namespace, parts=parts, version=version)
        try:
            if before is None:
                document = await self._local.create(kinds.SECRET, body, namespace=namespace)
            else:
                document = await self._local.replace(kinds.SECRET, name, body, namespace=namespace)
        except (errors.AlreadyExists, errors.Conflict):
            document = await self._local.get(kinds.SECRET, name, namespace=namespace)
        found: dict[str, Any] = orjson.loads(document)
        return found
