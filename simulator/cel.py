"""As much of the Common Expression Language as admission policies here are written in.

Literals, lists, fields, keys in brackets, `has()`, string methods, `in`, comparisons, `!`, `&&`, `||` and `? :`; a field that
is not there is an error, as it is in an API server. Anything else is refused when it is compiled.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Env = Mapping[str, Any]
Value = Callable[[Env], Any]

_TOKEN = re.compile(r"""\s*(?:'[^']*'|"[^"]*"|\d+|[A-Za-z_]\w*|&&|\|\||[=!<>]=|[?:.(),!<>\[\]])""")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, there: item in there,
}
_METHODS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
}
_CONSTANTS = {"true": True, "false": False, "null": None}


class CelError(Exception):
    """The expression cannot be read, or a field of it is not there."""


@functools.lru_cache(maxsize=256)
def compiled(text: str) -> Value:
    """The expression as a function of its variables."""
    parser = _Parser(text)
    value = parser.choice()
    parser.expect("")
    return value


class _Parser:
    """Recursive descent; one method per level of precedence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise CelError(f"cannot read {text[at:]!r} in {text!r}")
            self._tokens.append(found.group().strip())
            at = found.end()
        self._tokens.append("")

    def _takes(self, *wanted: str) -> str:
        return self._tokens.pop(0) if self._tokens[0] in wanted and self._tokens[0] else ""

    def expect(self, wanted: str) -> None:
        """Take this token ("" is the end) and nothing else."""
        if self._tokens.pop(0) != wanted:
            raise CelError(f"no {wanted or 'end'!r} where it belongs in {self._text!r}")

    def choice(self) -> Value:
        """`a ? b : c`"""
        condition = self._either()
        if not self._takes("?"):
            return condition
        yes = self.choice()
        self.expect(":")
        no = self.choice()
        return lambda env: yes(env) if condition(env) else no(env)

    def _either(self) -> Value:
        left = self._both()
        while self._takes("||"):
            left = self._joined(left, self._both(), until=True)
        return left

    def _both(self) -> Value:
        left = self._compared()
        while self._takes("&&"):
            left = self._joined(left, self._compared(), until=False)
        return left

    @staticmethod
    def _joined(left: Value, right: Value, *, until: bool) -> Value:
        return lambda env: until if bool(left(env)) is until else bool(right(env))

    def _compared(self) -> Value:
        left = self._plain()
        sign = self._takes(*_COMPARE)
        if not sign:
            return left
        right, compare = self._plain(), _COMPARE[sign]
        return lambda env: compare(left(env), right(env))

    def _plain(self) -> Value:
        if self._takes("!"):
            inner = self._plain()
            return lambda env: not inner(env)
        return self._with_fields(self._start())

    def _start(self) -> Value:
        token = self._tokens.pop(0)
        if token == "(":
            inner = self.choice()
            self.expect(")")
            return inner
        if token == "[":
            return self._list()
        if token == "has":
            self.expect("(")
            path = self._plain()
            self.expect(")")
            return lambda env: _is_there(path, env)
        if token[:1] in ("'", '"'):
            return lambda env: token[1:-1]
        if token.isdigit():
            return lambda env: int(token)
        if token in _CONSTANTS:
            return lambda env: _CONSTANTS[token]
        if not token.isidentifier():
            raise CelError(f"{token or 'the end'!r} is no value in {self._text!r}")
        return lambda env: _field(env, token)

    def _list(self) -> Value:
        items: list[Value] = []
        while not self._takes("]"):
            items.append(self.choice())
            if self._tokens[0] != "]":
                self.expect(",")
        return lambda env: [item(env) for item in items]

    def _with_fields(self, value: Value) -> Value:
        while sign := self._takes(".", "["):
            if sign == "[":
                value = self._at(value, self.choice())
                self.expect("]")
                continue
            name = self._tokens.pop(0)
            if self._takes("("):
                if name not in _METHODS:
                    raise CelError(f"{name}() is not known here")
                value = self._called(value, self.choice(), _METHODS[name])
                self.expect(")")
            else:
                value = self._of(value, name)
        return value

    @staticmethod
    def _called(value: Value, given: Value, method: Callable[[str, str], bool]) -> Value:
        return lambda env: method(value(env), given(env))

    @staticmethod
    def _at(value: Value, key: Value) -> Value:
        return lambda env: _field(value(env), key(env))

    @staticmethod
    def _of(value: Value, name: str) -> Value:
        return lambda env: _field(value(env), name)


def _field(there: Any, name: str) -> Any:
    if not isinstance(there, Mapping) or name not in there:
        raise CelError(f"no such key: {name}")
    return there[name]


def _is_there(path: Value, env: Env) -> bool:
    try:
        path(env)
    except CelError:
        return False
    return True
