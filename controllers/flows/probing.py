"""Asks pods of targets whether a step may start, again and again until they say so: nothing else tells when they do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Protocol

from controllers.flows.plans import ProbeWanted
from machinery.clock import Clock
from machinery.informer import Key
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue

PERIOD: Final = 5.0
"""Seconds between two questions to the same pods."""
AT_ONCE: Final = 16

NOBODY: Final = "nothing here reaches pods: the step starts when its targets have completed"


class Prober(Protocol):
    """Reaches pods of Jobs."""

    async def ask(self, namespace: str, wanted: ProbeWanted) -> str:
        """Whether every pod that the probe is about answers as it says: "" when so, else a sentence that says which does not.
        Never raises for pods that do not answer."""
        ...


class Probing:
    """Questions that flows want answered; `wake` is called with the key of a flow that has a new answer."""

    def __init__(self, prober: Prober | None, *, clock: Clock, wake: Callable[[Key], None]) -> None:
        self._prober = prober
        self._wake = wake
        self._queue: WorkQueue[tuple[Key, str]] = WorkQueue(clock)
        self._wanted: dict[tuple[Key, str], tuple[str, ProbeWanted]] = {}
        self._reached: dict[str, set[str]] = {}
        self._unanswered: dict[str, dict[str, str]] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask while the body runs."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_workers(self._queue, self._ask, workers=AT_ONCE, name="probes"))
            try:
                yield
            finally:
                task.cancel()

    def want(self, flow: Key, uid: str, probes: Sequence[ProbeWanted]) -> None:
        """These are the questions of a flow now; earlier ones that are not among them are dropped."""
        steps = {each.step for each in probes}
        for key in [key for key in self._wanted if key[0] == flow and key[1] not in steps]:
            del self._wanted[key]
        for each in probes:
            known = self._wanted.get((flow, each.step))
            self._wanted[flow, each.step] = (uid, each)
            if known is None:
                self._queue.add((flow, each.step))

    def forget(self, flow: Key) -> None:
        """The flow is gone."""
        for key in [key for key in self._wanted if key[0] == flow]:
            uid, _ = self._wanted.pop(key)
            self._reached.pop(uid, None)
            self._unanswered.pop(uid, None)

    def reached(self, uid: str) -> frozenset[str]:
        """Steps of a flow whose probes were answered."""
        return frozenset(self._reached.get(uid, ()))

    def unanswered(self, uid: str) -> Mapping[str, str]:
        """What the other probes said last, by step."""
        return self._unanswered.get(uid, {})

    async def _ask(self, key: tuple[Key, str]) -> float | None:
        found = self._wanted.get(key)
        if found is None:
            return None
        uid, wanted = found
        said = NOBODY if self._prober is None else await self._prober.ask(key[0][0], wanted)
        if self._wanted.get(key) is not found:
            return 0.0 if key in self._wanted else None
        if not said:
            self._reached.setdefault(uid, set()).add(wanted.step)
            del self._wanted[key]
            self._wake(key[0])
            return None
        known = self._unanswered.setdefault(uid, {})
        if known.get(wanted.step) != said:
            known[wanted.step] = said
            self._wake(key[0])
        return None if self._prober is None else PERIOD
