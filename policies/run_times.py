"""How long a Job may take: what its people say, else what equal Jobs took (design.md 4)."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
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


def template_hash(job: Mapping[str, Any]) -> str:
    """The same for Jobs that do the same work: names and templates of tasks and how many of them, whatever the Job, its queue
    or its priority are called."""
    spec = job.get("spec") or {}
    tasks = [{key: task.get(key) for key in ("name", "replicas", "template")} for task in spec.get("tasks") or []]
    text = msgspec.json.encode([spec.get("minAvailable"), tasks], order="deterministic")
    return hashlib.blake2b(text, digest_size=8).hexdigest()
