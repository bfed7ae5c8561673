"""What is wrong with an override policy by itself: for admission, and once more before it is applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from policies.overrides.views import (
    FieldChange,
    ImageChange,
    KeysChange,
    ListChange,
    OverrideRule,
    OverrideView,
    PlainChange,
    TextChange,
)
from policies.views import Problem

COMPONENTS = ("Registry", "Repository", "Tag")
OPERATORS = ("add", "remove", "replace")


def problems(policy: OverrideView) -> list[Problem]:
    """Everything wrong with it; empty when it can be applied to some object."""
    found = []
    if policy.mixed:
        found.append(Problem("spec.overrideRules", "overrideRules and overriders can't co-exist"))
    for at, selector in enumerate(policy.selectors or ()):
        place = f"spec.resourceSelectors[{at}]"
        if not selector.api_version or not selector.kind:
            found.append(Problem(place, "apiVersion and kind are needed"))
        if policy.namespace and selector.namespace not in ("", policy.namespace):
            found.append(Problem(f"{place}.namespace", f"must be {policy.namespace}, the policy's own"))
    for rule in policy.rules:
        found += rule_problems(rule)
    return found


def rule_problems(rule: OverrideRule) -> list[Problem]:
    """Everything wrong with one rule."""
    each, found = rule.overriders, list[Problem]()
    for at, image in enumerate(each.image or ()):
        found += _image(image, field=f"{rule.field}.imageOverrider[{at}]")
    for name, lists in (("commandOverrider", each.command), ("argsOverrider", each.args)):
        for at, change in enumerate(lists or ()):
            found += _list(change, field=f"{rule.field}.{name}[{at}]")
    for name, keys in (("labelsOverrider", each.labels), ("annotationsOverrider", each.annotations)):
        for at, key in enumerate(keys or ()):
            found += _keys(key, field=f"{rule.field}.{name}[{at}]")
    for at, text in enumerate(each.field or ()):
        found += _field(text, field=f"{rule.field}.fieldOverrider[{at}]")
    found += _patches(each.plaintext or (), field=f"{rule.field}.plaintext", item="path", strict=False)
    return found


def _among(value: str, allowed: Sequence[str], *, field: str) -> Iterator[Problem]:
    if value not in allowed:
        yield Problem(field, f"{value!r} is not one of {', '.join(allowed)}")


def _pointer(path: str, *, field: str) -> Iterator[Problem]:
    if not path.startswith("/"):
        yield Problem(field, f"{path!r} is no JSON pointer: it must start with a slash")


def _image(change: ImageChange, *, field: str) -> Iterator[Problem]:
    yield from _among(change.component, COMPONENTS, field=f"{field}.component")
    yield from _among(change.operator, OPERATORS, field=f"{field}.operator")
    if change.operator in ("add", "replace") and not change.value:
        yield Problem(f"{field}.value", f"{change.operator} needs a value")
    if change.predicate is not None:
        yield from _pointer(change.predicate.path, field=f"{field}.predicate.path")


def _list(change: ListChange, *, field: str) -> Iterator[Problem]:
    yield from _among(change.operator, OPERATORS[:2], field=f"{field}.operator")
    if not change.container_name.rpartition("/")[2]:
        yield Problem(f"{field}.containerName", "a container must be named")


def _keys(change: KeysChange, *, field: str) -> Iterator[Problem]:
    yield from _among(change.operator, OPERATORS, field=f"{field}.operator")


def _field(change: FieldChange, *, field: str) -> Iterator[Problem]:
    yield from _pointer(change.field_path, field=f"{field}.fieldPath")
    if (change.json is None) == (change.yaml is None):
        yield Problem(field, "exactly one of json and yaml must be given")
    yield from _patches(change.json or (), field=f"{field}.json", item="subPath", strict=True)
    yield from _patches(change.yaml or (), field=f"{field}.yaml", item="subPath", strict=True)


def _patches(changes: Sequence[PlainChange | TextChange], *, field: str, item: str, strict: bool) -> Iterator[Problem]:
    """`strict`: a removal may not carry a value."""
    for at, change in enumerate(changes):
        place = f"{field}[{at}]"
        yield from _among(change.operator, OPERATORS, field=f"{place}.operator")
        yield from _pointer(change.path, field=f"{place}.{item}")
        if change.operator in ("add", "replace") and change.value is msgspec.UNSET:
            yield Problem(f"{place}.value", f"{change.operator} needs a value")
        if strict and change.operator == "remove" and change.value is not msgspec.UNSET:
            yield Problem(f"{place}.value", "remove takes no value")
