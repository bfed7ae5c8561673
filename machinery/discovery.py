"""Where an API server serves a kind that is only known by its name."""

from __future__ import annotations

import orjson

from apis.kinds import Kind
from machinery import errors
from machinery.port import Port


async def find(port: Port, *, api_version: str, kind: str) -> Kind | None:
    """The kind as it is served; None where it is not."""
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        listing = orjson.loads(await port.request("GET", path))
    except errors.NotFound:
        return None
    for each in listing.get("resources") or []:
        if each["kind"] == kind and "/" not in each["name"]:
            return Kind(group, version, kind, each["name"], namespaced=bool(each["namespaced"]))
    return None
