"""Label and field selectors, as the API server reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from simulator.store import Filter, Stored

LabelTest = Callable[[dict[str, str]], bool]

_KEY = r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?"
_SET = re.compile(rf"^(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(rf"^(?P<key>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>[A-Za-z0-9_.-]*)$")
_EXISTS = re.compile(rf"^(?P<not>!?)\s*(?P<key>{_KEY})$")
_COMMA = re.compile(r",(?![^(]*\))")

FIELDS: dict[Kind, frozenset[str]] = {
    kinds.POD: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    kinds.NAMESPACE: frozenset({"status.phase"}),
    kinds.NODE: frozenset({"spec.unschedulable"}),
    kinds.SECRET: frozenset({"type"}),
    kinds.EVENT: frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
}
"""What may be selected by field beyond metadata.name and metadata.namespace."""


def _bad(message: str) -> errors.ApiError:
    return errors.from_status(code=400, reason="BadRequest", message=message, request="")


def _set_test(match: re.Match[str]) -> LabelTest:
    key = match["key"]
    values = frozenset(value.strip() for value in match["values"].split(","))
    if match["op"] == "in":
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def _equal_test(match: re.Match[str]) -> LabelTest:
    key, value = match["key"], match["value"]
    if match["op"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _exists_test(match: re.Match[str]) -> LabelTest:
    key, absent = match["key"], bool(match["not"])
    return lambda labels: (key in labels) is not absent


@lru_cache(maxsize=4096)
def label_tests(selector: str) -> tuple[LabelTest, ...]:
    """The requirements of a label selector, all of which must hold; Invalid (400) when it cannot be read."""
    tests: list[LabelTest] = []
    for text in filter(None, (part.strip() for part in _COMMA.split(selector))):
        if match := _SET.match(text):
            tests.append(_set_test(match))
        elif match := _EQUAL.match(text):
            tests.append(_equal_test(match))
        elif match := _EXISTS.match(text):
            tests.append(_exists_test(match))
        else:
            raise _bad(f'unable to parse requirement: "{text}"')
    return tuple(tests)


def _field_value(doc: dict[str, Any], path: str) -> str:
    value: Any = doc
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(value)


@lru_cache(maxsize=4096)
def field_tests(kind: Kind, selector: str) -> tuple[tuple[str, str, bool], ...]:
    """The requirements (path, value, equal) of a field selector; Invalid (400) for a field this kind cannot select by."""
    allowed = FIELDS.get(kind, frozenset()) | {"metadata.name"}
    if kind.namespaced:
        allowed |= {"metadata.namespace"}
    tests: list[tuple[str, str, bool]] = []
    for text in filter(None, selector.split(",")):
        path, mark, value = text.partition("!=")
        if not mark:
            path, mark, value = text.partition("=")
            value = value.removeprefix("=")
        if not mark:
            raise _bad(f"invalid field selector: {text!r}")
        if path.strip() not in allowed:
            raise _bad(f"field label not supported: {path.strip()}")
        tests.append((path.strip(), value.strip(), "!=" not in text))
    return tuple(tests)


def compile_filter(kind: Kind, *, namespace: str | None, labels: str, fields: str) -> Filter:
    """One test for namespace, label selector and field selector together."""
    by_label = label_tests(labels)
    by_field = field_tests(kind, fields)
    if not by_label and not by_field:
        return (lambda _: True) if namespace is None else (lambda stored: stored.namespace == namespace)

    def wants(stored: Stored) -> bool:
        if namespace is not None and stored.namespace != namespace:
            return False
        return all(test(stored.labels) for test in by_label) and all(
            (_field_value(stored.doc, path) == value) is equal for path, value, equal in by_field
        )

    return wants
