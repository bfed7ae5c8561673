"""Flag strings, as Go programs read them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from member_agent.jobs.plugins import BadArgument, flag, read


@dataclass(frozen=True)
class Arguments:
    task: str = flag("task", "master")
    port: int = flag("port", 22, port=True)
    seconds: int = flag("seconds", 5)
    on: bool = flag("on", False)
    off: bool = flag("off", True)


def parsed(*arguments: str) -> Arguments:
    return read(Arguments, arguments, plugin="mine")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), Arguments()),
        (("--task=a",), Arguments(task="a")),
        (("-task=a",), Arguments(task="a")),
        (("--task", "a"), Arguments(task="a")),
        (("-task", "a", "--port", "80"), Arguments(task="a", port=80)),
        (("--task=a=b",), Arguments(task="a=b")),
        (("--task=",), Arguments(task="")),
        (("--task", "--port"), Arguments(task="--port")),
        (("--task=a", "--task=b"), Arguments(task="b")),
        (("--port=0x50",), Arguments(port=80)),
        (("--seconds=-1",), Arguments(seconds=-1)),
        (("--on",), Arguments(on=True)),
        (("--on", "--port=80"), Arguments(on=True, port=80)),
        (("--off=false",), Arguments(off=False)),
        (("-off=F", "-on=T"), Arguments(off=False, on=True)),
        (("--on=1", "--off=0"), Arguments(off=False, on=True)),
    ],
)
def test_the_forms_that_are_read(arguments: tuple[str, ...], expected: Arguments) -> None:
    assert parsed(*arguments) == expected


KNOWN = "want one of --task, --port, --seconds, --on, --off"


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        (("--prot=80",), "--prot", f"is not known, {KNOWN}"),
        (("--=80",), "'--=80'", "is not a flag, which has the form --name=value"),
        (("port=80",), "'port=80'", "is not a flag, which has the form --name=value"),
        (("--",), "'--'", "is not a flag, which has the form --name=value"),
        (("---port=80",), "'---port=80'", "is not a flag, which has the form --name=value"),
        (("--on", "true"), "'true'", "is not a flag, which has the form --name=value"),
        (("--task",), "--task", "has no value"),
        (("--on=maybe",), "--on", "'maybe' is neither true nor false"),
        (("--port=many",), "--port", "'many' is no whole number"),
        (("--port=",), "--port", "'' is no whole number"),
        (("--port=0",), "--port", "0 is no port, want 1 to 65535"),
        (("--port=65536",), "--port", "65536 is no port, want 1 to 65535"),
    ],
)
def test_what_cannot_be_read_names_plugin_and_argument(arguments: tuple[str, ...], argument: str, message: str) -> None:
    with pytest.raises(BadArgument) as raised:
        parsed(*arguments)
    assert (raised.value.plugin, raised.value.argument, raised.value.message) == ("mine", argument, message)
    assert str(raised.value) == f"plugin mine: {argument}: {message}"


def test_an_argument_that_is_no_string_is_said() -> None:
    with pytest.raises(BadArgument, match="plugin mine: 7: is not a string"):
        read(Arguments, [7], plugin="mine")  # type: ignore[list-item]
