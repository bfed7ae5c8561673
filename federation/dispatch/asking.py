"""Asks members about work that waits: `spec.shapes` of each ClusterCapacity, those that are wanted most first (protocol.md 4).

Only members whose scheduler answers are asked, and only about what their answer may change. The list is written when something
is missing in it, not more often than every few seconds a member; what is wanted no more goes with the next write, or later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys, kinds
from federation.dispatch.snapshot import Key
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.informer import Change, Informer
from machinery.port import PatchType, Port
from machinery.workqueue import WorkQueue
from policies import asked, queueing
from policies.asked import Shape
from policies.capacities import CapacityView
from policies.members import PriorityView
from policies.views import Projections

log = logging.getLogger(__name__)

AT_ONCE: Final = 0.1
"""Seconds that work waits for company of which only a member can tell whether it fits."""
IN_TIME: Final = 3.0
"""Seconds that other work waits before anybody is asked: most of it starts sooner."""
PACE: Final = 2.0
"""Least seconds between two lists for one member; a list is one write there, and an answer another."""
LINGER: Final = 60.0
"""Seconds that shapes stay in a list although nothing waits for their answer: they would be asked about again."""
PATIENCE: Final = 20.0
"""Seconds after which a member that was asked and says nothing is asked by a Work, whose refusal is an answer too."""


MOST_WISHES: Final = 4096
"""Cases whose wishes are remembered; what waits for nothing but an answer is remembered beyond it."""

SHAPES_KEPT: Final = 16 * asked.MOST_SHAPES
"""Shapes that are kept, so that their manifests are not read again."""

LISTS: Final = ""
"""Key of the look at all lists; others are names of clusters."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one case would like to know, and since when (boot seconds). `urgent`: it waits for nothing but that."""

    digest: str
    clusters: frozenset[str]
    urgent: bool
    since: float

    def ripe(self, *, now: float) -> bool:
        """It has waited long enough to be asked about."""
        return self.urgent or now - self.since >= IN_TIME


class Asking:
    """The wishes of waiting cases, and the writer of what members are asked. Only the leader runs it."""

    def __init__(
        self,
        *,
        port: Port,
        projections: Projections,
        clock: Clock,
        capacities: Informer[CapacityView],
        priorities: Informer[PriorityView],
        order: Callable[[], Callable[[Key], Any]],
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock)
        self._port = port
        self._projections = projections
        self._clock = clock
        self._capacities = capacities
        self._priorities = priorities
        self._order = order
        self._wishes: dict[Key, _Wish] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        """Sets of clusters, each once: most cases wish for the same."""
        self._lists: dict[str, list[tuple[Key, str]]] = {}
        """By cluster, cases and digests as they are to be asked about."""
        self._since: dict[str, dict[str, float]] = {}
        """By cluster, boot seconds since which the answer about a digest is missing."""
        self._looked_at = float("-inf")
        self._written_at: dict[str, float] = {}
        self._shapes: dict[str, Shape] = {}
        self._unaskable: set[str] = set()
        """Digests of gangs that nobody can be asked about."""
        self._wishing: Counter[str] = Counter()
        """Cases by digest."""
        capacities.subscribe(self._capacity_changed)

    # --- wishes ------------------------------------------------------------------------------------------------------

    def wish(self, key: Key, digest: str, clusters: tuple[str, ...], *, urgent: bool) -> None:
        """A case waits, and these clusters could tell more. `urgent`: it waits for nothing but their answer."""
        now, known = self._clock.boot(), self._wishes.get(key)
        if known is None and not urgent and len(self._wishes) >= MOST_WISHES:
            return
        since = known.since if known is not None and known.digest == digest else now
        wanted = frozenset(clusters)
        wish = _Wish(digest, self._sets.setdefault(wanted, wanted), urgent, since)
        if wish == known:
            return
        if known is None or known.digest != digest:
            self._wishing[digest] += 1
            if known is not None:
                self._wished_no_more(known.digest)
        self._wishes[key] = wish
        self._look_at(since + (AT_ONCE if urgent else IN_TIME))
        for cluster in clusters if urgent else ():
            capacity = self._capacity(cluster)
            if capacity is None or digest not in (capacity.answers or {}):
                self._since.setdefault(cluster, {}).setdefault(digest, now)

    def forget(self, key: Key) -> None:
        """It waits no more, or for something else."""
        wish = self._wishes.pop(key, None)
        if wish is None:
            return
        if not self._wishes:
            self._sets.clear()
        self._wished_no_more(wish.digest)
        self._look_at(self._clock.boot() + LINGER)

    def _wished_no_more(self, digest: str) -> None:
        """By one case less; an answer that nobody waits for is not missing."""
        self._wishing[digest] -= 1
        if not self._wishing[digest]:
            del self._wishing[digest]
            for missing in self._since.values():
                missing.pop(digest, None)

    def _capacity_changed(self, change: Change[CapacityView]) -> None:
        """A list was written: by us, or by somebody who had better not."""
        old, new = change.old, change.new
        if new is not None and self._wishes and (old is None or old.asked != new.asked):
            self._look_at(self._clock.boot())

    def overdue(self, cluster: str, *, now: float) -> frozenset[str]:
        """Digests that this cluster was asked about for too long, or cannot be asked about; an answer clears them."""
        missing = self._since.get(cluster)
        if not missing:
            return frozenset(self._unaskable)
        capacity = self._capacity(cluster)
        for digest in (capacity.answers or {}) if capacity is not None else {}:
            missing.pop(digest, None)
        return frozenset(digest for digest, since in missing.items() if now - since >= PATIENCE) | self._unaskable

    def next(self, *, now: float) -> float:
        """Boot seconds at which the first answer is overdue; infinite when none is awaited."""
        due = (since + PATIENCE for missing in self._since.values() for since in missing.values())
        return min((each for each in due if each > now), default=float("inf"))

    def _look_at(self, at: float) -> None:
        self.queue.add_after(LISTS, max(at, self._looked_at + PACE) - self._clock.boot())

    def _capacity(self, cluster: str) -> CapacityView | None:
        return self._capacities.get(keys.execution_namespace(cluster), keys.MEMBER_LEASE)

    # --- lists -------------------------------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> float | None:
        """Look at all lists, or write that of one cluster."""
        return self._look() if key == LISTS else await self._write(key)

    def _look(self) -> float | None:
        """Make the lists anew, and let those be written in which something is missing."""
        now = self._looked_at = self._clock.boot()
        order = self._order()
        ripe = sorted((key for key, wish in self._wishes.items() if wish.ripe(now=now)), key=lambda key: (order(key), key))
        self._lists = lists({key: (self._wishes[key].digest, self._wishes[key].clusters) for key in ripe})
        for capacity in self._capacities.values():
            wanted = {digest for _, digest in self._lists.get(capacity.cluster, ())} - self._unaskable
            if capacity.answers is not None and (wanted - capacity.asked or capacity.asked - wanted):
                self.queue.add(capacity.cluster)
        young = [wish.since + IN_TIME for wish in self._wishes.values() if not wish.ripe(now=now)]
        return max(min(young) - now, PACE) if young else None

    async def _write(self, cluster: str) -> float | None:
        """Write the list of one member if something is missing in it, or has been in it for nothing for long enough."""
        capacity, now = self._capacity(cluster), self._clock.boot()
        if capacity is None or capacity.answers is None:
            return None
        last = self._written_at.get(cluster, float("-inf"))
        if last + PACE > now:
            return last + PACE - now
        wanted = await self._wanted(cluster)
        hashes = frozenset(each.hash for each in wanted)
        if hashes == capacity.asked:
            return None
        if hashes < capacity.asked and last + LINGER > now:
            return last + LINGER - now
        self._written_at[cluster] = now
        shapes = [asked.written(each) for each in wanted]
        body = {"spec": {"shapes": shapes}}
        await self._port.patch(
            kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, body, type=PatchType.MERGE, namespace=capacity.namespace
        )
        return None

    async def _wanted(self, cluster: str) -> list[Shape]:
        found = []
        for key, digest in self._lists.get(cluster, ()):
            shape = await self._shape(key, digest)
            if shape is not None:
                found.append(shape)
        return asked.within(found)

    async def _shape(self, key: Key, digest: str) -> Shape | None:
        """The shape of a case's gang: cut out of the manifest, which nobody keeps. None where the Job is no longer that one."""
        known = self._shapes.get(digest)
        if known is not None or digest in self._unaskable:
            return known
        try:
            document = await self._port.get(kinds.JOB, key[1], namespace=key[0])
        except NotFound:
            return None
        job = self._projections.job(document)
        if job.gang is None or job.asked_as != digest:
            return None
        shape = Shape(
            hash=digest,
            requirements=msgspec.Raw(msgspec.json.encode(asked.requirements_of(document), order="deterministic")),
            minimum=job.gang.minimum,
            queue=job.queue,
            priority=queueing.priority_of(job, classes={each.name: each for each in self._priorities.values()}),
        )
        if len(self._shapes) >= SHAPES_KEPT:
            self._shapes.clear()
        if len(msgspec.json.encode(shape)) > asked.ONE_SHAPE:
            log.info("%s/%s: its shape is too large to ask members about", *key)
            if len(self._unaskable) >= SHAPES_KEPT:
                self._unaskable.clear()
            self._unaskable.add(digest)
            return None
        self._shapes[digest] = shape
        return shape


def lists(wishes: Mapping[Key, tuple[str, frozenset[str]]]) -> dict[str, list[tuple[Key, str]]]:
    """By cluster, the first wishes that name it, each digest once, as many as may be asked about. `wishes` come in order."""
    found: dict[str, list[tuple[Key, str]]] = {}
    known: dict[str, set[str]] = {}
    full: set[str] = set()
    for key, (digest, clusters) in wishes.items():
        for cluster in clusters - full:
            digests = known.setdefault(cluster, set())
            if digest not in digests:
                digests.add(digest)
                found.setdefault(cluster, []).append((key, digest))
                if len(digests) == asked.MOST_SHAPES:
                    full.add(cluster)
    return found
