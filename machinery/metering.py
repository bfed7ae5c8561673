"""A port that counts: how many requests of which verb and kind went through, and which writes, one by one.

The budgets of protocol.md 7 are tested with it, and the programs take their request metrics from it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from apis.kinds import POD, Kind
from machinery.clock import Clock
from machinery.errors import ApiError
from machinery.port import (
    WATCH_TIMEOUT,
    Body,
    Document,
    Impersonator,
    Page,
    PatchType,
    Port,
    Preconditions,
    Propagation,
    WatchEvent,
)


class RequestMetrics(Protocol):
    """What a metered port tells about each request; see `machinery.metrics`."""

    def requested(self, verb: str, kind: str, *, outcome: str, seconds: float) -> None:
        """`outcome` is "ok" or the name of the error class."""
        ...


class Write(NamedTuple):
    """One write that was sent, successful or not; `namespace` and `subresource` None where there is none, `name` "" for a
    create whose name the server makes."""

    verb: str
    kind: Kind
    namespace: str | None
    name: str
    subresource: str | None = None


class _Counting:
    """One request while it lasts. A generator would cost as much again as everything that is counted here."""

    __slots__ = ("_begun", "_kind", "_port", "_verb")

    def __init__(self, port: MeteredPort, verb: str, kind: str) -> None:
        self._port = port
        self._verb = verb
        self._kind = kind

    def __enter__(self) -> None:
        self._begun = self._port._begun(self._verb, self._kind)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        outcome = kind.__name__ if kind is not None and issubclass(kind, ApiError) else "ok"
        self._port._ended(self._verb, self._kind, begun=self._begun, outcome=outcome)


class MeteredPort:
    """`port`, counted. `requests` maps (verb, kind name) to how many were sent; `writes` keeps each write unless
    `keep_writes` is False, as it is in a program that runs for months. Request durations need a `clock`."""

    def __init__(
        self,
        port: Port,
        *,
        metrics: RequestMetrics | None = None,
        clock: Clock | None = None,
        keep_writes: bool = True,
    ) -> None:
        self._port = port
        self._metrics = metrics
        self._clock = clock
        self._keep = keep_writes
        self.requests: Counter[tuple[str, str]] = Counter()
        self.writes: list[Write] = []

    def acting_as(self, user: str) -> Self:
        """See `machinery.port.Impersonator`; counted here as well."""
        if not isinstance(self._port, Impersonator):
            raise TypeError(f"{type(self._port).__name__} cannot ask in somebody else's name")
        other = copy.copy(self)
        other._port = self._port.acting_as(user)
        return other

    def _counted(self, verb: str, kind: str) -> _Counting:
        return _Counting(self, verb, kind)

    def _written(self, verb: str, kind: Kind, *, namespace: str | None, name: str, subresource: str | None = None) -> _Counting:
        if self._keep:
            self.writes.append(Write(verb, kind, namespace, name, subresource))
        return _Counting(self, verb, kind.name if subresource is None else f"{kind.name}/{subresource}")

    def _begun(self, verb: str, kind: str) -> float:
        """One more request; when it began, as `_ended` wants it back."""
        self.requests[verb, kind] += 1
        return self._clock.boot() if self._clock is not None else 0.0

    def _ended(self, verb: str, kind: str, *, begun: float, outcome: str) -> None:
        if self._metrics is not None:
            seconds = self._clock.boot() - begun if self._clock is not None else 0.0
            self._metrics.requested(verb, kind, outcome=outcome, seconds=seconds)

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        with self._counted("get", kind.name):
            return await self._port.get(kind, name, namespace=namespace)

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        with self._counted("list", kind.name):
            return await self._port.list(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            )

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        send_initial: bool = False,
        timeout: float = WATCH_TIMEOUT,
    ) -> AsyncIterator[WatchEvent]:
        stream = self._port.watch(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            send_initial=send_initial,
            timeout=timeout,
        )
        with self._counted("watch", kind.name):
            try:
                async for event in stream:
                    yield event
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        name = str(body.get("metadata", {}).get("name", "")) if isinstance(body, Mapping) else ""
        if dry_run:
            with self._counted("dry-run", kind.name):
                return await self._port.create(kind, body, namespace=namespace, dry_run=True)
        with self._written("create", kind, namespace=namespace, name=name):
            return await self._port.create(kind, body, namespace=namespace)

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        with self._written("replace", kind, namespace=namespace, name=name, subresource=subresource):
            return await self._port.replace(kind, name, body, namespace=namespace, subresource=subresource)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        with self._written("patch", kind, namespace=namespace, name=name, subresource=subresource):
            return await self._port.patch(
                kind,
                name,
                body,
                type=type,
                namespace=namespace,
                subresource=subresource,
                field_manager=field_manager,
                force=force,
            )

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        with self._written("delete", kind, namespace=namespace, name=name):
            await self._port.delete(
                kind,
                name,
                namespace=namespace,
                preconditions=preconditions,
                propagation=propagation,
                grace_seconds=grace_seconds,
            )

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        with self._written("bind", POD, namespace=namespace, name=pod, subresource="binding"):
            await self._port.bind(pod, namespace=namespace, node=node, uid=uid)

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        with self._counted(method.lower(), "raw"):  # paths are no metric labels: they carry names
            return await self._port.request(method, path, body=body)

    async def close(self) -> None:
        await self._port.close()
