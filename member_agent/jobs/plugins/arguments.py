"""Flag strings as Go programs read them: `--flag=value`, `--flag value`, `-flag`, booleans without a value.

A plugin declares its arguments as a frozen dataclass whose fields are made by `flag`; their types (str, int, bool) say how
values are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
PORTS: Final = range(1, 65536)


class BadArgument(ValueError):
    """A plugin cannot be used as it is written; `argument` is the flag or string at fault, "" where it is not one of them."""

    def __init__(self, message: str, *, plugin: str, argument: str = "") -> None:
        super().__init__(f"plugin {plugin}: {argument}: {message}" if argument else f"plugin {plugin}: {message}")
        self.plugin = plugin
        self.argument = argument
        self.message = message


def flag(name: str, default: Any, *, port: bool = False) -> Any:
    """A field of an arguments class: the flag it is read from, its default, and whether its number must be a port."""
    return dataclasses.field(default=default, metadata={"flag": name, "port": port})


def read(into: type[T], arguments: Sequence[str], *, plugin: str) -> T:
    """The arguments as values; a flag given twice counts as it was given last. Raises BadArgument naming plugin and flag."""
    known = {field.metadata["flag"]: field for field in dataclasses.fields(into)}  # type: ignore[arg-type]
    values = {}
    for name, text in _pairs(arguments, known=known, plugin=plugin):
        values[known[name].name] = _value(known[name], text, plugin=plugin)
    return into(**values)


def _pairs(
    arguments: Sequence[str], *, known: Mapping[str, dataclasses.Field[Any]], plugin: str
) -> Iterator[tuple[str, str | None]]:
    rest = iter(arguments)
    for argument in rest:
        if not isinstance(argument, str):
            raise BadArgument("is not a string", plugin=plugin, argument=repr(argument))
        name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or not name or name.startswith("-"):
            raise BadArgument("is not a flag, which has the form --name=value", plugin=plugin, argument=repr(argument))
        if name not in known:
            raise BadArgument(f"is not known, want one of {_listed(known)}", plugin=plugin, argument=f"--{name}")
        if equals:
            yield name, text
        elif isinstance(known[name].default, bool):
            yield name, "true"
        else:
            yield name, next(rest, None)


def _listed(known: Mapping[str, Any]) -> str:
    return ", ".join(f"--{name}" for name in known) or "none"


def _value(field: dataclasses.Field[Any], text: str | None, *, plugin: str) -> Any:
    argument = f"--{field.metadata['flag']}"
    if text is None:
        raise BadArgument("has no value", plugin=plugin, argument=argument)
    if isinstance(field.default, bool):
        if text not in TRUE | FALSE:
            raise BadArgument(f"{text!r} is neither true nor false", plugin=plugin, argument=argument)
        return text in TRUE
    if isinstance(field.default, int):
        return _number(text, port=field.metadata["port"], plugin=plugin, argument=argument)
    return text


def _number(text: str, *, port: bool, plugin: str, argument: str) -> int:
    try:
        number = int(text, 0)
    except ValueError as error:
        raise BadArgument(f"{text!r} is no whole number", plugin=plugin, argument=argument) from error
    if port and number not in PORTS:
        raise BadArgument(f"{number} is no port, want 1 to 65535", plugin=plugin, argument=argument)
    return number
