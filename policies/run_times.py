"""How long a Job may take: what its people say, else what equal Jobs took (design.md 4)."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from policies import durations

KEPT: Final = 32
"""Run times that are remembered of one template: enough for a median that one straggler does not move."""


class Source(enum.StrEnum):
    """Where an estimate comes from."""

    ANNOTATION = "estimated-duration"
    ESTIMATE = "runningEstimate"
    HISTORY = "history"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class RunTime:
    """Seconds on nodes of throughput 1, and who says so."""

    seconds: float
    source: Source


def expected(*, annotation: str = "", estimate: str = "", history: Sequence[float] = (), default: float) -> RunTime:
    """The nearest `estimated-duration`, `spec.runningEstimate`, the median of equal Jobs, or the hub's default.

    A text that is no duration is passed over: admission refuses it, and a Job must not wait for it.
    """
    for text, read, source in (
        (annotation, durations.parse, Source.ANNOTATION),
        (estimate, durations.golang, Source.ESTIMATE),
    ):
        try:
            seconds = read(text) if text else 0
        except durations.InvalidDuration:
            continue
        if seconds > 0:
            return RunTime(float(seconds), source)
    if history:
        return RunTime(_median(history), Source.HISTORY)
    return RunTime(default, Source.DEFAULT)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def remembered(history: Sequence[float], *, seconds: float, throughput: float) -> tuple[float, ...]:
    """The history after a run that took `seconds` on nodes of `throughput`: kept as on nodes of throughput 1, newest last."""
    return (*history, seconds * throughput)[-KEPT:] if seconds > 0 else tuple(history)


class _Task(msgspec.Struct, frozen=True):
    name: str = ""
    replicas: Any = None
    template: msgspec.Raw = msgspec.Raw(b"null")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_available: Any = None
    tasks: list[_Task] | None = None


_spec = msgspec.json.Decoder(_Spec)


def template_hash(spec: bytes | msgspec.Raw) -> str:
    """The same for Jobs that do the same work: names and templates of tasks and how many of them, whatever the Job, its queue
    or its priority are called. "" for a spec that cannot be read."""
    try:
        read = _spec.decode(spec)
        tasks = [(each.name, each.replicas, msgspec.json.decode(each.template)) for each in read.tasks or []]
    except msgspec.MsgspecError:
        return ""
    text = msgspec.json.encode([read.min_available, tasks], order="deterministic")
    return hashlib.blake2b(text, digest_size=8).hexdigest()
