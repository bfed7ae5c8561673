"""Finds where the pods of a Job are, and asks all these members for their logs at once."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from apis import keys, kinds, naming, runs
from apis.runs import BindingRun, PartState, UnreadableRun
from controllers.channel.messages import LogOptions
from federation.channel.switchboard import Leg, Reception, Switchboard
from machinery import errors
from machinery.port import Port


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode = msgspec.json.Decoder(_Object).decode

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """A Job that runs, or ran: its UID, and per member how many pods of which task are there (None: all of them)."""

    uid: str
    parts: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is nothing to ask; `code` as of HTTP, `reason` as of Kubernetes."""

    code: int
    reason: str
    text: str


async def find(port: Port, *, namespace: str, name: str) -> Found | Missing:
    """Where the pods of a hub Job are now. ApiError when the API server does not say."""
    try:
        job = _decode(await port.get(kinds.JOB, name, namespace=namespace))
    except errors.NotFound:
        return Missing(404, "NotFound", f'{kinds.JOB.name} "{name}" not found')
    except errors.Invalid as error:
        return Missing(400, "BadRequest", error.message)
    waits = Missing(400, "BadRequest", f"Job {namespace}/{name} waits and has no pods yet")
    try:
        binding = _decode(await port.get(kinds.RESOURCE_BINDING, naming.binding_name(name), namespace=namespace))
        text = (binding.metadata.annotations or {}).get(keys.RUN, "null")
        run = runs.decode_binding(text, where=f"binding of Job {namespace}/{name}")
    except errors.NotFound:
        return waits
    except UnreadableRun as error:
        return Missing(400, "BadRequest", str(error))
    parts = parts_of(run)
    return Found(job.metadata.uid, parts) if run.job == job.metadata.uid and parts else waits


def parts_of(run: BindingRun) -> Mapping[str, Mapping[str, int] | None]:
    """Members that have pods of this run, or may have."""
    return {
        name: {task: share.replicas for task, share in part.shares.items()} or None
        for name, part in sorted(run.parts.items())
        if part.state is not PartState.GONE
    }


def options_of(query: Mapping[str, str]) -> LogOptions | str:
    """What somebody asks for, by the names that `GET pods/log` has; a sentence where it cannot be understood."""
    known = {"follow", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "previous", "container", "task", "pod", "format"}
    unknown = sorted(set(query) - known)
    if unknown:
        return f"{unknown[0]}: no such parameter; there are {', '.join(sorted(known))}"
    flags = {name: query.get(name, "false").lower() for name in ("follow", "timestamps", "previous")}
    for name, value in flags.items():
        if value not in ("true", "false", "1", "0", ""):
            return f"{name}: {value[:50]!r} is neither true nor false"
    numbers = {name: query[name] for name in ("tailLines", "sinceSeconds") if query.get(name)}
    for name, value in numbers.items():
        if not re.fullmatch(r"[0-9]{1,10}", value) or int(value) > MOST:
            return f"{name}: {value[:50]!r} is no whole number from 0 to {MOST}"
    for name in ("container", "task", "pod"):
        if query.get(name) and not NAME.fullmatch(query[name]):
            return f"{name}: {query[name][:50]!r} is no name"
    since = query.get("sinceTime", "")
    if since and not TIME.fullmatch(since):
        return f"sinceTime: {since[:50]!r} is no time as of RFC 3339"
    if since and "sinceSeconds" in numbers:
        return "sinceTime and sinceSeconds exclude each other"
    on = {name: value in ("true", "1") for name, value in flags.items()}
    return LogOptions(
        follow=on["follow"],
        tail_lines=int(numbers["tailLines"]) if "tailLines" in numbers else None,
        since_seconds=int(numbers["sinceSeconds"]) if "sinceSeconds" in numbers else None,
        since_time=since,
        timestamps=on["timestamps"],
        previous=on["previous"],
        container=query.get("container", ""),
        task=query.get("task", ""),
        pod=query.get("pod", ""),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """Logs on their way: what comes, and the legs it comes on."""

    reception: Reception
    legs: tuple[Leg, ...]

    @property
    def came(self) -> bool:
        """Whether any member sent anything."""
        return any(leg.came for leg in self.legs)

    @property
    def trouble(self) -> str:
        """Why members sent nothing, in a sentence."""
        return "; ".join(f"cluster {leg.cluster}: {leg.trouble}" for leg in self.legs if leg.trouble)


@contextlib.asynccontextmanager
async def reading(
    switchboard: Switchboard, found: Found, *, namespace: str, options: LogOptions, patience: float
) -> AsyncIterator[Reading]:
    """Ask, and wait until the first member answers or none will; each has `patience` seconds. All are told when the block
    ends."""
    reception = Reception()
    asked = [
        switchboard.logs(cluster, job=found.uid, namespace=namespace, options=options, reception=reception)
        for cluster, shares in found.parts.items()
        if shares is None or not options.task or shares.get(options.task)
    ]
    waiting = {asyncio.create_task(_begun(leg, patience), name=f"begun-{leg.cluster}") for leg in asked}
    try:
        left = waiting
        while left and not any(leg.came for leg in asked):
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        yield Reading(reception, tuple(asked))
    finally:
        for task in waiting:
            task.cancel()
        for leg in asked:
            leg.drop()


async def _begun(leg: Leg, patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            await leg.begun.wait()
    except TimeoutError:
        leg.end(f"its agent has not answered within {patience:.0f} s")
