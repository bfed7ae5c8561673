"""Whether what a member publishes can be believed (protocol.md 3): who refuses too much of what its own profile called Fits
takes no new work for a while. Kept in memory: a new leader begins with trust.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from apis.runs import RefusalReason
from policies.views import WorkView

SHARE: Final = 0.2
"""More refusals than this share of the last outcomes are too many."""
LAST: Final = 50
"""Outcomes that are remembered."""
LEAST: Final = 10
"""Fewer outcomes than this prove nothing."""
REST: Final = 600.0
"""Seconds without new work; then its word counts again."""

OF_THE_PROFILE: Final = frozenset({RefusalReason.NO_ROOM, RefusalReason.QUEUE_CLOSED})
"""Refusals that the profile should have told of."""


@dataclass(slots=True)
class _Record:
    kept: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST))
    """Of the last outcomes, True for those that were kept."""
    until: float = float("-inf")
    text: str = ""


class Trust:
    """Outcomes of what was granted because the member's profile said that it fits. Times in boot seconds."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        """UID of each Work without an outcome, and its cluster."""
        self._of: dict[str, _Record] = {}

    def granted(self, work: WorkView) -> None:
        """A Work was created on the word of its member."""
        self._open[work.uid] = work.cluster

    def saw_work(self, work: WorkView, *, now: float) -> str:
        """A Work as it stands now; why its cluster is not believed from now on, or ""."""
        if work.uid not in self._open or work.applied is None:
            return ""
        cluster = self._open.pop(work.uid)
        if not work.applied and work.refusal not in OF_THE_PROFILE:
            return ""
        record = self._of.setdefault(cluster, _Record())
        record.kept.append(work.applied)
        broken = len(record.kept) - sum(record.kept)
        if len(record.kept) < LEAST or broken <= SHARE * len(record.kept):
            return ""
        record.text = f"it refused {broken} of the last {len(record.kept)} runs that its own profile called Fits"
        record.until = now + REST
        record.kept.clear()
        return record.text

    def lost_work(self, uid: str) -> None:
        """A Work is gone without an outcome."""
        self._open.pop(uid, None)

    def distrusted(self, cluster: str, *, now: float) -> str:
        """Why it takes no new work, or ""."""
        record = self._of.get(cluster)
        return record.text if record is not None and now < record.until else ""

    def next(self, *, now: float) -> float:
        """Boot seconds at which the first rest ends; infinite when none does."""
        return min((each.until for each in self._of.values() if each.until > now), default=float("inf"))
