"""Reading what is submitted: documents of a file, and what is misspelt in them, before the hub is asked."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from apis import kinds
from apis.kinds import Kind
from fedctl import exits
from fedctl.desk import Stop

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KINDS: Final = {(kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, Kind)}
NEAR: Final = 0.6
"""How alike two spellings must be for one to be offered for the other."""

Doc = dict[str, Any]


def read(source: str) -> list[Doc]:
    """Documents of a file, or of standard input (`-`). Stop with the line when it is no YAML, and with the number of the
    document that is no object."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        found = [doc for doc in yaml.load_all(text, Loader=_LOADER) if doc is not None]
    except FileNotFoundError:
        raise Stop(f"{source}: no such file", code=exits.USAGE) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"{source}: {error}", code=exits.USAGE) from None
    except yaml.YAMLError as error:
        raise Stop(f"{source}: no YAML: {' '.join(str(error).split())}", code=exits.USAGE) from None
    if not found:
        raise Stop(f"{source}: nothing in it", code=exits.USAGE)
    return [each for number, doc in enumerate(found, 1) for each in _objects(doc, where=f"{source}, document {number}")]


def _objects(doc: object, *, where: str) -> Iterator[Doc]:
    if isinstance(doc, dict) and doc.get("kind") == "List":
        for number, each in enumerate(doc.get("items") or (), 1):
            yield from _objects(each, where=f"{where}, item {number}")
        return
    if not isinstance(doc, dict) or not isinstance(doc.get("kind"), str) or not isinstance(doc.get("apiVersion"), str):
        raise Stop(f"{where}: no object: apiVersion and kind are missing", code=exits.USAGE)
    meta = doc.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise Stop(f"{where}: metadata.name is missing", code=exits.USAGE)
    yield doc


def kind_of(doc: Mapping[str, Any]) -> Kind | None:
    """The kind of a document, if it is one that is known here."""
    return KINDS.get((doc["apiVersion"], doc["kind"]))


def misspelt(doc: Mapping[str, Any]) -> list[str]:
    """Fields that no schema knows, each with its path and the nearest spelling that there is. Kinds of others are not looked
    at."""
    kind = kind_of(doc)
    if kind is None:
        near = difflib.get_close_matches(doc["kind"], {name for _, name in KINDS}, n=1, cutoff=0.8)
        versions = {version for version, name in KINDS if name == doc["kind"]}
        if versions and doc["apiVersion"] not in versions:
            return [f"apiVersion: {doc['apiVersion']} has no {doc['kind']}; {' and '.join(sorted(versions))} {_have(versions)}"]
        return [f"kind: {doc['kind']}; did you mean {near[0]}?"] if near and near[0] != doc["kind"] else []
    schema = _schemas().get(kind)
    return list(_unknown(doc, schema, path="")) if schema is not None else []


def _have(versions: set[str]) -> str:
    return "has" if len(versions) == 1 else "have"


@functools.cache
def _schemas() -> dict[Kind, Mapping[str, Any]]:
    """Schemas of the CRDs that come with this program."""
    from machinery.crds import packaged

    found = {}
    for crd in packaged():
        spec = crd["spec"]
        for version in spec["versions"]:
            known = KINDS.get((f"{spec['group']}/{version['name']}", spec["names"]["kind"]))
            if known is not None:
                found[known] = version["schema"]["openAPIV3Schema"]
    return found


def _unknown(value: object, schema: Mapping[str, Any], *, path: str) -> Iterator[str]:
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, each in enumerate(value):
            yield from _unknown(each, schema["items"], path=f"{path}[{number}]")
        return
    if not isinstance(value, Mapping):
        return
    fields, rest = schema.get("properties"), schema.get("additionalProperties")
    if isinstance(rest, Mapping):
        for name, each in value.items():
            yield from _unknown(each, rest, path=f"{path}.{name}" if path else str(name))
        return
    if not isinstance(fields, Mapping) or schema.get("x-kubernetes-preserve-unknown-fields") or rest:
        return
    for name, each in value.items():
        inner = f"{path}.{name}" if path else str(name)
        if name in fields:
            yield from _unknown(each, fields[name], path=inner)
        elif not (path == "" and name in ("apiVersion", "kind", "metadata")):
            near = difflib.get_close_matches(str(name), list(fields), n=1, cutoff=NEAR)
            yield f"{inner}: no such field" + (f"; did you mean {near[0]}?" if near else "")
