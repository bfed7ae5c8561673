"""The Secret that holds the certificates, so that all replicas show and trust the same, and the role that keeps it young.

Every replica may take every step: writes carry the version they are based on, so that of two only one wins and the other
follows. What is shown changes live, with the next connection.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from apis import kinds
from controllers.admission import certificates
from controllers.admission.certificates import BrokenRing, Pair, Ring
from controllers.admission.settings import Lifetimes
from machinery import errors
from machinery.clock import Clock
from machinery.informer import Informers, is_newer
from machinery.port import Port

log = logging.getLogger(__name__)

RETRY: Final = 1.0
"""Seconds before a step that the API server refused is tried again."""
MOMENT: Final = 0.05
"""Seconds by which a look comes later than what is due, so that it does not come too early."""
LONGEST: Final = 3600.0
"""Seconds after which the clock is looked at again at the latest."""
_PARTS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_INCOMING: Final = ("next-ca.crt", "next-ca.key")
_TRUSTED: Final = "old-ca.crt"


@dataclass(frozen=True, slots=True)
class Kept:
    """The Secret as it was read: `ring` is None where it holds none."""

    namespace: str
    name: str
    uid: str
    version: str
    ring: Ring | None


def read(document: bytes) -> Kept:
    """A Secret; one that holds no sound ring is read as having none, and the log says so."""
    secret = orjson.loads(document)
    meta = secret["metadata"]
    try:
        ring: Ring | None = _ring(secret.get("data") or {})
    except BrokenRing as error:
        log.error("secret %s/%s holds no certificates that can be used: %s", meta["namespace"], meta["name"], error)
        ring = None
    return Kept(meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"], ring)


def written(ring: Ring, *, namespace: str, name: str, version: str = "") -> dict[str, Any]:
    """The Secret that holds a ring."""
    data = dict(zip(_PARTS, _flat(ring.authority, ring.serving), strict=True))
    if ring.incoming is not None:
        data |= dict(zip(_INCOMING, _flat(ring.incoming), strict=True))
    if ring.trusted:
        data[_TRUSTED] = ring.trusted
    meta = {"name": name, "namespace": namespace, **({"resourceVersion": version} if version else {})}
    return {
        "apiVersion": kinds.SECRET.api_version,
        "kind": kinds.SECRET.kind,
        "metadata": meta,
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _ring(data: Mapping[str, str]) -> Ring:
    try:
        plain = {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        authority, authority_key, serving, serving_key = (plain[part] for part in _PARTS)
        incoming = Pair(*(plain[part] for part in _INCOMING)) if _INCOMING[0] in plain else None
    except (KeyError, binascii.Error) as error:
        raise BrokenRing(f"{type(error).__name__}: {error}") from error
    ring = Ring(Pair(authority, authority_key), Pair(serving, serving_key), incoming, plain.get(_TRUSTED, b""))
    return certificates.checked(ring)


def _flat(*pairs: Pair) -> list[bytes]:
    return [part for pair in pairs for part in (pair.certificate, pair.key)]


class Keyring:
    """The ring of this replica: kept with the others', shown by `context`."""

    def __init__(
        self,
        port: Port,
        *,
        informers: Informers,
        clock: Clock,
        namespace: str,
        name: str,
        names: Sequence[str],
        lives: Lifetimes,
    ) -> None:
        self.context = server_context()
        self._port = port
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._names = tuple(names)
        self._lives = lives
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._kept: Kept | None = None
        self._secrets = informers.add(kinds.SECRET, read, namespace=namespace, fields=f"metadata.name={name}")
        self._secrets.subscribe(lambda change: self._seen(change.new))

    @property
    def bundle(self) -> bytes:
        """What API servers shall trust; empty before there is anything to show."""
        return self._kept.ring.bundle if self._kept is not None and self._kept.ring is not None else b""

    @property
    def ready(self) -> bool:
        """There is a certificate to show."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Return once there is a certificate to show."""
        await self._ready.wait()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call it in this block whenever `bundle` may have changed."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def run(self) -> None:
        """Keep the ring until cancelled. It sleeps until the next step is due or somebody writes the Secret."""
        await self._secrets.wait_synced()
        while True:
            self._wake.clear()
            wait = await self._round()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def _round(self) -> float:
        """One look at the ring, and the step that is due; seconds until the next look."""
        ring, now = self._kept.ring if self._kept else None, self._clock.now()
        step = certificates.due(ring, now=now, names=self._names, lives=self._lives)
        if step is not None:
            ring = certificates.take(step, ring=ring, now=now, names=self._names, lives=self._lives)
        assert ring is not None
        if step is None and self._kept is not None and self._kept.version:
            return min(certificates.next_due(ring, now=now, lives=self._lives) + MOMENT, LONGEST)
        try:
            await self._write(ring)
        except errors.Conflict:  # another replica was first; its write is on the way to us, or asked for now
            await self._read_again()
        except errors.ApiError as error:
            log.warning("certificates of the webhook server (%s): %s", step or "restore", error)
            return RETRY
        else:
            log.info("certificates of the webhook server: %s", step or "restore")
        return 0.0

    async def _write(self, ring: Ring) -> None:
        version = self._kept.version if self._kept else ""
        body = written(ring, namespace=self._namespace, name=self._name, version=version)
        if version:
            document = await self._port.replace(kinds.SECRET, self._name, body, namespace=self._namespace)
        else:
            document = await self._port.create(kinds.SECRET, body, namespace=self._namespace)
        self._seen(read(document))

    async def _read_again(self) -> None:
        try:
            self._seen(read(await self._port.get(kinds.SECRET, self._name, namespace=self._namespace)))
        except errors.NotFound:
            self._seen(None)
        except errors.ApiError as error:
            log.warning("certificates of the webhook server: %s", error)
            await self._clock.sleep(RETRY)

    def _seen(self, kept: Kept | None) -> None:
        """The Secret as it is now. One that is deleted is written again as it was; what was shown is shown meanwhile."""
        before = self._kept
        if kept is None and before is not None:
            kept = replace(before, uid="", version="")
        elif kept is not None and before is not None and kept.uid == before.uid and not is_newer(kept.version, before.version):
            return  # an echo of the watch from before our own write
        self._kept = kept
        if kept is not None and kept.ring is not None and (before is None or before.ring != kept.ring):
            show(self.context, pair=kept.ring.serving)
            self._ready.set()
        self._wake.set()
        for listener in self._listeners:
            listener()


def server_context() -> ssl.SSLContext:
    """For a TLS server, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def show(context: ssl.SSLContext, *, pair: Pair) -> None:
    """Connections from now on see this certificate. The key passes through a file that only we can read, and that is gone when
    this returns: the library reads nothing else."""
    descriptor, name = tempfile.mkstemp(prefix="webhook-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.certificate + pair.key)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
