"""CustomResourceDefinitions from the models.

    python -m apis.crdgen          writes apis/crds/*.yaml
    python -m apis.crdgen --check  fails when a file differs from its model

The schemas are structural: pydantic's JSON schema with references inlined, optional fields without null, and the served
keywords of `apis.schema` put in place.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from apis.schema import BARE, OPAQUE, SERVED_DEFAULT, UNDEFAULTED, rules
from apis.served import SERVED, Column, Served

FOLDER: Final = Path(__file__).parent / "crds"
HEADER: Final = "# Written by `python -m apis.crdgen` from the models in apis/; do not edit.\n"
_DROPPED: Final = {
    "title",
    "$defs",
    "additionalProperties",
    "default",
    "x-lean",
    "x-anything",
    "x-quantity",
    "x-opaque-metadata",
}
_COMPLETED: Final = {"pattern", "required", "x-kubernetes-validations"}

Schema = dict[str, Any]


def definition(served: Served) -> Schema:
    """The CRD of one kind."""
    kind = served.kind
    version: Schema = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(served)},
    }
    if served.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in served.columns]
    if served.status:
        version["subresources"] = {"status": {}}
    names: Schema = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    if served.short:
        names["shortNames"] = list(served.short)
    if served.categories:
        names["categories"] = list(served.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "labels": {"app.kubernetes.io/part-of": "volcano-federation"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def schema(served: Served) -> Schema:
    """The structural schema of one kind."""
    raw = served.model.model_json_schema(by_alias=True, mode="validation")
    root = _structural(raw, defs=raw.get("$defs", {}), bare=False, defaults=True)
    root["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _metadata(served)}
    if served.rules:
        root |= rules(*served.rules)
    return root


def _metadata(served: Served) -> Schema:
    """The API server knows metadata itself; only a field that a rule names as its path has to be declared (`name`)."""
    named = [rule.path.removeprefix(".metadata.") for rule in served.rules if rule.path.startswith(".metadata.")]
    return {"type": "object", **({"properties": {name: {"type": "string"} for name in named}} if named else {})}


def _column(column: Column) -> Schema:
    printed: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.wide:
        printed["priority"] = 1
    return printed


def _structural(raw: Mapping[str, Any], *, defs: Mapping[str, Any], bare: bool, defaults: bool) -> Schema:
    """One node: references inlined, null taken out, served keywords placed; then its children."""
    node = _merged(raw, defs=defs)
    bare, undefaulted = node.pop(BARE, False) or bare, node.pop(UNDEFAULTED, False)
    defaults = defaults and not bare and not undefaulted
    default = node.pop(SERVED_DEFAULT, None)
    special = _special(node)
    if special is not None:
        return special

    values = node.get("additionalProperties")
    out: Schema = {name: value for name, value in node.items() if name not in _DROPPED and not (bare and name in _COMPLETED)}
    if isinstance(values, Mapping) and "properties" not in node:
        out["additionalProperties"] = _structural(values, defs=defs, bare=bare, defaults=defaults)
    if "properties" in node:
        out["properties"] = {
            name: _structural(child, defs=defs, bare=bare, defaults=defaults) for name, child in node["properties"].items()
        }
    if "items" in node:
        out["items"] = _structural(node["items"], defs=defs, bare=bare, defaults=defaults)
    if defaults and default is not None:
        out["default"] = default
    return out


def _special(node: Mapping[str, Any]) -> Schema | None:
    """Nodes that are served as something else than their Python type."""
    described = {"description": node["description"]} if "description" in node else {}
    if node.get("x-lean"):
        return (
            {**described, "type": "array", "items": {"type": "object", **OPAQUE}}
            if node.get("type") == "array"
            else {**described, "type": "object", **OPAQUE}
        )
    if node.get("x-opaque-metadata"):
        return {**described, "type": "object", **OPAQUE}
    if node.get("x-anything"):
        return {**described, **OPAQUE}
    if node.get("x-quantity"):
        return {
            **described,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": node["pattern"],
            "maxLength": node["maxLength"],
        }
    return None


def _merged(raw: Mapping[str, Any], *, defs: Mapping[str, Any]) -> Schema:
    """The node with what it refers to; the keywords at the place of use win."""
    own = {name: value for name, value in raw.items() if name not in ("$ref", "anyOf", "allOf")}
    if "$ref" in raw:
        target = _merged(defs[raw["$ref"].removeprefix("#/$defs/")], defs=defs)
        return _joined(target, own)
    options = [option for option in raw.get("anyOf", raw.get("allOf", [])) if option.get("type") != "null"]
    if "x-quantity" in own or "x-kubernetes-int-or-string" in own:
        return {**own, **({"anyOf": raw["anyOf"]} if "anyOf" in raw else {})}
    if not options:
        return own
    if len(options) > 1:
        raise ValueError(f"a served field has one type, this one has {options}")
    return _joined(_merged(options[0], defs=defs), own)


def _joined(target: Schema, own: Schema) -> Schema:
    joined = {**target, **own}
    both = "x-kubernetes-validations"
    if both in target and both in own:
        joined[both] = [*target[both], *own[both]]
    return joined


@functools.cache
def rendered() -> Mapping[str, str]:
    """File name to content, for every kind."""
    return {
        f"{served.kind.group}_{served.kind.plural}.yaml": HEADER
        + yaml.safe_dump(definition(served), sort_keys=True, width=128, allow_unicode=True)
        for served in SERVED
    }


def drift(folder: Path = FOLDER) -> list[str]:
    """Names of files that differ from their model, are missing, or belong to no kind."""
    wanted = rendered()
    there = {path.name: path.read_text() for path in sorted(folder.glob("*.yaml"))}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def write(folder: Path = FOLDER) -> None:
    """Make the folder say what the models say."""
    folder.mkdir(exist_ok=True)
    wanted = rendered()
    for path in folder.glob("*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, content in wanted.items():
        (folder / name).write_text(content)


def main(arguments: list[str]) -> int:
    """Write, or with --check say what drifted; the exit status is 1 on drift."""
    if "--check" not in arguments:
        write()
        return 0
    differing = drift()
    for name in differing:
        sys.stderr.write(f"apis/crds/{name} differs from its model: run `python -m apis.crdgen`\n")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
