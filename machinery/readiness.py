"""When a program is ready, for its `/readyz`.

A standby that campaigns is ready: it can take over. A leader is ready once what it leads with runs and has read its first
lists. A program without an election is ready while what it repeats goes well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from machinery.http import Check


class Synced(Protocol):
    """What informers tell."""

    @property
    def synced(self) -> bool:
        """The first list has been read."""
        ...


class Readiness:
    """Told by a program how far it is; asked by its health server."""

    def __init__(self) -> None:
        self._campaigns = False
        self._leads = False
        self._runs = False
        self._informers: tuple[Synced, ...] = ()

    def campaigning(self) -> None:
        """The API server answers, and the program stands for election."""
        self._campaigns = True

    @contextlib.contextmanager
    def leading(self) -> Iterator[None]:
        """While the block runs this process leads, and is not ready before `running`."""
        self._leads = True
        try:
            yield
        finally:
            self._leads = self._runs = False
            self._informers = ()

    def running(self, informers: Iterable[Synced]) -> None:
        """All roles of the leader have been started on these informers."""
        self._runs, self._informers = True, tuple(informers)

    @property
    def checks(self) -> Mapping[str, Check]:
        """For `HealthServer(ready=…)`."""
        return {
            "campaigning": lambda: self._campaigns,
            "roles": lambda: self._runs or not self._leads,
            "informers": lambda: all(each.synced for each in self._informers),
        }


class Heartbeat:
    """The last time that something repeated went well, in boot seconds; it must come again within `patience` seconds."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._last: float | None = None

    def beat(self, *, now: float) -> None:
        """It went well."""
        self._last = now

    def alive(self, *, now: float) -> bool:
        """It went well not long ago."""
        return self._last is not None and now - self._last <= self._patience
