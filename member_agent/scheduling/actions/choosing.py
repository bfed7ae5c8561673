"""Which pods of a gang make up its minimum where the first ones in order find no room: a pod that fits nowhere, or not within
its queue, keeps nobody back whom the gang can start without.

Pods of one task and one shape are one group. Groups are filled up to the minima of their tasks and then up to that of the gang,
first in the order of the pods and then the lightest first: as many as have room, so that a group without room is passed over.
Where one node, or every node alone, decides, the second order finds a choice whenever there is one; how shapes of different
kinds pack on several nodes is not searched through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from member_agent.room import Mask, Spot
from member_agent.scheduling.plugins.gang import floors
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape

Allowed = Callable[[PodShape, int], int]
"""How many of so many pods of a shape may be had at all, beside what is in the books."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Pods with room, the room in the order of the pods of each shape, and the pods that are left."""

    pods: Sequence[PodView]
    spots: Sequence[Spot]
    rest: Sequence[PodView]


@dataclass(slots=True)
class _Group:
    """Pods of one task and one shape; `taken` of them have room."""

    task: str
    shape: PodShape
    pods: list[PodView]
    taken: int = 0


def choose(
    session: OpenSession, gang: Waiting, pods: Sequence[PodView], *, within: Mask | None, allowed: Allowed
) -> Choice | None:
    """Room, taken, for another choice than the first pods; None, and nothing taken, where there is none. `pods` are those that
    wait, in their order."""
    missing, lacking = _missing(gang)
    groups = _groups(pods)
    if len(groups) < 2 or sum(missing.values()) + lacking >= len(pods):
        return None
    for ordered in (groups, sorted(groups, key=lambda group: _weight(session, group.shape))):
        found = _Attempt(session, gang, within=within, allowed=allowed).run(ordered, missing=missing, lacking=lacking)
        if found:
            taken = {pod.uid for group in ordered for pod in group.pods[: group.taken]}
            return Choice([pod for pod in pods if pod.uid in taken], found, [pod for pod in pods if pod.uid not in taken])
    return None


def _missing(gang: Waiting) -> tuple[dict[str, int], int]:
    """Pods that are missing to the minimum of each task, and beside those to that of the gang."""
    placed = gang.tally.placed
    missing = {task: more for task, floor in floors(gang).items() if (more := floor - placed.get(task, 0)) > 0}
    return missing, max(gang.group.min_member - gang.tally.total_placed - sum(missing.values()), 0)


def _groups(pods: Sequence[PodView]) -> list[_Group]:
    """In the order of their first pods."""
    found: dict[tuple[str, PodShape], _Group] = {}
    for pod in pods:
        group = found.get((pod.task, pod.shape))
        if group is None:
            group = found[pod.task, pod.shape] = _Group(pod.task, pod.shape, [])
        group.pods.append(pod)
    return list(found.values())


def _weight(session: OpenSession, shape: PodShape) -> float:
    """The largest share of the cluster that a pod asks for."""
    total = session.total
    return max((amount / total[name] if total.get(name) else 1.0 for name, amount in shape.requests.items()), default=0.0)


class _Attempt:
    """One try, in the books as far as it got."""

    def __init__(self, session: OpenSession, gang: Waiting, *, within: Mask | None, allowed: Allowed) -> None:
        self._session = session
        self._gang = gang
        self._within = within
        self._allowed = allowed
        self._spots: list[Spot] = []

    def run(self, groups: Sequence[_Group], *, missing: dict[str, int], lacking: int) -> list[Spot]:
        """Where the pods go; nothing where the minimum is not met, and then no room is taken."""
        for group in groups:
            group.taken = 0
        with ExitStack() as books:
            whole = all(
                self._fill([group for group in groups if group.task == task], more, books) for task, more in missing.items()
            )
            whole = whole and self._fill(groups, lacking, books)
        if not whole:
            self._session.room.give_back(self._spots)
            self._spots = []
        return self._spots

    def _fill(self, groups: Sequence[_Group], more: int, books: ExitStack) -> bool:
        """Room for so many more pods of these groups, one group after the other; whether all of them have it."""
        for group in groups:
            wanted = min(more, len(group.pods) - group.taken)
            count = self._allowed(group.shape, wanted) if wanted else 0
            spots = self._session.room.place_some(group.shape, count, within=self._within) if count else ()
            if spots:
                self._spots += spots
                books.enter_context(self._session.entered(self._gang, spots))
                got = sum(spot.count for spot in spots)
                group.taken += got
                more -= got
        return not more
