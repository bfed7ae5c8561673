"""Where one command is carried out: the hub by a light door, the namespace, and where to say what was found.

What goes wrong is a sentence and an exit code; a trace is for mistakes of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from apis.kinds import Kind
from fedctl import exits
from fedctl.light import BadKubeconfig, Chosen, LightPort, choose
from machinery import errors
from machinery.port import Body, Document, Page, PatchType, Preconditions, Propagation

PAGE: Final = 500
INTERRUPTED: Final = 130


class Asks(Protocol):
    """What a command asks of a hub: `machinery.port.Port` without watches."""

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document: ...

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page: ...

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document: ...

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
    ) -> Document: ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None: ...

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of where: None for what the kubeconfig says."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """A command's place of work; `clock` tells wall time."""

    port: Asks
    namespace: str
    clock: Callable[[], datetime.datetime]
    options: Options = field(default_factory=Options)
    out: Callable[[str], None] = lambda text: print_to(sys.stdout, text)
    err: Callable[[str], None] = lambda text: print_to(sys.stderr, text)

    @property
    def now(self) -> datetime.datetime:
        return self.clock()


def print_to(stream: TextIO, text: str) -> None:
    """A line; whoever reads it may have gone, as `head` does."""
    with contextlib.suppress(BrokenPipeError):
        stream.write(f"{text}\n")


class Stop(Exception):
    """Ends a command with a sentence and an exit code."""

    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        self.text, self.code = text, code


Action = Callable[[Desk], Coroutine[Any, Any, int]]


async def carry_out(options: Options, action: Action, *, clock: Callable[[], datetime.datetime]) -> int:
    """The exit code of the action."""
    try:
        chosen = choose(options.kubeconfig, options.context)
        async with opened(chosen) as port:
            return await action(Desk(port, options.namespace or chosen.namespace, clock, options))
    except Exception as error:  # noqa: BLE001  what is no mistake of the user's is raised again
        text, code = explained(error)
        print_to(sys.stderr, f"error: {text}")
        return code


@contextlib.asynccontextmanager
async def opened(chosen: Chosen) -> AsyncIterator[Asks]:
    """The light door, or the other one where the kubeconfig asks for more."""
    if chosen.is_plain:
        light = LightPort(chosen)
        try:
            yield light
        finally:
            await light.close()
        return
    from machinery.kube import KubePort

    port = await KubePort.from_kubeconfig(str(chosen.path), context=chosen.context)
    try:
        yield port
    finally:
        await port.close()


def explained(error: Exception) -> tuple[str, int]:
    """A sentence and an exit code; raises what is nobody's mistake but ours."""
    match error:
        case Stop():
            return error.text, error.code
        case BadKubeconfig():
            return str(error), exits.NO_SERVER
        case errors.Unauthorized():
            return f"the hub does not know this credential, or it has expired: {error.message}", exits.NOT_ALLOWED
        case errors.Forbidden():
            return f"not allowed: {error.message}", exits.NOT_ALLOWED
        case errors.NotFound():
            return f"not found: {error.message}", exits.NOT_FOUND
        case errors.Invalid() | errors.Conflict() | errors.TooLarge():
            told = [f"{cause.field}: {cause.message}" for cause in error.causes if cause.field]
            return f"the hub refused: {'; '.join(told) or error.message}", exits.REFUSED
        case errors.ApiError():
            return f"the hub cannot be reached: {error.message}", exits.NO_SERVER
        case OSError():
            return str(error), exits.USAGE
    raise error


def run(options: Options, action: Action) -> int:
    """Carry out, from a synchronous command."""
    from machinery.clock import SystemClock

    try:
        return asyncio.run(carry_out(options, action, clock=SystemClock().now))
    except KeyboardInterrupt:
        return INTERRUPTED


async def every(port: Asks, kind: Kind, *, namespace: str | None, labels: str = "") -> list[Document]:
    """All objects of a kind, page by page."""
    found: list[Document] = []
    token = ""
    while True:
        page = await port.list(kind, namespace=namespace, labels=labels, limit=PAGE, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found
