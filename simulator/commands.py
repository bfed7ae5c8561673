"""What a container's command does, as far as the simulator understands it: for how long it runs, and how it ends.

Understood, alone or through a shell's `-c`: `sleep N`, `exit M`, `true`, `false`, `echo …`, `:`, joined by `&&`, `||` and `;`.
Anything else runs for the default time and succeeds. Annotations of the pod win over the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DURATION = "simulator.volcano-federation.io/duration"
"""Pod annotation: seconds its containers run; "forever"."""
EXIT_CODE = "simulator.volcano-federation.io/exit-code"
"""Pod annotation: how its containers end."""
IGNORES_TERM = "simulator.volcano-federation.io/ignores-term"
"""Pod annotation "true": runs on until it is killed at the end of its grace."""

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SLEEP = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long a container runs (None: until it is stopped), and its exit code then."""

    seconds: float | None
    code: int = 0


def outcome_of(container: Mapping[str, Any], *, annotations: Mapping[str, str], default: float) -> Outcome:
    """What this container will do."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    found = _run(words, default=default)
    duration, code = annotations.get(DURATION), annotations.get(EXIT_CODE)
    seconds = found.seconds if duration is None else None if duration == "forever" else float(duration)
    return Outcome(seconds, found.code if code is None else int(code))


def _run(words: Sequence[str], *, default: float) -> Outcome:
    if not words:
        return Outcome(default)
    program = words[0].rsplit("/", 1)[-1]
    if program in _SHELLS and len(words) > 2 and words[1].startswith("-") and words[1].endswith("c"):
        return _script(words[2], default=default)
    return _command(list(words), default=default)[0]


def _script(text: str, *, default: float) -> Outcome:
    """Run the commands of a script one after the other."""
    seconds, code, skip = 0.0, 0, False
    for part in _split(text):
        if part in {"&&", "||", ";"}:
            skip = (part == "&&" and code != 0) or (part == "||" and code == 0)
            continue
        if skip:
            continue
        outcome, ends = _command(shlex.split(part), default=default)
        if outcome.seconds is None:
            return Outcome(None, outcome.code)
        seconds, code = seconds + outcome.seconds, outcome.code
        if ends:
            break
    return Outcome(seconds, code)


def _split(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\n", ";"), posix=False, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    parts: list[str] = []
    words: list[str] = []
    for token in lexer:
        if token in {"&&", "||", ";"}:
            parts += [" ".join(words), token] if words else []
            words = []
        else:
            words.append(token)
    return [*parts, " ".join(words)] if words else parts


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
    if program in {"true", "echo", ":", "printf", "set", "trap", "export"}:
        return Outcome(0.0), False
    if program == "false":
        return Outcome(0.0, 1), False
    return Outcome(default), False


def _seconds(text: str, *, default: float) -> float | None:
    if text in {"infinity", "inf"}:
        return None
    match = _SLEEP.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else default
