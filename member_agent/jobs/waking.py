"""Which Job a change concerns: that one is to be looked at."""

from __future__ import annotations

from collections.abc import Callable

from machinery.informer import Change, Key
from member_agent.jobs.commands import CommandIndex
from member_agent.jobs.lifecycle import ENDS
from member_agent.jobs.pods import ExpectedPods, PodIndex
from member_agent.jobs.stores import Stores
from member_agent.views import GroupView, JobView, PodView, QueueView, WorkView
from member_agent.views.volumes import ClaimView
from policies.members import CommandView

Wake = Callable[[Key], None]
"""Have the Job of this key looked at soon."""


class Waker:
    """Folds every change into the indices and wakes the Jobs it concerns, from its making on."""

    def __init__(
        self,
        stores: Stores,
        *,
        pods: PodIndex,
        expected: ExpectedPods,
        commands: CommandIndex,
        wake: Wake,
        edited: Callable[[JobView], None],
        gone: Callable[[JobView], None],
    ) -> None:
        """`edited` and `gone` get Jobs as they were before their spec changed, or before they went."""
        self._stores = stores
        self._pods = pods
        self._expected = expected
        self._commands = commands
        self._wake = wake
        self._edited = edited
        self._gone = gone
        self._names: dict[str, Key] = {}
        self._claiming: set[Key] = set()
        """Jobs that name claims: a claim is the affair of few."""
        stores.jobs.subscribe(self._job_changed)
        stores.groups.subscribe(self._group_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.queues.subscribe(self._queue_changed)
        stores.works.subscribe(self._work_changed)
        stores.claims.subscribe(self._claim_changed)
        stores.commands.subscribe(self._command_changed)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new
        (self._claiming.add if job is not None and job.rules.claims else self._claiming.discard)(change.key)
        if change.old is not None and (job is None or job.uid != change.old.uid):
            self._forget(change.old)
        if job is None:
            if self._commands.of(change.key):
                self._wake(change.key)  # they came too late to be carried out, and must not wait for a namesake
            return
        self._names[job.uid] = change.key
        if change.old is not None and change.old.generation != job.generation:
            self._edited(change.old)
        self._wake(change.key)

    def _forget(self, job: JobView) -> None:
        self._names.pop(job.uid, None)
        self._pods.forget(job.uid)
        self._expected.forget(job)
        self._gone(job)

    def _group_changed(self, change: Change[GroupView]) -> None:
        group = change.new or change.old
        if group is not None and group.owner in self._names:
            self._wake(self._names[group.owner])

    def _pod_changed(self, change: Change[PodView]) -> None:
        self._pods.changed(change)
        for pod in (change.old, change.new):
            if pod is None or not pod.owner:
                continue
            if pod.owner in self._names:
                self._expected.drop(pod.owner, [pod.name])
                self._wake(self._names[pod.owner])
            else:
                self._pods.forget(pod.owner)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        if change.old is not None and change.new is not None:
            return
        for job in self._stores.jobs.sorted():
            if job.phase not in ENDS and job.queue == change.key[1]:
                self._wake((job.namespace, job.name))

    def _claim_changed(self, change: Change[ClaimView]) -> None:
        if change.old is not None and change.new is not None:
            return
        for key in sorted(self._claiming):
            job = self._stores.jobs.get(*key)
            if job is None or job.phase in ENDS or job.namespace != change.key[0]:
                continue
            if change.key[1] in job.rules.claims:
                self._wake(key)

    def _work_changed(self, change: Change[WorkView]) -> None:
        """A Job that waits for its Work is looked at when that comes; what else becomes of Works is not our affair."""
        work = change.new
        if work is None or change.old is not None:
            return
        job = self._stores.jobs.get(work.target.namespace, work.target.name)
        if job is not None and job.managed:
            self._wake((job.namespace, job.name))

    def _command_changed(self, change: Change[CommandView]) -> None:
        key = self._commands.changed(change)
        if key is not None and change.new is not None:
            self._wake(key)
