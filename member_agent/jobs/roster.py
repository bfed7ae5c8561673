"""The pods of one Job, counted as they change: one event costs one pod, however many there are.

A pod is what its Job's controller made it: its version, task and index are annotations. A pod that is being deleted counts
as terminating and as nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from member_agent.views import PodView

Slot = tuple[str, int]
"""Task and index."""


class Roster:
    """Pods by name, and what is asked of them all the time. Planners read it and change nothing."""

    def __init__(self, pods: Iterable[PodView] = ()) -> None:
        self.pods: dict[str, PodView] = {}
        self.phases: Counter[tuple[str, str]] = Counter()
        """Pods by task and phase, those being deleted apart."""
        self.ready: Counter[str] = Counter()
        """Running pods of a task with every container ready."""
        self.restarts: Counter[str] = Counter()
        """Restarts of containers of a task's pods that have not ended."""
        self.versions: Counter[int] = Counter()
        self.slots: dict[str, dict[int, str]] = {}
        """Names of pods that are not being deleted, by task and index."""
        self.deleting: dict[str, PodView] = {}
        self.failed: dict[str, PodView] = {}
        self.early: dict[str, PodView] = {}
        """Running pods of which some container has ended."""
        self.stuck: dict[str, PodView] = {}
        """Pods with a container that cannot start."""
        self.succeeded: dict[str, set[int]] = {}
        """Indices of a task whose pods are there and have succeeded."""
        self.lost: dict[Slot, PodView] = {}
        """Pods that went without being sent away and have not come back, as they were last seen."""
        self._sent_away: set[str] = set()
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: PodView) -> None:
        """A pod is there, or is now like this."""
        old = self.pods.get(pod.name)
        if old is not None:
            self._count(old, -1)
        self.pods[pod.name] = pod
        self._count(pod, +1)
        self.lost.pop((pod.task, pod.index), None)

    def remove(self, pod: PodView) -> None:
        """A pod has gone. One of the same name that came after it stays."""
        present = self.pods.get(pod.name)
        if present is None or present.uid != pod.uid:
            return
        del self.pods[pod.name]
        self._count(present, -1)
        if pod.uid in self._sent_away:
            self._sent_away.discard(pod.uid)
        else:
            self.lost[pod.task, pod.index] = pod

    def send_away(self, pod: PodView) -> None:
        """The pod is being deleted because its Job does not want it: it will not be missed."""
        if pod.name in self.pods:
            self._sent_away.add(pod.uid)

    def stays(self, pod: PodView) -> None:
        """It could not be sent away."""
        self._sent_away.discard(pod.uid)

    def settle(self, pods: Iterable[PodView]) -> None:
        """That these were lost is in the status now, or does not matter any more."""
        for pod in pods:
            if self.lost.get((pod.task, pod.index)) is pod:
                del self.lost[pod.task, pod.index]

    def count(self, task: str, phase: str) -> int:
        """Pods of the task in the phase."""
        return self.phases[task, phase]

    def there(self, task: str) -> Mapping[int, str]:
        """Indices and names of the pods of a task, those being deleted apart."""
        return self.slots.get(task, {})

    def fills(self, task: str, *, first: int, count: int) -> bool:
        """Whether the indices of the task are exactly these, none missing and none besides; asks for no more than both ends."""
        slots = self.slots.get(task, {})
        return len(slots) == count and (not count or (self._low[task], self._high[task]) == (first, first + count - 1))

    def posing(self) -> set[str]:
        """Names of pods that say of themselves that they have the place of another one: somebody else made them."""
        if len(self.pods) == len(self.deleting) + sum(map(len, self.slots.values())):
            return set()
        return {name for name, pod in self.pods.items() if not pod.deleting and self.there(pod.task).get(pod.index) != name}

    @property
    def unfinished(self) -> int:
        """Pods that have not ended, those being deleted included."""
        return len(self.pods) - sum(n for (_, phase), n in self.phases.items() if phase in ("Succeeded", "Failed"))

    def only(self, keep: Callable[[PodView], bool]) -> Roster:
        """The pods that are meant; what was lost comes along."""
        left = Roster(pod for pod in self.named() if keep(pod))
        left.lost = dict(self.lost)
        return left

    def named(self) -> list[PodView]:
        """All pods in the order of their names."""
        return [self.pods[name] for name in sorted(self.pods)]

    def _count(self, pod: PodView, by: int) -> None:
        self.versions[pod.job_version] += by
        if not self.versions[pod.job_version]:
            del self.versions[pod.job_version]
        _note(self.deleting, pod, by, pod.deleting)
        if pod.deleting:
            return
        self.phases[pod.task, pod.phase] += by
        if not pod.ended:
            self.restarts[pod.task] += by * pod.restarts
        if pod.phase == "Running" and pod.ready:
            self.ready[pod.task] += by
        _note(self.failed, pod, by, pod.phase == "Failed")
        _note(self.early, pod, by, bool(pod.ends))
        _note(self.stuck, pod, by, pod.trouble is not None)
        if pod.phase == "Succeeded":
            done = self.succeeded.setdefault(pod.task, set())
            (done.add if by > 0 else done.discard)(pod.index)
        self._place(pod, by)

    def _place(self, pod: PodView, by: int) -> None:
        task, index = pod.task, pod.index
        slots = self.slots.setdefault(task, {})
        if by > 0:
            slots[index] = pod.name
            self._low[task], self._high[task] = min(self._low.get(task, index), index), max(self._high.get(task, index), index)
        elif slots.get(index) == pod.name:
            del slots[index]
            if not slots:
                self._low.pop(task, None)
                self._high.pop(task, None)
            elif index in (self._low[task], self._high[task]):
                self._low[task], self._high[task] = min(slots), max(slots)


def _note(group: dict[str, PodView], pod: PodView, by: int, belongs: bool) -> None:
    if by < 0:
        group.pop(pod.name, None)
    elif belongs:
        group[pod.name] = pod
