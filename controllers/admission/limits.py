"""How much one namespace may submit: Jobs that wait at once, and Jobs in a minute (design.md 5). Time comes as an argument."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import orjson

from controllers.admission.problems import Problem
from machinery.informer import Change
from machinery.port import Document

MINUTE: Final = 60.0
IN_FLIGHT: Final = 10.0
"""Seconds that a Job counts which was let in and has not come back from the API server: a cache is that late at most, or the
Job was refused by somebody else."""
WAITING: Final = ("", "Pending")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A Job, and whether it waits."""

    namespace: str
    name: str
    uid: str
    version: str
    waits: bool


def read_job(document: Document) -> JobRecord:
    """From a Job's document."""
    tree = orjson.loads(document)
    meta = tree["metadata"]
    phase = ((tree.get("status") or {}).get("state") or {}).get("phase") or ""
    return JobRecord(
        meta["namespace"],
        meta["name"],
        meta["uid"],
        meta["resourceVersion"],
        phase in WAITING and not meta.get("deletionTimestamp"),
    )


class Waiting:
    """Jobs that wait, by namespace: those that are seen, and those that were let in a moment ago."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._let_in: dict[str, dict[str, float]] = {}

    def changed(self, change: Change[JobRecord]) -> None:
        """Fold one change in."""
        for record, step in ((change.old, -1), (change.new, 1)):
            if record is not None and record.waits:
                self._seen[record.namespace] += step
        if change.new is not None:
            self._let_in.get(change.new.namespace, {}).pop(change.new.name, None)

    def let_in(self, namespace: str, name: str, *, now: float) -> None:
        """A Job of this name is on its way; nothing is noted of one whose name the API server makes."""
        if name:
            self._let_in.setdefault(namespace, {})[name] = now

    def count(self, namespace: str, *, now: float) -> int:
        """How many wait."""
        coming = self._let_in.get(namespace, {})
        for name in [name for name, at in coming.items() if now - at > IN_FLIGHT]:
            del coming[name]
        if not coming:
            self._let_in.pop(namespace, None)
        return self._seen[namespace] + len(coming)


class Rate:
    """A bucket of tokens for each namespace: as many at once as in a minute, filled evenly."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, namespace: str, *, now: float) -> float:
        """Seconds until it may submit again; 0.0 when it may now."""
        return max(0.0, 1.0 - self._level(namespace, now=now)) * MINUTE / self._most

    def spend(self, namespace: str, *, now: float) -> None:
        """It has submitted one; buckets that are full again are forgotten."""
        self._left[namespace] = (self._level(namespace, now=now) - 1.0, now)
        for name in [name for name, (_, at) in self._left.items() if now - at > MINUTE]:
            del self._left[name]

    def _level(self, namespace: str, *, now: float) -> float:
        level, at = self._left.get(namespace, (self._most, now))
        return min(self._most, level + (now - at) * self._most / MINUTE)


def pending_problem(namespace: str, *, waiting: int, most: int) -> list[Problem]:
    """Why no further Job may wait."""
    if waiting < most:
        return []
    text = f"{waiting} Jobs of namespace {namespace} wait already, and {most} may: submit it when some have started or are gone"
    return [Problem("metadata.namespace", text)]


def rate_problem(namespace: str, *, wait: float, most: int) -> list[Problem]:
    """Why it comes too soon."""
    if wait <= 0.0:
        return []
    text = f"namespace {namespace} submits more than {most} Jobs a minute: submit it again in {max(1, round(wait))} s"
    return [Problem("metadata.namespace", text)]
