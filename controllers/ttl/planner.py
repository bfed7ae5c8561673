"""When a finished Job leaves (reference/volcano.md 1.8). Pure."""

from __future__ import annotations

import datetime
from typing import Final, Protocol

ENDS: Final = frozenset({"Completed", "Failed", "Terminated"})
"""Phases after which a Job leaves; Aborted may be resumed and stays."""


class Finished(Protocol):
    """What a program's own projection of a Job must tell."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def deleting(self) -> bool: ...

    @property
    def phase(self) -> str: ...

    @property
    def ttl(self) -> int | None:
        """`spec.ttlSecondsAfterFinished`; None keeps the Job."""
        ...

    @property
    def transition(self) -> str:
        """`status.state.lastTransitionTime`, RFC 3339, or ""."""
        ...


def leaves_in(job: Finished, *, now: datetime.datetime, seen: datetime.datetime | None = None) -> float | None:
    """Seconds until the Job is to be deleted, 0 when it is due; None when it stays. `seen`: when it was first seen ended, which
    counts where nobody says since when."""
    if job.deleting or job.ttl is None or job.phase not in ENDS:
        return None
    since = datetime.datetime.fromisoformat(job.transition) if job.transition else (seen or now)
    end = since + datetime.timedelta(seconds=job.ttl)
    return max((end - now).total_seconds(), 0.0)
