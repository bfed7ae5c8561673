"""Keeps this member's ClusterCapacity current at the hub (protocol.md 4).

Nothing is written on a clock: a look is taken after something changed, and a write follows only if the hub could decide
otherwise. What is too small for that is told when things have been quiet about it for a while, so that the hub never goes on
for ever with what is no longer so.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from apis import keys, kinds
from apis.capacity import CapacityStatus, Orphan, ShapeAnswer
from apis.vectors import EMPTY, ResourceVector, total
from machinery.clock import Clock, stamp
from machinery.port import PatchType, Port
from member_agent.asking import End, Foresight, Stand
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.reporting import capacity, growth
from member_agent.reporting.evictable import Evictable
from member_agent.reporting.nodes import LABELS, Sorter
from member_agent.reporting.stores import CapacityView, Stores
from member_agent.settings import ReportSettings
from member_agent.views import JobView
from policies import asked
from policies.asked import Asked
from policies.shapes import Pool

PLACED: Final = ("Running", "Completed")
"""Phases of PodGroups whose minimum has nodes."""
QUIET: Final = 4.0
"""After a look nothing is looked at for so many times as long as it took: looking costs a fifth of a core at most, and that
only while much waits and much changes."""


class Publisher:
    """The one writer of the status. `foresight`: the scheduler, where pods are ours to place."""

    def __init__(
        self,
        *,
        hub: Port,
        stores: Stores,
        inventory: Inventory,
        ledger: Ledger,
        orphans: Callable[[], tuple[Orphan, ...]],
        clock: Clock,
        namespace: str,
        settings: ReportSettings,
        foresight: Foresight | None,
    ) -> None:
        self._hub = hub
        self._stores = stores
        self._inventory = inventory
        self._ledger = ledger
        self._orphans = orphans
        self._clock = clock
        self._namespace = namespace
        self._settings = settings
        self._foresight = foresight
        self._evictable = Evictable()
        self._sorter = Sorter(domains=settings.domains)
        self._pool = Pool()
        self._published: CapacityStatus | None = None
        self._answers = -1
        self._written_at = float("-inf")
        self._rests_until = float("-inf")
        stores.pods.subscribe(self._evictable.pod_changed)
        stores.groups.subscribe(self._evictable.group_changed)

    @property
    def due(self) -> float:
        """Boot seconds before which nothing is written: the pace of protocol.md 4, its quick one while the hub waits to hear
        that something fits."""
        hoping = any(not each.fits for each in (self._published.shapes if self._published is not None else None) or ())
        return max(self._written_at + (self._settings.sooner if hoping else self._settings.every), self._rests_until)

    async def publish(self) -> float | None:
        """Look, and write if that is due; the seconds until it is worth looking again even if nothing happens."""
        view = self._stores.capacities.get(self._namespace, keys.MEMBER_LEASE)
        if view is None:
            return None  # the hub makes it after registration; its event wakes us
        began = self._clock.boot()
        if self._rests_until > began:
            return self._rests_until - began
        old = self._published or (view.status if view.status.observed_at else None)
        answered = self._ledger.answers
        status = await self._status(view, old)
        now = self._clock.boot()
        self._rests_until = now + max((now - began) * QUIET, self._settings.look)
        due = self._when(old, status, told=answered == self._answers and not self._covers_more(status))
        if due > now:
            return None if due == float("inf") else due - now
        self._written_at = now
        await self._write(view, status)
        self._published, self._answers = status, answered
        return None

    def _when(self, old: CapacityStatus | None, new: CapacityStatus, *, told: bool) -> float:
        """Boot seconds at which this is to be written; infinite when it says nothing new."""
        if old is None:
            return self._written_at + self._settings.sooner
        if capacity.worse(old, new) or capacity.better(old, new):
            return self._written_at + self._settings.sooner
        published = told and self._published is not None
        if not published or capacity.material(old, new, share=self._settings.share):
            return self._written_at + self._settings.every
        return self._written_at + self._settings.small_after if capacity.differs(old, new) else float("inf")

    def _covers_more(self, status: CapacityStatus) -> bool:
        """Works that we answered lie between what was published and now: our own status write moved them, for one. A hub that
        starts anew compares the versions that Works have then, and would count them twice for ever."""
        before = self._published.works_through if self._published is not None else ""
        if not (before.isdigit() and status.works_through.isdigit()):
            return before != status.works_through
        low, high = int(before), int(status.works_through)
        if low >= high:
            return False
        return any(work.version.isdigit() and low < int(work.version) <= high for work in self._stores.works.values())

    # --- looking -----------------------------------------------------------------------------------------------------

    async def _status(self, view: CapacityView, old: CapacityStatus | None) -> CapacityStatus:
        """What is so at this instant. Answers come after it, one at a time so that others run meanwhile: later than
        `worksThrough` says they can only be more careful."""
        stand = self._stand(view)
        look = self._look(view, old, stand)
        answers = None if stand is None else await self._ask(stand, view.asked)
        now, generation = stamp(self._clock.now()), (old.generation if old else 0) + 1
        found = capacity.status(look, answers=answers, generation=generation, now=now)
        return self._hopeful(found, view.asked) if found.growable and found.shapes else found

    def _stand(self, view: CapacityView) -> Stand | None:
        if self._foresight is None:
            return None
        return self._foresight.stand(view.asked, promised=self._ledger.spots(), ends=self._ends() if view.asked else ())

    def _look(self, view: CapacityView, old: CapacityStatus | None, stand: Stand | None) -> capacity.Look:
        through = self._ledger.through(self._stores.works.reached)
        self._sorter.label_keys = view.label_keys or LABELS
        room = self._inventory.room
        return capacity.Look(
            room=room,
            left=stand.left if stand is not None else self._ledger.shadow().free,
            sorts=self._sorter(room),
            queues=tuple(self._stores.queues.values()),
            admitted=self._admitted(),
            waiting=tuple(self._waiting()),
            orphans=self._orphans(),
            through=later(through, old.works_through if old else ""),
            held=self._foresight.held() if self._foresight is not None else None,
            kept=self._foresight.kept() if self._foresight is not None else (),
            reclaimable=self._evictable.bands(),
            growable=growth.growable(self._settings.growable, self._inventory.nodes.values()),
            conditions=old.conditions if old is not None else (),
        )

    @staticmethod
    async def _ask(stand: Stand, shapes: Sequence[Asked]) -> list[ShapeAnswer]:
        found = []
        for each in shapes:
            found.append(stand.ask(each))
            await asyncio.sleep(0)
        return found

    def _hopeful(self, status: CapacityStatus, shapes: Sequence[Asked]) -> CapacityStatus:
        """With the time that growing would take, where nothing that ends is sooner."""
        gangs = {each.hash: asked.gang_of(each, pool=self._pool) for each in shapes}
        found = []
        for answer in status.shapes or ():
            gang = gangs.get(answer.hash)
            waits = growth.wait(gang, status) if gang is not None and not answer.fits else None
            if waits is not None and (answer.wait is None or waits < answer.wait):
                answer = msgspec.structs.replace(answer, wait=waits)
            found.append(answer)
        return msgspec.structs.replace(status, shapes=tuple(found))

    def _ends(self) -> list[End]:
        """Jobs whose end somebody enforces, the first first."""
        now, found = self._clock.now(), []
        for job in self._stores.jobs.values():
            limit = job.longest
            began = _moment(job.status.memory.started_at) if limit is not None else None
            if limit is not None and began is not None and job.phase == "Running":
                found.append(End(max(limit - (now - began).total_seconds(), 0.0), job.uid))
        return sorted(found, key=lambda end: (end.seconds, end.owner))

    # --- what is ahead -----------------------------------------------------------------------------------------------

    def _admitted(self) -> Mapping[str, ResourceVector]:
        jobs = {job.uid: job for job in self._stores.jobs.values() if job.managed}
        amounts: dict[str, ResourceVector] = {}
        for uid, vector in self._ledger.promised():
            queue = jobs[uid].queue if uid in jobs else keys.DEFAULT_QUEUE
            amounts[queue] = amounts.get(queue, EMPTY) + vector
        return amounts

    def _waiting(self) -> Iterator[capacity.Demand]:
        """What hub-run gangs that were accepted miss, and the minimum of local gangs that have not got theirs."""
        jobs = {job.uid: job for job in self._stores.jobs.values()}
        for uid, missing in self._ledger.promised():
            yield capacity.Demand(*self._place_in_line(jobs.get(uid)), demand=missing)
        placed = {group.owner for group in self._stores.groups.values() if group.phase in PLACED}
        for job in jobs.values():
            waits = job.phase in ("", "Pending") and not job.deleting and not job.managed and job.uid not in placed
            if waits and job.gang is not None:
                least = total(shape.requests * count for shape, count in job.gang.least())
                yield capacity.Demand(*self._place_in_line(job), demand=least)

    def _place_in_line(self, job: JobView | None) -> tuple[str, int]:
        """Queue and priority; those of nobody for a Job that was made a moment ago and is not seen yet."""
        if job is None:
            return keys.DEFAULT_QUEUE, 0
        known = self._stores.priorities.get("", job.priority_class) if job.priority_class else None
        return job.queue, known.value if known else 0

    async def _write(self, view: CapacityView, status: CapacityStatus) -> None:
        """The status alone, against the version it was decided on: a leader of yesterday cannot overwrite it."""
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": view.version},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        await self._hub.patch(
            kinds.CLUSTER_CAPACITY, view.name, body, type=PatchType.JSON, namespace=view.namespace, subresource="status"
        )


def later(one: str, other: str) -> str:
    """The later of two resourceVersions of Works: what was accounted for once stays accounted for."""
    if not (one.isdigit() and other.isdigit()):
        return one or other
    return one if int(one) >= int(other) else other


def _moment(text: str) -> datetime.datetime | None:
    """A time as a status says it; None for what is none, or lacks its zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
