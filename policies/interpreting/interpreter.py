"""Asks the rules of a kind about its objects: those of people first, each question by itself, then those that come along."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from policies.dependencies import Reference
from policies.interpreting import scripts
from policies.interpreting.customizations import CustomizationView
from policies.interpreting.rules import BUNDLED, Rules
from policies.shapes import Gang, Pool, TaskSpec, UnreadableShape, read_gang

Tree = Mapping[str, Any]


class Health(enum.StrEnum):
    """How an object is doing. Unknown where nothing was applied yet or the rule has no answer."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class Unclear(ValueError):
    """A rule has no answer, or not the kind of answer that is wanted; says of which kind of object, which rule, and why."""

    def __init__(self, kind: str, rule: str, reason: str) -> None:
        super().__init__(f"{kind}: {rule}: {reason}")
        self.kind = kind
        self.rule = rule
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Component:
    """One sort of pods of an object."""

    name: str
    replicas: int
    template: Tree


class Interpreter:
    """Rules by kind; of two customizations that answer one question the one of the smaller name counts."""

    def __init__(self, customizations: Iterable[CustomizationView] = ()) -> None:
        self._own: dict[tuple[str, str], list[Rules]] = {}
        for each in sorted(customizations, key=lambda each: each.name):
            if not each.deleting:
                self._own.setdefault((each.api_version, each.kind), []).append(each.rules)

    def knows(self, object: Tree) -> bool:
        """Whether there are any rules for objects of its kind."""
        return bool(self._rules(object))

    def components(self, object: Tree) -> tuple[Component, ...]:
        """Sorts of pods, by name; none for an object that runs nothing. Raises Unclear."""
        found = self._ask(object, "components", {})
        if found is None:
            single = self._ask(object, "replicas", {})
            found = [] if single is None else [{"name": "pods", **self._mapping(object, "replicas", single)}]
        if not isinstance(found, list):
            raise Unclear(_kind(object), "components", f"no list but {type(found).__name__}")
        return tuple(sorted((self._component(object, each) for each in found), key=lambda each: each.name))

    def gang(self, object: Tree, *, pool: Pool) -> Gang | None:
        """What it asks for, all of its pods at once; None for one that runs nothing. Raises Unclear."""
        tasks = []
        for each in self.components(object):
            try:
                task = msgspec.convert(
                    {"name": each.name, "replicas": each.replicas, "template": _bare(each.template)}, TaskSpec
                )
            except msgspec.ValidationError as error:
                raise Unclear(_kind(object), "components", f"component {each.name}: {error}") from error
            tasks.append(task)
        try:
            return read_gang(tasks, minimum=None, pool=pool) if tasks else None
        except UnreadableShape as error:
            raise Unclear(_kind(object), "components", str(error)) from error

    def health(self, object: Tree, *, applied: bool = True) -> Health:
        """How it is doing; an object of a kind without a rule is well once it is applied."""
        if not applied:
            return Health.UNKNOWN
        try:
            found = self._ask(object, "health", {})
        except Unclear:
            return Health.UNKNOWN
        if found is None or found is True:
            return Health.HEALTHY
        return Health.UNHEALTHY if found is False else Health.UNKNOWN

    def finished(self, object: Tree) -> bool:
        """Whether it has ended by what its status says; False of a kind without a rule."""
        try:
            return self._ask(object, "finished", {}) is True
        except Unclear:
            return False

    def status(self, object: Tree) -> Tree | None:
        """What of its status is told; all of it without a rule. Raises Unclear."""
        found = self._ask(object, "status", {})
        return object.get("status") if found is None else self._mapping(object, "status", found)

    def aggregate(self, object: Tree, items: Sequence[tuple[str, Tree]]) -> Tree | None:
        """One status from those of clusters, (name, status) each. A single one is taken as it is; of several, without a rule,
        None: nobody knows. Raises Unclear."""
        if len(items) == 1:
            return items[0][1]
        listed = [{"clusterName": name, "status": status} for name, status in sorted(items, key=lambda each: each[0])]
        found = self._ask(object, "aggregate", {"items": listed}) if listed else None
        return None if found is None else _without_nulls(self._mapping(object, "aggregate", found))

    def dependencies(self, object: Tree) -> tuple[Reference, ...]:
        """What it refers to beside what its pods do, in order. Raises Unclear."""
        found = self._ask(object, "dependencies", {}) or []
        own = (object.get("metadata") or {}).get("namespace", "")
        try:
            read = [
                Reference(str(each["apiVersion"]), str(each["kind"]), str(each.get("namespace") or own), str(each["name"]))
                for each in found
            ]
        except (TypeError, KeyError, AttributeError) as error:
            raise Unclear(_kind(object), "dependencies", f"not a list of references: {error}") from error
        return tuple(sorted(set(read)))

    def revised(self, object: Tree, *, replicas: int) -> Tree:
        """The object with so many replicas; as it is without a rule. Raises Unclear."""
        return self._patched(object, "revision", {"replicas": replicas})

    def retained(self, object: Tree, observed: Tree) -> Tree:
        """The object with what the member's own must keep. Raises Unclear."""
        return self._patched(object, "retention", {"observed": observed})

    def _patched(self, object: Tree, rule: str, facts: Tree) -> Tree:
        found = self._ask(object, rule, facts)
        return object if found is None else merged(object, self._mapping(object, rule, found))

    # --- asking ------------------------------------------------------------------------------------------------------
    def _rules(self, object: Tree) -> list[Rules]:
        api_version, kind = str(object.get("apiVersion", "")), str(object.get("kind", ""))
        own = self._own.get((api_version, kind), [])
        bundled = BUNDLED.get((api_version.rpartition("/")[0], kind))
        return [*own, *([bundled] if bundled is not None else [])]

    def _ask(self, object: Tree, rule: str, facts: Tree) -> Any:
        """The first that says something; None when nobody does."""
        text = next((text for each in self._rules(object) if (text := getattr(each, rule))), "")
        if not text:
            return None
        try:
            return scripts.answer(text, {"object": object, **facts})
        except scripts.ScriptError as error:
            raise Unclear(_kind(object), rule, str(error)) from error

    def _mapping(self, object: Tree, rule: str, found: Any) -> Tree:
        if isinstance(found, Mapping):
            return found
        raise Unclear(_kind(object), rule, f"no object but {type(found).__name__}")

    def _component(self, object: Tree, found: Any) -> Component:
        read = self._mapping(object, "components", found)
        replicas, template = read.get("replicas"), read.get("template")
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            raise Unclear(_kind(object), "components", f"replicas of {read.get('name')!r} are {replicas!r}")
        if not isinstance(template, Mapping):
            raise Unclear(_kind(object), "components", f"{read.get('name')!r} has no template")
        return Component(str(read.get("name") or "pods"), replicas, template)


def _kind(object: Tree) -> str:
    return f"{object.get('kind', '')} of {object.get('apiVersion', '')}"


def _without_nulls(found: Tree) -> Tree:
    return {key: each for key, each in found.items() if each is not None}


def _bare(value: Any) -> Any:
    """Without fields that are null: expressions cannot leave a field out."""
    if isinstance(value, Mapping):
        return {key: _bare(each) for key, each in value.items() if each is not None}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def merged(object: Tree, patch: Tree) -> Tree:
    """A JSON merge patch (RFC 7386), applied; the object stays as it was."""
    out = dict(object)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping):
            before = out.get(key)
            out[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            out[key] = value
    return out
