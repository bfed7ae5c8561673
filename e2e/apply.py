"""What a test or a demo does as a person would with kubectl: apply, and wait by watching."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import yaml

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import EventType, PatchType, Port

Doc = dict[str, Any]

PATIENCE = 90.0
"""Seconds a story waits for one thing on two busy cores."""
_KINDS = {(kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


async def apply(port: Port, manifest: str, *, namespace: str) -> list[Doc]:
    """`kubectl apply --server-side` of every document; the objects as served."""
    served = []
    for doc in yaml.safe_load_all(manifest):
        if doc:
            kind = _KINDS[doc["apiVersion"], doc["kind"]]
            where = doc["metadata"].get("namespace", namespace) if kind.namespaced else None
            name = doc["metadata"]["name"]
            body = await port.patch(kind, name, doc, type=PatchType.APPLY, namespace=where, field_manager="kubectl")
            served.append(orjson.loads(body))
    return served


async def wait_for(
    port: Port,
    kind: Kind,
    name: str,
    *,
    namespace: str | None = None,
    until: Callable[[Doc | None], bool],
    timeout: float = PATIENCE,
) -> Doc | None:
    """The object once it (or its absence, None) satisfies `until`; AssertionError with what was seen last after `timeout` s."""
    seen: list[Doc | None] = [None]
    try:
        async with asyncio.timeout(timeout):
            return await _watch_until(port, kind, name, namespace=namespace, until=until, seen=seen)
    except TimeoutError:
        last = orjson.dumps((seen[-1] or {}).get("status")).decode()
        raise AssertionError(f"{kind.kind} {namespace}/{name} within {timeout:.0f} s; last seen: {last[:1500]}") from None


async def _watch_until(
    port: Port, kind: Kind, name: str, *, namespace: str | None, until: Callable[[Doc | None], bool], seen: list[Doc | None]
) -> Doc | None:
    fields = f"metadata.name={name}"
    while True:
        page = await port.list(kind, namespace=namespace, fields=fields)
        found = orjson.loads(page.items[0]) if page.items else None
        seen.append(found)
        if until(found):
            return found
        try:
            async for event in port.watch(kind, namespace=namespace, fields=fields, resource_version=page.resource_version):
                if event.type is EventType.BOOKMARK:
                    continue
                found = None if event.type is EventType.DELETED else orjson.loads(event.document)
                seen.append(found)
                if until(found):
                    return found
        except errors.Expired:
            continue


def phase(doc: Doc | None) -> str:
    """`status.state.phase` of a Job or JobFlow, "" when there is none."""
    return str((((doc or {}).get("status") or {}).get("state") or {}).get("phase", ""))


def is_ready(doc: Doc | None) -> bool:
    """Condition Ready is True."""
    conditions = ((doc or {}).get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def wait_ready(port: Port, kind: Kind, *, names: Sequence[str]) -> None:
    """Every named cluster-scoped object is Ready."""
    for name in names:
        await wait_for(port, kind, name, until=is_ready)
