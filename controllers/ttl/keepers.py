"""Several who must have recorded the end of a Job before it may leave, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from controllers.ttl.controller import Keepers
from machinery.informer import Key

J_contra = TypeVar("J_contra", contravariant=True)


class Everyone(Generic[J_contra]):
    """A Job leaves when all of them let it."""

    def __init__(self, *keepers: Keepers[J_contra]) -> None:
        self._keepers = keepers

    async def wait_synced(self) -> None:
        """Return once all of them can answer."""
        for each in self._keepers:
            await each.wait_synced()

    def may_leave(self, job: J_contra) -> bool:
        """Nobody keeps it."""
        return all(each.may_leave(job) for each in self._keepers)

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call with keys of Jobs for which an answer may be another one now."""
        for each in self._keepers:
            each.subscribe(handler)
