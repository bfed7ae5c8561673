"""Telling an API server which requests go to the webhook server, and whom to trust there.

One configuration per webhook, applied server-side, with a label that makes it ours. One of the same name without the label is
somebody else's (an installed Volcano's) and left alone, and the log says so. The leader alone writes, so that replicas of two
versions do not fight.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis import keys, kinds
from apis.kinds import Kind
from controllers.admission.keyring import Keyring
from controllers.admission.settings import AdmissionSettings
from controllers.admission.webhooks import Verb, Webhook
from machinery import errors
from machinery.clock import Clock
from machinery.crds import MANAGER
from machinery.informer import Informers
from machinery.port import Document, PatchType, Port

log = logging.getLogger(__name__)

LABEL: Final = "app.kubernetes.io/part-of"
PART_OF: Final = "volcano-federation"
SELECTOR: Final = f"{LABEL}={PART_OF}"
EXCLUDED: Final = (keys.SYSTEM_NAMESPACE, "kube-system")
"""Namespaces whose objects are never asked about: without what runs there nobody could answer."""
KINDS: Final = {Verb.MUTATE: kinds.MUTATING_WEBHOOKS, Verb.VALIDATE: kinds.VALIDATING_WEBHOOKS}
RETRY: Final = 10.0
"""Seconds after which what was refused is tried again."""

Manifest = dict[str, Any]


def configuration(webhook: Webhook, *, settings: AdmissionSettings, bundle: bytes) -> Manifest:
    """The configuration of one webhook."""
    kind = KINDS[webhook.verb]
    rule = {
        "apiGroups": [webhook.kind.group],
        "apiVersions": [webhook.kind.version],
        "operations": list(webhook.operations),
        "resources": [webhook.kind.plural],
        "scope": "Namespaced" if webhook.kind.namespaced else "Cluster",
    }
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXCLUDED)}
    entry: Manifest = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(webhook, settings=settings, bundle=bundle),
        "failurePolicy": "Fail" if webhook.fails else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [outside]},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout,
    }
    if webhook.conditions:
        entry["matchConditions"] = [{"name": each.name, "expression": each.expression} for each in webhook.conditions]
    if webhook.verb is Verb.MUTATE:
        entry["reinvocationPolicy"] = "Never"
    meta = {"name": webhook.configuration, "labels": {LABEL: PART_OF}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "webhooks": [entry]}


def _client(webhook: Webhook, *, settings: AdmissionSettings, bundle: bytes) -> Manifest:
    trust = {"caBundle": base64.b64encode(bundle).decode()}
    if settings.url:
        return {**trust, "url": settings.url.rstrip("/") + webhook.path}
    service = {
        "name": settings.service,
        "namespace": settings.namespace,
        "path": webhook.path,
        "port": settings.service_port,
    }
    return {**trust, "service": service}


@dataclass(frozen=True, slots=True)
class Registered:
    """A configuration that carries our label."""

    namespace: str
    name: str
    uid: str
    version: str


def read(document: Document) -> Registered:
    """A configuration."""
    meta = orjson.loads(document)["metadata"]
    return Registered("", meta["name"], meta["uid"], meta["resourceVersion"])


class Registration:
    """Keeps the configurations as they should be while this process leads. Those of ours that no webhook asks for any more are
    removed, and all of them where admission is switched off (`keyring` is None)."""

    def __init__(
        self,
        port: Port,
        *,
        informers: Informers,
        clock: Clock,
        settings: AdmissionSettings,
        webhooks: Sequence[Webhook],
        keyring: Keyring | None,
    ) -> None:
        self._port = port
        self._clock = clock
        self._settings = settings
        self._webhooks = tuple(webhooks)
        self._keyring = keyring
        self._wake = asyncio.Event()
        self._foreign: set[str] = set()
        self._stores = {kind: informers.add(kind, read, labels=SELECTOR) for kind in KINDS.values()}
        self._applied: dict[str, tuple[str, Manifest]] = {}
        for store in self._stores.values():
            store.subscribe(lambda change: self._wake.set())

    async def run(self) -> None:
        """Apply and remove until cancelled; it acts when the certificates or a configuration change, and is silent else."""
        for store in self._stores.values():
            await store.wait_synced()
        if self._keyring is None:
            await self._keep()
            return
        await self._keyring.wait_ready()
        with self._keyring.listening(self._wake.set):
            await self._keep()

    async def _keep(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._round()
            except errors.ApiError as error:
                log.warning("webhook configurations: %s; again in %.0f s", error, RETRY)
                await self._clock.sleep(RETRY)
                continue
            await self._clock.sleep(self._settings.pace)
            await self._wake.wait()

    async def _round(self) -> None:
        wanted = self._webhooks if self._keyring is not None else ()
        names = {(KINDS[webhook.verb], webhook.configuration) for webhook in wanted}
        for kind, store in self._stores.items():
            for each in store.sorted():
                if (kind, each.name) not in names:
                    await self._remove(kind, each.name)
        for webhook in wanted:
            await self._apply(webhook)

    async def _remove(self, kind: Kind, name: str) -> None:
        try:
            await self._port.delete(kind, name)
        except errors.NotFound:
            return
        log.info("%s %s is removed", kind.kind, name)

    async def _apply(self, webhook: Webhook) -> None:
        assert self._keyring is not None
        kind, name = KINDS[webhook.verb], webhook.configuration
        body, known = (
            configuration(webhook, settings=self._settings, bundle=self._keyring.bundle),
            self._stores[kind].get(None, name),
        )
        if known is not None and self._applied.get(webhook.path) == (known.version, body):
            return
        if not self._keyring.bundle or await self._is_foreign(kind, name):
            return
        document = await self._port.patch(kind, name, body, type=PatchType.APPLY, field_manager=MANAGER, force=True)
        self._applied[webhook.path] = (read(document).version, body)

    async def _is_foreign(self, kind: Kind, name: str) -> bool:
        if self._stores[kind].get(None, name) is not None:
            return False
        try:
            meta = orjson.loads(await self._port.get(kind, name))["metadata"]
        except errors.NotFound:
            return False
        foreign = (meta.get("labels") or {}).get(LABEL) != PART_OF
        if foreign and name not in self._foreign:
            log.warning("%s %s is somebody else's and left alone: its requests do not come here", kind.kind, name)
            self._foreign.add(name)
        return foreign
