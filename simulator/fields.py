"""Field ownership and server-side apply, per leaf.

A document is seen as leaves: scalars, empty maps, lists without keys (atomic), members of lists that are sets. Elements of
lists with map keys are addressed by their keys. Each writer owns the leaves it last wrote (Update) or applies (Apply).
Source of the behaviour: the Kubernetes documentation of server-side apply; the parts our programs use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
Leaves = dict[Path, Any]
ListKeys = Callable[[Path], tuple[str, ...] | None]
"""Map keys of the list at a path of field names; () for a set; None for an atomic list."""

Writer = tuple[str, str, str]
"""Field manager, operation (Apply or Update), subresource."""

Ownership = Mapping[Writer, frozenset[Path]]

_IDENTITY = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        ("metadata",),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "generateName",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "selfLink",
            )
        ),
    }
)

_BUILTIN_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "finalizers": (),
}


def builtin_keys(path: Path) -> tuple[str, ...] | None:
    """Map keys in built-in kinds, by the name of the list."""
    return _BUILTIN_KEYS.get(path[-1])


def metadata_keys(path: Path) -> tuple[str, ...] | None:
    """Map keys every kind has: those of metadata."""
    return _BUILTIN_KEYS.get(path[-1]) if len(path) == 2 and path[0] == "metadata" else None


def _segment(element: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"[={element}]"
    return "[" + ",".join(f"{key}={element.get(key)}" for key in keys) + "]"


def leaves(doc: Mapping[str, Any], keys_of: ListKeys) -> Leaves:
    """All leaves of a document but its identity."""
    found: Leaves = {}
    _walk(doc, (), (), keys_of, found)
    return {path: value for path, value in found.items() if path[:2] not in _IDENTITY and path not in _IDENTITY}


def _walk(value: Any, path: Path, names: Path, keys_of: ListKeys, found: Leaves) -> None:
    if isinstance(value, Mapping) and value:
        for name, child in value.items():
            _walk(child, (*path, name), (*names, name), keys_of, found)
        return
    keys = keys_of(names) if isinstance(value, list) and names else None
    if keys is None or not value:
        found[path] = value
        return
    for element in value:
        if keys:
            _walk(element, (*path, _segment(element, keys)), names, keys_of, found)
        else:
            found[(*path, _segment(element, keys))] = element


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A leaf that another writer owns with another value."""

    manager: str
    path: Path

    def __str__(self) -> str:
        return f'conflict with "{self.manager}": .{".".join(self.path)}'


def conflicts(live: Leaves, applied: Leaves, owned: Ownership, *, writer: Writer) -> list[FieldConflict]:
    """Leaves that differ from the live object and are owned by somebody else."""
    return [
        FieldConflict(other[0], path)
        for other, paths in sorted(owned.items())
        if other != writer
        for path, value in applied.items()
        if path in paths and (path not in live or live[path] != value)
    ]


def merge(live: Any, applied: Any, keys_of: ListKeys, *, names: Path = ()) -> Any:
    """The live value with the applied one laid over it; both stay as they are."""
    if isinstance(live, dict) and isinstance(applied, dict):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(live.get(name), value, keys_of, names=(*names, name))
        return merged
    keys = keys_of(names) if isinstance(applied, list) and isinstance(live, list) and names else None
    if keys is None:
        return applied
    by_key = {_segment(element, keys): element for element in live}
    for element in applied:
        segment = _segment(element, keys)
        by_key[segment] = merge(by_key.get(segment), element, keys_of, names=names)
    return list(by_key.values())


def remove(value: Any, paths: frozenset[Path], keys_of: ListKeys, *, path: Path = (), names: Path = ()) -> Any:
    """The value without these leaves; maps and elements that become empty go too. None when nothing is left."""
    if path in paths:
        return None
    if isinstance(value, dict) and value:
        kept = {
            name: left
            for name, child in value.items()
            if (left := remove(child, paths, keys_of, path=(*path, name), names=(*names, name))) is not None
        }
        return kept or None
    keys = keys_of(names) if isinstance(value, list) and names else None
    if keys is None or not value:
        return value
    elements = [remove(e, paths, keys_of, path=(*path, _segment(e, keys)), names=names) for e in value]
    return [element for element in elements if element is not None] or None


def after_apply(owned: Ownership, applied: Leaves, live: Leaves, *, writer: Writer) -> tuple[Ownership, frozenset[Path]]:
    """Ownership after an apply, and the leaves to remove: those that only this writer owned and no longer applies."""
    mine = frozenset(applied)
    changed = {path for path, value in applied.items() if path in live and live[path] != value}
    result = {other: paths - changed for other, paths in owned.items() if other != writer}
    others = frozenset[Path]().union(*result.values()) if result else frozenset()
    gone = owned.get(writer, frozenset()) - mine - others
    result = {other: paths for other, paths in result.items() if paths}
    result[writer] = mine
    return result, gone


def after_update(owned: Ownership, before: Leaves, after: Leaves, *, writer: Writer) -> Ownership:
    """Ownership after a PUT or PATCH: the writer takes what it changed, nobody owns what is gone."""
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    present = frozenset(after)
    result = {other: (paths - changed) & present for other, paths in owned.items()}
    result[writer] = (result.get(writer, frozenset()) | changed) & present
    return {other: paths for other, paths in result.items() if paths}
