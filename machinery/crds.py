"""Bringing our definitions to an API server without taking anybody else's (protocol.md 8).

A CRD is applied (server-side, as `volcano-federation`, never forced) if it is absent or ours. One that somebody else put
there is compared with ours and left alone; what it lacks is reported, and the caller decides what is off without it. Nothing
is ever deleted.
"""

from __future__ import annotations

import enum
import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from apis.kinds import CRD
from machinery.clock import Clock
from machinery.errors import Conflict, NotFound
from machinery.port import PatchType, Port

MANAGER = "volcano-federation"
"""Field manager of everything we install."""

ESTABLISH = 30.0
"""Seconds for the API server to serve what was applied; it takes about one."""

Doc = dict[str, Any]


class Standing(enum.StrEnum):
    """How a CRD stands after `apply_crds`."""

    APPLIED = "Applied"
    FOREIGN = "Foreign"


@dataclass(frozen=True, slots=True)
class Served:
    """One CRD: its name, whose it is, and for a foreign one the fields of ours that it does not serve, as
    `version:spec.some.field`."""

    name: str
    standing: Standing
    missing: tuple[str, ...] = ()


class NotEstablished(RuntimeError):
    """The API server took a CRD and does not serve it; says which and what its conditions are."""


def packaged() -> list[Doc]:
    """The CRDs that come with this program, by name."""
    folder = importlib.resources.files("apis") / "crds"
    texts = [entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one reads them ten times as fast
    documents = [document for text in texts for document in yaml.load_all(text, Loader=loader) if document]
    return sorted(documents, key=lambda document: str(document["metadata"]["name"]))


async def apply_crds(port: Port, crds: Sequence[Doc], *, clock: Clock) -> list[Served]:
    """Apply what is absent or ours, compare what is not, and wait until everything applied is served."""
    served = [await _bring(port, crd) for crd in crds]
    applied = [crd for crd, result in zip(crds, served, strict=True) if result.standing is Standing.APPLIED]
    for crd in applied:
        await _established(port, crd["metadata"]["name"], clock=clock)
    return served


async def _bring(port: Port, crd: Doc) -> Served:
    name = str(crd["metadata"]["name"])
    try:
        existing: Doc | None = orjson.loads(await port.get(CRD, name))
    except NotFound:
        existing = None
    if existing is not None and not is_ours(existing):
        return Served(name, Standing.FOREIGN, tuple(missing_fields(crd, served=existing)))
    try:
        await port.patch(CRD, name, crd, type=PatchType.APPLY, field_manager=MANAGER)
    except Conflict:  # somebody else owns fields of it by now: it is theirs
        existing = orjson.loads(await port.get(CRD, name))
        return Served(name, Standing.FOREIGN, tuple(missing_fields(crd, served=existing or {})))
    return Served(name, Standing.APPLIED)


async def _established(port: Port, name: str, *, clock: Clock) -> None:
    """Return when the API server says it serves the CRD; NotEstablished after ESTABLISH seconds."""
    deadline = clock.boot() + ESTABLISH
    while True:
        status = orjson.loads(await port.get(CRD, name)).get("status") or {}
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        if conditions.get("Established", {}).get("status") == "True":
            return
        if clock.boot() >= deadline:
            said = [f"{kind}={each['status']}: {each.get('message', '')}" for kind, each in sorted(conditions.items())]
            raise NotEstablished(f"{name} is not served after {ESTABLISH:.0f} s; {'; '.join(said) or 'no conditions'}")
        await clock.sleep(0.2)


def is_ours(crd: Mapping[str, Any]) -> bool:
    """Whether we applied this CRD, as its managed fields tell."""
    managers = crd["metadata"].get("managedFields") or ()
    return any(entry.get("manager") == MANAGER and entry.get("operation") == "Apply" for entry in managers)


def missing_fields(crd: Mapping[str, Any], *, served: Mapping[str, Any]) -> list[str]:
    """The fields our CRD declares that `served` would drop, in order; a version it does not serve is `version:`, a missing
    status subresource `version:status subresource`."""
    theirs = {version["name"]: version for version in served.get("spec", {}).get("versions", ()) if version.get("served")}
    missing: list[str] = []
    for version in crd["spec"]["versions"]:
        name = version["name"]
        if name not in theirs:
            missing.append(f"{name}:")
            continue
        missing += [f"{name}:{path}" for path in _lacking(_schema(version), _schema(theirs[name]), path="")]
        if "status" in version.get("subresources", {}) and "status" not in theirs[name].get("subresources", {}):
            missing.append(f"{name}:status subresource")
    return sorted(missing)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _lacking(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, path: str) -> Iterator[str]:
    """Paths of properties that are in `ours` and would be pruned by `theirs`; only the topmost of a missing subtree."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    for field, schema in (ours.get("properties") or {}).items():
        inner = f"{path}.{field}" if path else field
        if inner in ("apiVersion", "kind", "metadata"):
            continue
        known = (theirs.get("properties") or {}).get(field)
        if known is None:
            yield inner
        else:
            yield from _lacking(schema, known, path=inner)
    for key in ("items", "additionalProperties"):
        if isinstance(ours.get(key), Mapping) and isinstance(theirs.get(key), Mapping):
            yield from _lacking(ours[key], theirs[key], path=path + "[]")
