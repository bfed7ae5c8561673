"""What the phase of a JobFlow means to those who see it like a Job: a flow that it is a step of, a CronJob that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_AS_JOB: Final[Mapping[str, str]] = {"Succeed": "Completed", "": "Pending"}


def as_job(phase: str) -> str:
    """The phase that a Job would have; `Completed` and `Failed` are ends, and a flow that is resumed has none any more."""
    return _AS_JOB.get(phase, phase)
