"""What the in-memory API server answers besides objects: version, health, discovery, access reviews, evictions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from apis import kinds
from apis.kinds import Kind
from machinery.port import Body, Document
from simulator.evictions import evict

if TYPE_CHECKING:
    from simulator.server import ApiServer

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "linux/amd64"}
HEALTH = frozenset({"/readyz", "/livez", "/healthz"})
SERVED: tuple[Kind, ...] = tuple(value for value in vars(kinds).values() if isinstance(value, Kind))

_RESOURCES = re.compile(r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)$")
_EVICTION = re.compile(r"^/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<pod>[^/]+)/eviction$")
_MYSELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = re.compile(r"^/apis/authorization\.k8s\.io/v1/(subjectaccessreviews|selfsubjectaccessreviews)$")


def answer(server: ApiServer, method: str, path: str, *, body: Body | None) -> Document:
    """The document at a path that is no object; NotFound for anything unknown."""
    if path in HEALTH:
        return b"ok"
    if path == "/version":
        return orjson.dumps(VERSION)
    if method == "POST" and _REVIEW.match(path) and body is not None:
        review = server.decode(body)
        review["status"] = {"allowed": server.access(review.get("spec") or {})}
        return orjson.dumps(review)
    if method == "POST" and path == _MYSELF:
        info = {"username": server.user.name, "groups": [*server.user.groups]}
        return orjson.dumps({"kind": "SelfSubjectReview", "status": {"userInfo": info}})
    if method == "POST" and (match := _EVICTION.match(path)) and body is not None:
        evict(server, match["pod"], namespace=match["namespace"], body=server.decode(body))
        return orjson.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"})
    if path == "/apis":
        return orjson.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()})
    if match := _RESOURCES.match(path):
        found = [_resource(kind) for kind in SERVED if (kind.group, kind.version) == (match["group"] or "", match["version"])]
        if found:
            group_version = "/".join(part for part in (match["group"], match["version"]) if part)
            listing = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}
            return orjson.dumps(listing)
    raise server.failure(404, "NotFound", "the server could not find the requested resource")


def _groups() -> list[dict[str, Any]]:
    versions: dict[str, dict[str, None]] = {}
    for kind in SERVED:
        if kind.group:
            versions.setdefault(kind.group, {})[kind.version] = None
    return [
        {"name": group, "versions": [{"groupVersion": f"{group}/{v}", "version": v} for v in there]}
        for group, there in sorted(versions.items())
    ]


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": [],
    }
