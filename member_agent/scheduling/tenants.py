"""Pods of gangs that hold room on a node, and until when at most: as far as somebody enforces their end.

A kubelet ends a pod that has `activeDeadlineSeconds`, the Job's controller a run with a longest time. Times are wall clock
seconds since the epoch; endless where nobody enforces anything. Pure but for `Limits`, which is kept by deltas of Jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.views import JobView, PodView
from member_agent.views.pods import seconds_of

START: Final = 60.0
"""Seconds within which a kubelet that was given a pod notes its start: from then on its deadline counts."""
RUNS: Final = 600.0
"""Seconds after which the hub stops a run that has not started (protocol.md 3); its longest time counts from its start."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod's requests, and when it has ended at the latest."""

    requests: ResourceVector
    ends: float = math.inf


There = Callable[[str], Sequence[Tenant]]
"""Tenants of a node."""


def nobody(node: str) -> Sequence[Tenant]:
    """No tenants anywhere."""
    return ()


class Limits:
    """By UID of a Job with a longest time: that, and when its run started (0: it has not)."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[float, float]] = {}

    def job_changed(self, change: Change[JobView]) -> None:
        """Fold one change in."""
        if change.old is not None:
            self._jobs.pop(change.old.uid, None)
        job = change.new
        limit = job.longest if job is not None else None
        if job is not None and limit is not None:
            self._jobs[job.uid] = (float(limit), seconds_of(job.status.memory.started_at))

    def ends(self, pod: PodView) -> float:
        """When a pod that has its node has ended at the latest."""
        grace, since = pod.manner.grace, pod.since
        own = since + pod.manner.limit + grace if pod.manner.limit is not None and since else math.inf
        limit, started = self._jobs.get(pod.owner, (math.inf, 0.0))
        return min(own, started + limit + grace if started else math.inf)

    def would_end(self, pods: Iterable[PodView], *, hub: bool, now: float) -> float:
        """When pods that are given nodes now would have ended. `hub`: a run that does not start in time is stopped."""
        latest = 0.0
        for pod in pods:
            own = START + pod.manner.limit if pod.manner.limit is not None else math.inf
            run = RUNS + self._jobs.get(pod.owner, (math.inf, 0.0))[0] if hub else math.inf
            latest = max(latest, now + min(own, run) + pod.manner.grace)
        return latest
