"""The status of a Job as hub and members write it (reference/volcano.md 1.2), in the fields that the hub folds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

TERMINAL: Final = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that never change again. Aborted is a resting state."""

ENDING: Final = TERMINAL | {"Completing", "Terminating", "Aborting"}
"""Phases on the way to an end, and ends."""

NOT_STARTED: Final = frozenset({"", "Pending"})
"""Phases in which the minimum has not run yet."""


class JobState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status.state`."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `status.conditions`: upstream lists the phases visited."""

    status: str = ""
    last_transition_time: str | None = None


class TaskState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Pods of one task by pod phase."""

    phase: dict[str, int] = {}


class JobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status` of a Job. A member writes it, Works carry it, the hub folds it."""

    state: JobState = JobState()
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] = {}
    conditions: list[JobCondition] = []
    controlled_resources: dict[str, str] | None = None
    outputs: dict[str, str] = {}
    """Small values that pods left in their termination messages, by the names that the Job's annotation gives them."""

    @property
    def started(self) -> bool:
        """A pod runs or has ended, or the phase went past Pending."""
        return self.state.phase not in NOT_STARTED or bool(self.running or self.succeeded or self.failed)

    @property
    def gathered(self) -> bool:
        """The gang's minimum has run: what a start time-out waits for. One pod of a gang is no start."""
        if self.state.phase not in NOT_STARTED or self.retry_count:
            return True
        ran = self.running + self.succeeded + self.failed
        return bool(ran) and ran >= self.min_available > 0

    @property
    def ailing(self) -> bool:
        """The gang has run, has not ended, and fewer pods than its minimum run or have succeeded; or it was aborted there."""
        if self.state.phase in ENDING or not self.gathered:
            return False
        return self.state.phase == "Aborted" or self.running + self.succeeded < self.min_available


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(JobStatus)


def decode(raw: bytes | msgspec.Raw) -> JobStatus:
    """Read a status; raises msgspec's errors."""
    return _decoder.decode(raw)


def encode(status: JobStatus) -> bytes:
    """As bytes: a seventh of what the objects take."""
    return _encoder.encode(status)


def plain(status: JobStatus) -> dict[str, Any]:
    """As a JSON tree, zero fields left out."""
    tree: dict[str, Any] = msgspec.to_builtins(status)
    return tree


def difference(old: Mapping[str, Any], *, new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that turns one tree into another (RFC 7386): nested maps by key, what is gone as null."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, new=value)
            if inner:
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch


def digest(status: JobStatus) -> int:
    """Equal statuses have equal digests, in every process."""
    return zlib.crc32(_encoder.encode(status))
