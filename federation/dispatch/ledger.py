"""What this hub has promised and members have not subtracted yet, and what runs from each queue (protocol.md 3).

A promise starts with the grant and is dropped exactly when the version its Work got at creation is within the member's
`worksThrough`, or when the member refused it, or when the part is Gone: never by time. A new leader knows no creation
versions, so a Work counts with the version it was first seen at, which is never smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from apis.runs import PartState, RefusalReason
from apis.vectors import ResourceVector
from policies import parts
from policies.federated_quotas import Holding
from policies.shapes import Gang, Pool
from policies.statuses import TERMINAL
from policies.views import BindingView, JobView, WorkView

Entry = tuple[str, int, str]
"""Job UID, epoch, cluster."""

UNWRITTEN: Final = 1 << 63
"""Version of a Work that does not exist yet: above every worksThrough."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One granted part. `version` is the one to compare with worksThrough; `void` once refused or gone."""

    gang: Gang
    queue: str
    version: int = UNWRITTEN
    fence: int = -1
    void: bool = False


class Ledger:
    """Fed with what informers and the applier saw; answers what is still promised."""

    def __init__(self) -> None:
        self._promises: dict[Entry, Promise] = {}
        self._of_job: dict[str, set[Entry]] = {}
        self._open: dict[str, dict[Entry, None]] = {}
        self._running: dict[str, tuple[str, ResourceVector]] = {}
        self._used: dict[str, ResourceVector] = {}
        self._in_namespace: dict[str, set[str]] = {}
        self._namespace_of: dict[str, str] = {}
        self._pool = Pool()

    # --- feeding -----------------------------------------------------------------------------------------------------

    def saw_binding(self, binding: BindingView, *, job: JobView | None) -> None:
        """A binding as it stands now; `job` is its Job while there is one."""
        run = binding.run
        if run is None:
            return
        live = {
            (binding.job_uid, run.epoch, cluster)
            for cluster, part in run.parts.items()
            if part.state is not PartState.GONE and not binding.ended
        }
        for entry in self._of_job.get(binding.job_uid, set()) - live:
            self._drop(entry)
        self._lives_in(binding.job_uid, binding.namespace)
        gang = job.gang if job is not None and job.uid == binding.job_uid else None
        for entry in sorted(live):
            if entry not in self._promises and gang is not None and job is not None:
                part = parts.recorded(entry[2], run.parts[entry[2]])
                self._put(entry, Promise(gang=self._share(gang, part), queue=job.queue))

    def _share(self, gang: Gang, part: parts.Part | None) -> Gang:
        """Of a Job that was divided before it got other tasks nobody knows the part: all of it is charged."""
        known = part is not None and {each.name for each in part.tasks} <= {each.name for each in gang.tasks}
        return parts.gang_of(part, gang, pool=self._pool) if part is not None and known else gang

    def lost_binding(self, job_uid: str) -> None:
        """The binding is gone, and with it every Work."""
        for entry in sorted(self._of_job.get(job_uid, ())):
            self._drop(entry)
        self._in_namespace.get(self._namespace_of.pop(job_uid, ""), set()).discard(job_uid)

    def saw_work(self, work: WorkView) -> None:
        """A Work as it stands now. A restamped Work counts anew: the member looks at it again."""
        if not work.cluster:
            return
        if work.record is None:
            self._saw_object(work)
            return
        self._lives_in(work.record.job, work.binding[0])
        entry = (work.record.job, work.record.epoch, work.cluster)
        known = self._promises.get(entry)
        if known is None:
            if work.gang is None or work.phase in TERMINAL or work.deleting:
                return  # what goes and stands for no live part stands for a lost cluster, or is swept
            known = Promise(gang=work.gang, queue=work.queue)
        if known.version == UNWRITTEN or known.fence != work.record.fence:
            known = replace(known, version=_version(work.version), fence=work.record.fence)
        refused = work.refusal is not None and work.refusal is not RefusalReason.STALE_FENCE
        self._put(entry, replace(known, void=refused or work.locally_deleted))

    def _saw_object(self, work: WorkView) -> None:
        """The Work of another object than a Volcano Job: it asks for something as long as its annotation says so."""
        entry = (work.uid, 0, work.cluster)
        if work.gang is None or not work.gang.tasks:
            self._drop(entry)
            return
        known = self._promises.get(entry) or Promise(gang=work.gang, queue=work.queue, version=_version(work.version))
        self._lives_in(work.uid, work.binding[0])
        self._put(entry, replace(known, void=work.refusal is not None))

    def lost_work(self, work: WorkView) -> None:
        """A Work is gone: its pods are, too."""
        if work.record is None:
            self._drop((work.uid, 0, work.cluster))
            self._in_namespace.get(self._namespace_of.pop(work.uid, ""), set()).discard(work.uid)
        else:
            self._drop((work.record.job, work.record.epoch, work.cluster))

    def ended(self, job_uid: str) -> None:
        """The Job's end was seen: it uses its queue no more."""
        self._stop_using(job_uid)

    def part_ended(self, work: WorkView) -> None:
        """The end of a Work was seen. Of a Job of several parts the others go on using the queue where it completed."""
        if work.record is None:
            return
        job, epoch = work.record.job, work.record.epoch
        promise = self._promises.get((job, epoch, work.cluster))
        alone = sum(entry[1] == epoch for entry in self._of_job.get(job, ())) <= 1
        queue, request = self._running.get(job, ("", ResourceVector()))
        if alone or promise is None or not queue or work.phase != "Completed":
            self._stop_using(job)
            return
        self._running[job] = (queue, request - promise.gang.requests)
        self._used[queue] = self._used[queue] - promise.gang.requests

    # --- answering ---------------------------------------------------------------------------------------------------

    def promised(self, cluster: str, *, through: int) -> list[tuple[str, Gang]]:
        """(queue, gang) of everything a member has not subtracted, as it was promised one after the other; `through` is its
        worksThrough.

        What is within `through` is forgotten: worksThrough never goes back.
        """
        entries = self._open.get(cluster, {})
        for entry in [each for each in entries if self._promises[each].version <= through]:
            del entries[entry]
        promises = [self._promises[entry] for entry in entries]
        return [(each.queue, each.gang) for each in promises if not each.void]

    @property
    def used(self) -> Mapping[str, ResourceVector]:
        """What runs from each queue itself, descendants not counted."""
        return dict(self._used)

    def holdings(self, namespaces: Iterable[str]) -> tuple[Holding, ...]:
        """What live Jobs of these namespaces ask for, summed by namespace and cluster; what has ended asks for nothing."""
        sums: dict[tuple[str, str], ResourceVector] = {}
        for namespace in sorted(set(namespaces)):
            for job in self._in_namespace.get(namespace, ()):
                for entry in self._of_job.get(job, ()) if job in self._running else ():
                    place = (namespace, entry[2])
                    sums[place] = sums.get(place, ResourceVector()) + self._promises[entry].gang.requests
        return tuple(Holding(namespace, cluster, amount) for (namespace, cluster), amount in sorted(sums.items()))

    def _lives_in(self, job: str, namespace: str) -> None:
        if namespace and job not in self._namespace_of:
            self._namespace_of[job] = namespace
            self._in_namespace.setdefault(namespace, set()).add(job)

    def _put(self, entry: Entry, promise: Promise) -> None:
        old = self._promises.get(entry)
        self._promises[entry] = promise
        job, _, cluster = entry
        self._of_job.setdefault(job, set()).add(entry)
        if old is None or old.version != promise.version:
            self._open.setdefault(cluster, {})[entry] = None
        beside = any(each[1] == entry[1] and each != entry for each in self._of_job[job])
        if old is None and (beside or job not in self._running):
            queue, sum_of_parts = self._running.get(job, (promise.queue, ResourceVector()))
            self._running[job] = (queue, sum_of_parts + promise.gang.requests)
            self._used[queue] = self._used.get(queue, ResourceVector()) + promise.gang.requests

    def _drop(self, entry: Entry) -> None:
        if self._promises.pop(entry, None) is None:
            return
        job, _, cluster = entry
        self._open.get(cluster, {}).pop(entry, None)
        remaining = self._of_job[job]
        remaining.discard(entry)
        if not remaining:
            del self._of_job[job]
            self._stop_using(job)

    def _stop_using(self, job: str) -> None:
        queue, request = self._running.pop(job, ("", ResourceVector()))
        if queue:
            self._used[queue] = self._used[queue] - request


def _version(text: str) -> int:
    return int(text) if text.isdigit() else UNWRITTEN


def with_ancestors(used: Mapping[str, ResourceVector], *, chains: Mapping[str, Iterable[str]]) -> dict[str, ResourceVector]:
    """Use per queue with that of its descendants added; `chains` maps a queue to itself and its ancestors."""
    total: dict[str, ResourceVector] = {}
    for queue, amount in used.items():
        for name in chains.get(queue, (queue,)):
            total[name] = total.get(name, ResourceVector()) + amount
    return total
