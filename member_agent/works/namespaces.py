"""Namespaces that work from the hub needs here."""

from __future__ import annotations

import contextlib

from apis import keys, kinds
from machinery import errors
from machinery.port import Port


class Namespaces:
    """Makes what is missing, and remembers what was there; `forget` when that turns out to be wrong."""

    def __init__(self, local: Port) -> None:
        self._local = local
        self._known: set[str] = set()

    async def ensure(self, name: str) -> None:
        """It is there afterwards, marked as made for the hub where it was missing."""
        if name in self._known:
            return
        try:
            await self._local.get(kinds.NAMESPACE, name)
        except errors.NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {keys.MANAGED_LABEL: "true"}}}
            with contextlib.suppress(errors.AlreadyExists):
                await self._local.create(kinds.NAMESPACE, body)
        self._known.add(name)

    def forget(self, name: str) -> None:
        """Somebody may have deleted it."""
        self._known.discard(name)
