"""How a step's `patch` changes its template (reference/volcano.md 3): scalars replace; tasks, containers and volumes merge by
name, variables by name, tolerations by key, ports by number, plugins and resources by key; lists without identity replace.

A null takes a field away, as in a JSON merge patch (RFC 7386). Pure: neither document is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

Document = Mapping[str, Any]

_NAME: Final = "name"
_IDENTITY: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("tasks",): (_NAME,),
    ("containers",): (_NAME,),
    ("initContainers",): (_NAME,),
    ("ephemeralContainers",): (_NAME,),
    ("template", "spec", "volumes"): (_NAME,),
    ("env",): (_NAME,),
    ("imagePullSecrets",): (_NAME,),
    ("volumeMounts",): ("mountPath",),
    ("volumeDevices",): ("devicePath",),
    ("hostAliases",): ("ip",),
    ("tolerations",): ("key",),
    ("ports",): ("containerPort", "protocol"),
    ("topologySpreadConstraints",): ("topologyKey", "whenUnsatisfiable"),
    ("resourceClaims",): (_NAME,),
    ("schedulingGates",): (_NAME,),
    ("volumes",): ("mountPath",),
}
"""What tells entries of a list apart, by the last fields of the path to it; the longest path decides. Volumes of a Job are told
apart by where they are mounted, those of a pod by name. Lists that are not here replace."""
_ALTERNATIVES: Final = frozenset({("env",), ("template", "spec", "volumes")})
"""Lists whose entries hold one of several things beside their name: a new one takes the place of the old."""
_DEFAULTS: Final[Mapping[str, Any]] = {"protocol": "TCP"}
"""What an identity means where it is not written."""


def merged(base: Document, patch: Document) -> dict[str, Any]:
    """The template's Job spec with the patch applied."""
    return _objects(base, patch, ())


def _objects(base: Document, patch: Document, path: tuple[str, ...]) -> dict[str, Any]:
    found = dict(base)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _value(base.get(key), value, (*path, key))
    return found


def _value(base: Any, patch: Any, path: tuple[str, ...]) -> Any:
    if isinstance(patch, Mapping) and isinstance(base, Mapping):
        return _objects(base, patch, path)
    place = _place(path)
    if place is not None and isinstance(base, list) and isinstance(patch, list):
        return _lists(base, patch, place)
    return _without_nulls(patch)


def _place(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The end of the path by which a list is known."""
    return next((path[-length:] for length in (3, 1) if path[-length:] in _IDENTITY), None)


def _key(entry: Any, identity: tuple[str, ...]) -> Any:
    if not isinstance(entry, Mapping):
        return json.dumps(entry, sort_keys=True)
    return tuple(entry.get(field, _DEFAULTS.get(field)) for field in identity)


def _lists(base: list[Any], patch: list[Any], place: tuple[str, ...]) -> list[Any]:
    """Entries of both in the order of the base, then what is new in the order of the patch."""
    identity = _IDENTITY[place]
    changes = {_key(entry, identity): entry for entry in patch}
    found = []
    for entry in base:
        change = changes.pop(_key(entry, identity), None)
        if change is not None and place in _ALTERNATIVES and change.keys() > {_NAME}:
            entry = {key: each for key, each in entry.items() if key in change}
        found.append(entry if change is None else _value(entry, change, ("",)))
    return found + [_without_nulls(entry) for entry in changes.values()]


def _without_nulls(value: Any) -> Any:
    """A part that nothing stood for before: there is nothing to take away from it."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
