"""The newest epoch of each hub Job that was seen here, so that an older grant that comes late is refused (StaleEpoch).

Bounded: the Job that was not heard of for longest is forgotten first. A Job that runs here is heard of again with every change
of it, and its name is taken besides.
"""

from __future__ import annotations

KEPT = 16_384
"""Jobs remembered: more than a member runs at once (protocol.md 7), about 2 MiB."""


class Epochs:
    """Epochs by UID of the hub Job."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._newest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def learn(self, job: str, epoch: int) -> None:
        """An object of this run was seen."""
        newest = max(self._newest.pop(job, 0), epoch)
        self._newest[job] = newest
        while len(self._newest) > self._kept:
            del self._newest[next(iter(self._newest))]

    def newest(self, job: str) -> int:
        """0 for a Job that is not remembered."""
        return self._newest.get(job, 0)
