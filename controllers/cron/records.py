"""Which ends of Jobs are recorded in their CronJobs: until then an ended Job may not leave, because a run whose time was not
recorded would be started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controllers.cron.planner import job_name, recorded
from controllers.cron.snapshot import CronChild, CronView, moment
from machinery.informer import Change, Informer, Key


class CronRecords:
    """Answers for the Jobs of one program; `crons` is its own informer of CronJobs."""

    def __init__(self, crons: Informer[CronView]) -> None:
        self._crons = crons
        self._by_uid: dict[str, CronView] = {}
        crons.subscribe(self._changed)

    async def wait_synced(self) -> None:
        """Return once it knows every CronJob: before that an absent one proves nothing."""
        await self._crons.wait_synced()

    def may_leave(self, job: CronChild) -> bool:
        """True for a Job that belongs to no CronJob, or to one that is no more."""
        cron = self._by_uid.get(job.owner_uid)
        return cron is None or cron.deleting or recorded(job, cron=cron)

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call with the keys of Jobs whose end a CronJob may have recorded just now."""

        def changed(change: Change[CronView]) -> None:
            for name in sorted({*_named(change.old), *_named(change.new)}):
                handler((change.key[0], name))

        self._crons.subscribe(changed)

    def _changed(self, change: Change[CronView]) -> None:
        if change.old is not None:
            self._by_uid.pop(change.old.uid, None)
        if change.new is not None:
            self._by_uid[change.new.uid] = change.new


def _named(cron: CronView | None) -> Iterator[str]:
    """Jobs that a status speaks of."""
    if cron is None:
        return
    yield from (each.name for each in cron.status.active)
    last = moment(cron.status.last_schedule_time)
    if last is not None:
        yield job_name(cron.name, due=last)
