"""Container start records: what really ran, where and when.

They belong to the nodes, outside every actor of ours, and nobody of ours can change them: whether a Job ran twice is judged
from them and not from anybody's status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from apis import keys


@dataclass(slots=True)
class StartRecord:
    """One start of one container. Times in seconds of loop time; `end` is None while it runs."""

    cluster: str
    node: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    start: float
    end: float | None = None
    exit_code: int | None = None

    @property
    def run(self) -> str:
        """The run record the pod carried, "" without one."""
        return self.annotations.get(keys.RUN, "")

    @property
    def job(self) -> str:
        """Namespace and name of the Volcano Job it belonged to, "" for any other pod."""
        name = self.labels.get(keys.JOB_NAME) or self.annotations.get(keys.JOB_NAME)
        return f"{self.namespace}/{name}" if name else ""

    def overlaps(self, other: StartRecord) -> bool:
        """Both ran at some instant."""
        return self.start < (other.end if other.end is not None else float("inf")) and other.start < (
            self.end if self.end is not None else float("inf")
        )


@dataclass(slots=True)
class StartRecords:
    """All starts of one world, in order."""

    records: list[StartRecord] = field(default_factory=list)

    def __iter__(self) -> Iterator[StartRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def of_job(self, job: str) -> list[StartRecord]:
        """Starts of `namespace/name`."""
        return [record for record in self.records if record.job == job]

    def running(self) -> list[StartRecord]:
        """What runs now."""
        return [record for record in self.records if record.end is None]

    def two_clusters_at_once(self) -> list[tuple[StartRecord, StartRecord]]:
        """Pairs of one Job that ran in two clusters at the same time: for an exclusive Job there must be none."""
        by_job: dict[str, list[StartRecord]] = {}
        for record in self.records:
            if record.job:
                by_job.setdefault(record.job, []).append(record)
        return [
            (first, second)
            for there in by_job.values()
            for index, first in enumerate(there)
            for second in there[index + 1 :]
            if first.cluster != second.cluster and first.overlaps(second)
        ]

    def repeated(self) -> dict[str, list[StartRecord]]:
        """Pods (cluster, namespace, name) whose container was started more than once, restarts of one pod included."""
        by_pod: dict[str, list[StartRecord]] = {}
        for record in self.records:
            if record.job:
                by_pod.setdefault(f"{record.namespace}/{record.pod}/{record.container}", []).append(record)
        return {pod: starts for pod, starts in by_pod.items() if len(starts) > 1}
