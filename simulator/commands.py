"""What a container does, told from its command: how long it runs, how it ends, and how it takes SIGTERM.

Understood: `sleep N` (with s, m, h, d, or `infinity`), `true`, `false`, `exit M`, and shell scripts (`sh -c`, any of the usual
shells) made of these, `trap '…' TERM`, `echo …` (also into `/dev/termination-log`) and `:`, joined by `&&`, `||`, `;` and line
ends. Anything else runs for the default time and succeeds. Annotations of the pod win over the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

DURATION = "simulator.volcano-federation.io/duration"
"""Pod annotation: seconds its containers run; "forever". With `.<container>` behind it, of that container alone; several values
with commas are for its first start, its first restart and so on, the last for all that follow."""
EXIT_CODE = "simulator.volcano-federation.io/exit-code"
"""Pod annotation: how its containers end; by container and by start as `DURATION`."""
IGNORES_TERM = "simulator.volcano-federation.io/ignores-term"
"""Pod annotation "true": runs on until it is killed at the end of its grace; by container as `DURATION`."""

KILLED, TERMINATED = 137, 143
"""Exit codes of a container that ends by SIGKILL or SIGTERM."""
TERM_DELAY = 0.5
"""Seconds a container takes to end on SIGTERM."""

TERMINATION_LOG = "/dev/termination-log"

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SLEEP = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SIGNALS = frozenset({"TERM", "SIGTERM", "15"})


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container takes SIGTERM: after so many seconds (None: not at all), with this code."""

    seconds: float | None = TERM_DELAY
    code: int = TERMINATED


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long a container runs (None: until it is stopped), its exit code then, and what SIGTERM does to it."""

    seconds: float | None
    code: int = 0
    term: Ending = Ending()
    left: str = ""
    """What it writes into its termination message."""


def outcome_of(container: Mapping[str, Any], *, annotations: Mapping[str, str], default: float, start: int = 0) -> Outcome:
    """What this container will do at its start number `start`, counted from 0."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    found = command_outcome(words, default=default)
    name = str(container.get("name", ""))
    duration, code = (_asked(annotations, key, name=name, start=start) for key in (DURATION, EXIT_CODE))
    deaf = _asked(annotations, IGNORES_TERM, name=name, start=start) == "true"
    return Outcome(
        found.seconds if duration is None else None if duration == "forever" else float(duration),
        found.code if code is None else int(code),
        Ending(None) if deaf else found.term,
        found.left,
    )


def _asked(annotations: Mapping[str, str], key: str, *, name: str, start: int) -> str | None:
    values = annotations.get(f"{key}.{name}", annotations.get(key))
    if values is None:
        return None
    by_start = values.split(",")
    return by_start[min(start, len(by_start) - 1)].strip()


def command_outcome(words: Sequence[str], *, default: float) -> Outcome:
    """What a command line does; `default`: seconds of one that is not understood."""
    if not words:
        return Outcome(default)
    program = words[0].rsplit("/", 1)[-1]
    if program in _SHELLS and len(words) > 2 and words[1].startswith("-") and words[1].endswith("c"):
        return _script(words[2], default=default)
    return _command(list(words), default=default)[0]


def _script(text: str, *, default: float) -> Outcome:
    """Run the commands of a script one after the other."""
    done, skip = Outcome(0.0), False
    for part in _split(text):
        if part in {"&&", "||", ";"}:
            skip = (part == "&&" and done.code != 0) or (part == "||" and done.code == 0)
            continue
        if skip:
            continue
        words = shlex.split(part)
        if words[:1] == ["trap"]:
            done = replace(done, term=_trap(words, before=done.term, default=default))
            continue
        outcome, ends = _command(words, default=default)
        if done.seconds is None or outcome.seconds is None:
            return replace(done, seconds=None, code=outcome.code)
        done = replace(done, seconds=done.seconds + outcome.seconds, code=outcome.code, left=outcome.left or done.left)
        if ends:
            break
    return done


def _trap(words: Sequence[str], *, before: Ending, default: float) -> Ending:
    """What SIGTERM does after `trap '<script>' TERM`; an empty script ignores the signal."""
    if len(words) < 3 or not _SIGNALS & set(words[2:]):
        return before
    if not words[1]:
        return Ending(None)
    handled = _script(words[1], default=default)
    return Ending(handled.seconds, handled.code)


_PIECES = re.compile(
    r"""(?P<operator>&&|\|\||[;\n])|(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|.)""",
    re.DOTALL,
)
"""An operator between commands, or a piece of a command that holds none: an escape, a quoted text, a character."""


def _split(text: str) -> list[str]:
    """Commands and the operators between them, as they are written; a line end is `;`."""
    parts: list[str] = []
    command = ""
    for piece in _PIECES.finditer(text):
        operator = piece["operator"]
        if operator is None:
            command += piece.group()
        elif command.strip():
            parts += [command.strip(), operator.replace("\n", ";")]
            command = ""
    return [*parts, command.strip()] if command.strip() else parts


def _command(words: list[str], *, default: float) -> tuple[Outcome, bool]:
    """The outcome of one simple command, and whether the script ends with it."""
    if not words:
        return Outcome(0.0), False
    program = words[0].rsplit("/", 1)[-1]
    if program == "exec":
        return _command(words[1:], default=default)[0], True
    if program == "sleep" and len(words) > 1:
        return Outcome(_seconds(words[1], default=default)), False
    if program == "exit":
        return Outcome(0.0, int(words[1]) if len(words) > 1 else 0), True
    if program in {"true", "echo", ":", "printf", "set", "export"}:
        return Outcome(0.0, left=_left(words[1:])), False
    if program == "false":
        return Outcome(0.0, 1), False
    return Outcome(default), False


def _left(words: Sequence[str]) -> str:
    """What `echo … > /dev/termination-log` leaves; other redirections leave nothing."""
    text = " ".join(words)
    said, arrow, place = text.rpartition(">")
    return said.strip() if arrow and place.strip() == TERMINATION_LOG else ""


def _seconds(text: str, *, default: float) -> float | None:
    if text in {"infinity", "inf"}:
        return None
    match = _SLEEP.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else default
