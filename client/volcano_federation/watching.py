"""One object over time: every version of it that the API server tells of, to the end of the object."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Final, Literal

from volcano_federation.errors import ApiError, Expired, FederationError, NotFound, Unreachable
from volcano_federation.nouns import Doc, Ref, Workload, workload
from volcano_federation.transport import Door, Sleep

FIRST: Final = 1.0
LONGEST: Final = 30.0
"""Seconds before a watch that broke is begun anew: the first pause, doubled up to the longest."""
WATCH: Final = 300
"""Seconds after which the API server ends a watch; it is begun anew where it ended."""

Change = Literal["Seen", "Changed", "Deleted"]


@dataclass(frozen=True, slots=True)
class Event:
    """`Seen`: as it is when one begins to look; `Changed`; `Deleted`: the last there was of it."""

    change: Change
    object: Workload


async def watch(door: Door, ref: Ref, *, sleep: Sleep) -> AsyncGenerator[Event, None]:
    """From what is there to its deletion, or that of the object that had its name. Breaks are mended; NotFound where there is
    none to begin with."""
    seen = workload(await door.ask("GET", ref.path, about=str(ref)), ref.kind)
    yield Event("Seen", seen)
    pause = FIRST
    while True:
        quiet = True
        try:
            async with contextlib.aclosing(_changes(door, ref, seen.version)) as changes:
                async for change, document in changes:
                    quiet, pause = False, FIRST
                    if change == "BOOKMARK":
                        seen = _moved(seen, document)
                        continue
                    new = workload(document, ref.kind)
                    if change == "DELETED" or new.uid != seen.uid:
                        yield Event("Deleted", new if new.uid == seen.uid else seen)
                        return
                    seen = new
                    yield Event("Changed", seen)
        except Expired:
            found = await _again(door, ref, seen)
            quiet = False
            if found is None:
                yield Event("Deleted", seen)
                return
            if found.version != seen.version:
                seen = found
                yield Event("Changed", seen)
        except Unreachable:
            pass
        except ApiError as error:
            if error.code < 500 and error.code != 429:
                raise
        if quiet:
            await sleep(pause)
            pause = min(2 * pause, LONGEST)


async def _again(door: Door, ref: Ref, seen: Workload) -> Workload | None:
    try:
        found = workload(await door.ask("GET", ref.path, about=str(ref)), ref.kind)
    except NotFound:
        return None
    return found if found.uid == seen.uid else None


async def _changes(door: Door, ref: Ref, version: str) -> AsyncGenerator[tuple[str, Doc], None]:
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={ref.name}",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(WATCH),
    }
    path = ref.kind.path(namespace=ref.namespace)
    async with contextlib.aclosing(door.lines(path, about=str(ref), query=query)) as lines:
        async for line in lines:
            try:
                event = json.loads(line)
                change, document = str(event["type"]), event["object"]
            except (ValueError, KeyError, TypeError) as error:
                raise FederationError(f"this is no watch: {error}", about=str(ref)) from error
            if change == "ERROR":
                code = int(document.get("code") or 0)
                if code == 410:
                    raise Expired(str(document.get("message") or ""), about=str(ref), reason="Expired", code=code)
                raise Unreachable(str(document.get("message") or "the watch ended"), about=str(ref))
            yield change, document


def _moved(seen: Workload, bookmark: Doc) -> Workload:
    """The same, known to be current at a later version."""
    return replace(seen, version=str(bookmark["metadata"]["resourceVersion"]))
