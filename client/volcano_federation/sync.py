"""The same, for programs that do not await: `with Federation.from_kubeconfig() as fed: job = fed.submit(...)`.

The connection lives in a thread of its own, so that this also works in a notebook, where a loop runs already. Interrupting a
call (Ctrl-C) ends it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from volcano_federation import federation, kubeconfig
from volcano_federation.errors import FederationError
from volcano_federation.federation import Target
from volcano_federation.kubeconfig import Place
from volcano_federation.logs import Line
from volcano_federation.manifests import Manifest
from volcano_federation.nouns import Doc, Workload
from volcano_federation.reviewing import Answer
from volcano_federation.watching import Event

T = TypeVar("T")


class Federation:
    """See `volcano_federation.Federation`; `with` instead of `async with`, `for` instead of `async for`."""

    def __init__(self, place: Place) -> None:
        self._inner = federation.Federation(place)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def from_kubeconfig(
        cls, path: str | os.PathLike[str] | None = None, *, context: str | None = None, namespace: str | None = None
    ) -> Self:
        """By a context of a kubeconfig: None for what kubectl would take."""
        return cls(kubeconfig.read(path, context=context, namespace=namespace))

    @classmethod
    def in_cluster(cls) -> Self:
        """From a pod in the hub's cluster, by its ServiceAccount."""
        return cls(kubeconfig.in_cluster())

    @property
    def namespace(self) -> str:
        """Where names are looked for."""
        return self._inner.namespace

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="volcano-federation", daemon=True)
        self._thread.start()
        self._run(self._inner.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._run(self._inner.__aexit__(None, None, None))
        self._run(loop.shutdown_asyncgens())
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def submit(self, manifest: Manifest, *, namespace: str | None = None) -> Workload:
        """Make the objects of a manifest; the one Job or JobFlow that they are about."""
        return self._run(self._inner.submit(manifest, namespace=namespace))

    def submit_all(self, manifest: Manifest, *, namespace: str | None = None) -> list[Doc]:
        """Make the objects of a manifest, as they were made."""
        return self._run(self._inner.submit_all(manifest, namespace=namespace))

    def get(self, target: Target, *, namespace: str | None = None) -> Workload:
        """As it is now."""
        return self._run(self._inner.get(target, namespace=namespace))

    def list(
        self,
        what: Literal["jobs", "flows"] = "jobs",
        *,
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
    ) -> list[Workload]:
        """All of a namespace, or of all that one may see."""
        return self._run(self._inner.list(what, namespace=namespace, everywhere=everywhere, labels=labels))

    def watch(self, target: Target, *, namespace: str | None = None) -> Iterator[Event]:
        """As it is, and every change, until it has ended or is deleted."""
        return self._each(self._inner.watch(target, namespace=namespace))

    def wait(
        self, target: Target, *, timeout: float | None = None, check: bool = False, namespace: str | None = None
    ) -> Workload:
        """As it has ended; NotEnded after `timeout` seconds, Failed with `check` unless it ended well."""
        return self._run(self._inner.wait(target, timeout=timeout, check=check, namespace=namespace))

    def logs(
        self,
        target: Target,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: int | None = None,
        task: str = "",
        pod: str = "",
        container: str = "",
        previous: bool = False,
        namespace: str | None = None,
    ) -> Iterator[Line]:
        """What its pods print, in all clusters."""
        return self._each(
            self._inner.logs(
                target,
                follow=follow,
                tail=tail,
                since=since,
                task=task,
                pod=pod,
                container=container,
                previous=previous,
                namespace=namespace,
            )
        )

    def plan(
        self, manifest: Manifest, *, relax: Sequence[Mapping[str, Any]] = (), suggest: bool = True, namespace: str | None = None
    ) -> Answer:
        """What would become of it; nothing of it is made."""
        return self._run(self._inner.plan(manifest, relax=relax, suggest=suggest, namespace=namespace))

    def explain(self, target: Target, *, relax: Sequence[Mapping[str, Any]] = (), namespace: str | None = None) -> Answer:
        """Why a Job runs where it runs, or why it waits."""
        return self._run(self._inner.explain(target, relax=relax, namespace=namespace))

    def suspend(self, target: Target, *, namespace: str | None = None) -> Workload:
        """Stop and hold."""
        return self._run(self._inner.suspend(target, namespace=namespace))

    def resume(self, target: Target, *, namespace: str | None = None) -> Workload:
        """Let it go on."""
        return self._run(self._inner.resume(target, namespace=namespace))

    def delete(self, target: Target, *, wait: bool = True, namespace: str | None = None) -> None:
        """Delete it, and wait until it is gone everywhere."""
        self._run(self._inner.delete(target, wait=wait, namespace=namespace))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise FederationError("use it in `with`: it is not open")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while True:
                try:
                    item = self._run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if self._loop is not None:
                self._run(items.aclose())


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
