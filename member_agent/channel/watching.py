"""Tells who follows the logs of a Job when its pods, or the Job, change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from machinery.informer import Change, Informer
from member_agent.channel.owned import Owned
from member_agent.views.jobs import JobView
from member_agent.views.pods import PodView


class Following:
    """One follower's look at one Job; see `member_agent.channel.logs.Changes`."""

    def __init__(self, still: Callable[[], Owned | str]) -> None:
        self._still = still
        self.changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """It has ended, or is no longer here."""
        found = self._still()
        return isinstance(found, str) or found.ended

    async def wait(self) -> None:
        """Return when something changed since the last wait."""
        await self.changed.wait()
        self.changed.clear()


class Watching:
    """All followers, by the UID of the Job that they follow."""

    def __init__(self, *, pods: Informer[PodView], jobs: Informer[JobView]) -> None:
        self._followers: dict[str, list[Following]] = {}
        pods.subscribe(self._pod_changed)
        jobs.subscribe(self._job_changed)

    @contextlib.contextmanager
    def of(self, job: Owned, *, still: Callable[[], Owned | str]) -> Iterator[Following]:
        """A follower while the block runs; `still` looks the Job up again."""
        made = Following(still)
        self._followers.setdefault(job.uid, []).append(made)
        try:
            yield made
        finally:
            self._followers[job.uid].remove(made)
            if not self._followers[job.uid]:
                del self._followers[job.uid]

    def _pod_changed(self, change: Change[PodView]) -> None:
        pod = change.new or change.old
        if self._followers and pod is not None:
            self._wake(pod.owner)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new or change.old
        if self._followers and job is not None:
            self._wake(job.uid)

    def _wake(self, uid: str) -> None:
        for each in self._followers.get(uid, ()):
            each.changed.set()
