"""Structural schemas: what a CustomResourceDefinition defaults, prunes and refuses.

A schema is compiled once into closures that walk a document in place. CEL rules are not evaluated here (`rules` has, in
Python, the few that a program could run into); real API servers are covered by the end-to-end tests.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from apis import kinds
from apis.kinds import Kind
from machinery.errors import FieldCause
from simulator.fields import ListKeys, Path, metadata_keys
from simulator.schemas import Validator
from simulator.store import Doc

Schema = Mapping[str, Any]
Causes = list[FieldCause]
Check = Callable[[Any, str, Causes], None]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object", type(None): "null"}


@functools.cache
def definitions() -> dict[Kind, Doc]:
    """Our CustomResourceDefinitions by kind, as they are shipped."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    by_name = {kind.name: kind for kind in vars(kinds).values() if isinstance(kind, Kind)}
    found: dict[Kind, Doc] = {}
    folder = importlib.resources.files("apis") / "crds"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            definition: Doc = yaml.load(file.read_text(), Loader=loader)
            kind = by_name.get(definition["metadata"]["name"])
            if kind is not None:
                found[kind] = definition
    return found


def _served(definition: Doc) -> Doc:
    version: Doc = definition["spec"]["versions"][0]
    return version


@functools.cache
def validators() -> dict[Kind, Validator]:
    """One validator per kind of ours, from the shipped definitions."""
    return {kind: validator(_served(it)["schema"]["openAPIV3Schema"]) for kind, it in definitions().items()}


@functools.cache
def list_keys() -> dict[Kind, ListKeys]:
    """Which lists of each kind have map keys, by its schema."""
    found: dict[Kind, ListKeys] = {}
    for kind, definition in definitions().items():
        table: dict[Path, tuple[str, ...]] = {}
        _collect_keys(_served(definition)["schema"]["openAPIV3Schema"], (), table)
        found[kind] = functools.partial(_keys_of, table)
    return found


def _keys_of(table: Mapping[Path, tuple[str, ...]], path: Path) -> tuple[str, ...] | None:
    return table[path] if path in table else metadata_keys(path)


def _collect_keys(schema: Schema, path: Path, table: dict[Path, tuple[str, ...]]) -> None:
    for name, child in (schema.get("properties") or {}).items():
        _collect_keys(child, (*path, name), table)
    if schema.get("x-kubernetes-list-type") == "map":
        table[path] = tuple(schema["x-kubernetes-list-map-keys"])
    elif schema.get("x-kubernetes-list-type") == "set":
        table[path] = ()
    if isinstance(schema.get("items"), Mapping):
        _collect_keys(schema["items"], path, table)


def validator(schema: Schema) -> Validator:
    """Default, prune and check a whole object by its schema; parts that are as they were have passed before."""
    properties = {k: v for k, v in (schema.get("properties") or {}).items() if k not in {"apiVersion", "kind", "metadata"}}
    whole = _compile({**schema, "properties": properties}, root=True)
    required = frozenset(schema.get("required") or ())
    parts = {
        name: _compile({**schema, "properties": {name: part}, "required": [name] if name in required else []}, root=True)
        for name, part in properties.items()
    }

    def check(doc: Doc, old: Doc | None) -> Causes:
        causes: Causes = []
        if old is None:
            whole(doc, "", causes)
            return causes
        for name in [name for name in doc if name not in properties and name not in ("apiVersion", "kind", "metadata")]:
            del doc[name]
        for name, part in parts.items():
            if name not in doc or doc[name] != old.get(name):
                rest = {name: doc[name]} if name in doc else {}
                part(rest, "", causes)
                doc.update(rest)
        return causes

    return check


def _compile(schema: Schema, *, root: bool = False) -> Check:
    checks: list[Check] = []
    if schema.get("x-kubernetes-int-or-string"):
        checks.append(_type_check("integer or string", (int, str)))
    elif kind := schema.get("type"):
        checks.append(_type_check(kind, _TYPES[kind]))
    checks += _value_checks(schema)
    if schema.get("type") == "object" or "properties" in schema:
        checks.append(_object_check(schema, root=root))
    if isinstance(schema.get("items"), Mapping):
        checks.append(_items_check(schema["items"]))
    nullable = bool(schema.get("nullable"))

    def run(value: Any, where: str, causes: Causes) -> None:
        if value is None and nullable:
            return
        before = len(causes)
        for check in checks:
            check(value, where, causes)
            if len(causes) > before:
                return

    return run


def _type_check(name: str, types: tuple[type, ...]) -> Check:
    def check(value: Any, where: str, causes: Causes) -> None:
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if not fits:
            got = _NAMES[type(value)]
            causes.append(FieldCause(where, f'Invalid value: "{got}": {where} in body must be of type {name}: "{got}"'))

    return check


def _value_checks(schema: Schema) -> list[Check]:
    """Enumerations, patterns and bounds."""
    found: list[tuple[Callable[[Any], bool], str]] = []
    if values := schema.get("enum"):
        found.append((lambda v: v in values, "Unsupported value: supported values: " + ", ".join(map(repr, values))))
    if pattern := schema.get("pattern"):
        expression = re.compile(pattern)
        found.append((lambda v: not isinstance(v, str) or bool(expression.search(v)), f"should match '{pattern}'"))
    bounds: list[tuple[str, Callable[[Any, Any], bool], str]] = [
        ("minimum", lambda v, b: v >= b, "should be greater than or equal to"),
        ("maximum", lambda v, b: v <= b, "should be less than or equal to"),
        ("minLength", lambda v, b: not isinstance(v, str) or len(v) >= b, "should be at least as long as"),
        ("maxLength", lambda v, b: not isinstance(v, str) or len(v) <= b, "Too long: may not be more than"),
        ("minItems", lambda v, b: len(v) >= b, "should have at least as many items as"),
        ("maxItems", lambda v, b: len(v) <= b, "Too many: must have at most"),
        ("maxProperties", lambda v, b: len(v) <= b, "Too many: must have at most"),
        ("minProperties", lambda v, b: len(v) >= b, "should have at least as many properties as"),
    ]
    found += [
        (functools.partial(lambda v, t, b: t(v, b), t=test, b=schema[word]), f"{says} {schema[word]}")
        for word, test, says in bounds
        if word in schema
    ]
    return [_test(test, says) for test, says in found]


def _test(test: Callable[[Any], bool], says: str) -> Check:
    def check(value: Any, where: str, causes: Causes) -> None:
        if not test(value):
            shown = f'"{value}"' if isinstance(value, str) else "..."
            causes.append(FieldCause(where, f"Invalid value: {shown}: {where} in body {says}"))

    return check


def _object_check(schema: Schema, *, root: bool) -> Check:
    properties = {name: _compile(child) for name, child in (schema.get("properties") or {}).items()}
    defaults = {name: child["default"] for name, child in (schema.get("properties") or {}).items() if "default" in child}
    required = tuple(schema.get("required") or ())
    kept = (
        frozenset({"apiVersion", "kind", "metadata"}) if root or schema.get("x-kubernetes-embedded-resource") else frozenset()
    )
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    extra = schema.get("additionalProperties")
    others = _compile(extra) if isinstance(extra, Mapping) else None
    preserve = preserve or extra is True

    def check(value: Any, where: str, causes: Causes) -> None:
        if not isinstance(value, dict):
            return
        prefix = f"{where}." if where else ""
        for name, default in defaults.items():
            if value.get(name) is None:
                value[name] = _copy(default)
        causes += [FieldCause(prefix + name, "Required value") for name in required if name not in value]
        for name in list(value):
            child = properties.get(name)
            if child is not None:
                child(value[name], prefix + name, causes)
            elif name in kept:
                continue
            elif others is not None:
                others(value[name], f"{where}[{name}]" if where else name, causes)
            elif not preserve:
                del value[name]

    return check


def _items_check(schema: Schema) -> Check:
    element = _compile(schema)

    def check(value: Any, where: str, causes: Causes) -> None:
        for index, item in enumerate(value):
            element(item, f"{where}[{index}]", causes)

    return check


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(child) for name, child in value.items()}
    return [_copy(child) for child in value] if isinstance(value, list) else value
