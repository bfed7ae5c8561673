"""Expressions about objects, in the Common Expression Language.

Beside the language's own functions there are `jvm(text)`, bytes of a size as a JVM has it (`512m`, `4g`), `ceil_div(a, b)`,
and of lists `sum`, `least`, `greatest` and `joined`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
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
    context = cel.Context(variables=dict(facts), functions=FUNCTIONS)
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


def total(numbers: Any) -> int | None:
    """The sum of a list of whole numbers; None where it is none."""
    known = isinstance(numbers, list) and all(isinstance(each, int) for each in numbers)
    return sum(numbers) if known else None


def least(listed: Any) -> Any:
    """The smallest of a list of texts or of numbers; None where it is none."""
    return min(listed) if _comparable(listed) else None


def greatest(listed: Any) -> Any:
    """The largest of a list of texts or of numbers; None where it is none."""
    return max(listed) if _comparable(listed) else None


def joined(listed: Any) -> str | None:
    """Texts with commas between them; None where it is no list."""
    return ", ".join(str(each) for each in listed) if isinstance(listed, list) else None


def _comparable(listed: Any) -> bool:
    return isinstance(listed, list) and bool(listed) and len({type(each) for each in listed}) == 1


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "jvm": jvm,
    "ceil_div": ceil_div,
    "sum": total,
    "least": least,
    "greatest": greatest,
    "joined": joined,
}
