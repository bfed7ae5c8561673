"""Expressions about objects, in the Common Expression Language.

Beside the language's own functions there are `jvm(text)`, bytes of a size as a JVM has it (`512m`, `4g`), and
`ceil_div(a, b)`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

import cel

from apis.interpreter import LONGEST_SCRIPT

_JVM: Final = re.compile(r"(?P<amount>[0-9]+)(?P<unit>[kmgt]?)b?")
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class ScriptError(ValueError):
    """An expression that cannot be read, or has no answer for an object; the message says why."""


@functools.lru_cache(maxsize=512)
def compiled(text: str) -> cel.Program:
    """An expression, ready to be asked; raises ScriptError."""
    if len(text) > LONGEST_SCRIPT:
        raise ScriptError(f"an expression has at most {LONGEST_SCRIPT} characters, this one {len(text)}")
    try:
        return cel.compile(text)
    except ValueError as error:
        raise ScriptError(f"no expression: {str(error).splitlines()[0][:200]}") from error


def answer(text: str, facts: Mapping[str, Any]) -> Any:
    """What an expression says of `facts`; raises ScriptError."""
    program = compiled(text)
    context = cel.Context(variables=dict(facts), functions={"jvm": jvm, "ceil_div": ceil_div})
    try:
        return program.execute(context)
    except KeyError as error:
        raise ScriptError(f"{error.args[0]!r} is not there") from error
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        raise ScriptError(str(error)[:200]) from error


def jvm(text: Any) -> int | None:
    """Bytes of a size as a JVM has it; a bare number is bytes. None, with which no expression can reckon, for what is none: the
    library prints what a function raises."""
    match = _JVM.fullmatch(str(text).strip().lower())
    return None if match is None else int(match["amount"]) << _POWERS[match["unit"]]


def ceil_div(amount: Any, size: Any) -> int | None:
    """How many of `size` hold `amount`; None where that has no answer."""
    known = isinstance(amount, int) and isinstance(size, int) and size > 0
    return -(-amount // size) if known else None
