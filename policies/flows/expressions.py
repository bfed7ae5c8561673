"""Words in a flow that stand for something: conditions in the Common Expression Language, `{{…}}` in texts.

A condition sees `targets.<step>` with `state`, `outputs`, `items`, `attempts` and `message` of the steps it waits for, `flow`
with `name`, `namespace` and (in exit handlers) `outcome`, and `parameters`. A text may name `{{parameters.x}}`, `{{item}}`,
`{{item.key}}`, `{{index}}`, `{{steps.<step>.outputs.<name>}}`, `{{flow.name}}` and `{{flow.namespace}}`; other braces are left
as they are, since they may be meant for the program in the pod.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import cel

MAX_LENGTH: Final = 1024
"""Characters of a condition."""
_NAMED: Final = re.compile(r"\{\{\s*((?:parameters|steps|flow)\.[^{}\s]+|item(?:\.[^{}\s]+)?|index)\s*\}\}")


class ExpressionError(ValueError):
    """A condition that cannot be read or answered, or a text that names what is not there; the message says which."""


@functools.lru_cache(maxsize=4096)
def compiled(text: str) -> cel.Program:
    """A condition, ready to be asked; raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"a condition has at most {MAX_LENGTH} characters, this one {len(text)}")
    try:
        return cel.compile(text)
    except ValueError as error:
        first = str(error).splitlines()[0].removeprefix(f"Failed to parse expression '{text}': ")
        raise ExpressionError(f"{text!r} is no condition: {first}") from error


def holds(text: str, facts: Mapping[str, Any]) -> bool:
    """Whether a condition holds; raises ExpressionError."""
    program = compiled(text)
    try:
        found = program.execute(dict(facts))
    except KeyError as error:
        raise ExpressionError(f"{text!r} names {error.args[0]!r}, which is not there") from error
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        raise ExpressionError(f"{text!r} has no answer: {error}") from error
    if not isinstance(found, bool):
        raise ExpressionError(f"{text!r} is {found!r}, neither true nor false")
    return found


def names_in(text: str) -> list[str]:
    """What a text names: `parameters.lr`, `item`, …"""
    return [match.group(1) for match in _NAMED.finditer(text)]


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """A document with every name in its texts (values, not keys) replaced; raises ExpressionError for one that is not there."""
    if isinstance(value, str):
        return _NAMED.sub(lambda match: _value(match.group(1), values), value) if "{{" in value else value
    if isinstance(value, list):
        return [filled(each, values) for each in value]
    if isinstance(value, Mapping):
        return {key: filled(each, values) for key, each in value.items()}
    return value


def _value(name: str, values: Mapping[str, str]) -> str:
    try:
        return values[name]
    except KeyError:
        raise ExpressionError(f"{{{{{name}}}}} stands for nothing here") from None


def item_values(item: Any, *, index: int) -> dict[str, str]:
    """What `item`, its fields and `index` stand for."""
    found = {"index": str(index), "item": as_text(item)}
    if isinstance(item, Mapping):
        found |= {f"item.{key}": as_text(value) for key, value in item.items()}
    return found


def as_text(value: Any) -> str:
    """A value as it stands in a text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)
