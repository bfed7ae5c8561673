"""ResourceInterpreterCustomizations as they are read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import msgspec

from policies.interpreting import scripts
from policies.interpreting.rules import Rules
from policies.views import Meta, Problem

FIELDS: Final = {
    "components": "componentResource",
    "replicas": "replicaResource",
    "health": "healthInterpretation",
    "status": "statusReflection",
    "aggregate": "statusAggregation",
    "dependencies": "dependencyInterpretation",
    "revision": "replicaRevision",
    "retention": "retention",
}
"""Where each rule is written."""


@dataclass(frozen=True, slots=True)
class CustomizationView:
    """Rules of people for one kind; what cannot be used is a problem, and counts as not given."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    api_version: str = ""
    kind: str = ""
    rules: Rules = Rules()
    problems: tuple[Problem, ...] = ()
    deleting: bool = False


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class _Script(_Wire, frozen=True):
    cel: str | None = None
    lua_script: str | None = None


class _Target(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""


class _Spec(_Wire, frozen=True):
    target: _Target = _Target()
    customizations: dict[str, _Script] | None = None


class _Customization(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Customization)


def project_customization(document: bytes) -> CustomizationView:
    """A ResourceInterpreterCustomization."""
    read = _decoder.decode(document)
    meta, spec = read.metadata, read.spec
    found: list[Problem] = []
    if not spec.target.api_version or not spec.target.kind:
        found.append(Problem("spec.target", "apiVersion and kind are needed"))
    texts = {}
    for rule in fields(Rules):
        if rule.name not in FIELDS:
            continue
        name = FIELDS[rule.name]
        texts[rule.name] = _text((spec.customizations or {}).get(name), field=f"spec.customizations.{name}", found=found)
    return CustomizationView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        api_version=spec.target.api_version,
        kind=spec.target.kind,
        rules=Rules(**texts),
        problems=tuple(found),
        deleting=meta.deletion_timestamp is not None,
    )


def _text(script: _Script | None, *, field: str, found: list[Problem]) -> str:
    if script is None:
        return ""
    if not script.cel:
        if script.lua_script:
            found.append(Problem(f"{field}.luaScript", "Lua is not run here: write it as an expression, in cel"))
        return ""
    try:
        scripts.compiled(script.cel)
    except scripts.ScriptError as error:
        found.append(Problem(f"{field}.cel", str(error)))
        return ""
    return script.cel
