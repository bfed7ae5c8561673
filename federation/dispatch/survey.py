"""One round's members in columns: a Job is judged by all filters in all clusters at once.

The filters of `policies.filters` say the same cluster by cluster (a law holds that). Those that look at policy and cluster
alone are asked once a round; those that look at queues and room have columns here; any other is asked for each cluster that
is still in the choice. Verdicts are numbers here: their words are found when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from federation.dispatch.floors import Floor
from federation.dispatch.headroom import Headroom
from federation.dispatch.terrain import Verdicts
from policies import capacities, company, filters
from policies.filters import FILTERS, Question
from policies.fit import Answer, Array, Packing
from policies.ground import Fit, Ground, Left, Mask
from policies.placements import Affinity, PolicyView
from policies.shapes import Gang, PodShape
from policies.verdicts import PASS, Verdict, Wake

STATIC: Final = frozenset({"health", "affinity", "taints", "apis"})
"""Filters that look at nothing but cluster, policy and kind."""

REFUSED: Final = Verdict("RefusedBefore", "", (Wake.CAPACITY,))
QUEUE_FULL: Final = Verdict("MemberQueueFull", "", (Wake.CAPACITY,))
QUEUE_SHUT: Final = Verdict("MemberQueueClosed", "", (Wake.CAPACITY,))
UNPUBLISHED: Final = Verdict("CapacityUnknown", "", (Wake.CAPACITY,))
UNLABELLED: Final = Verdict("LabelsUnknown", "", (Wake.CAPACITY,))
"""What the filters of these columns say, without its words."""

Ask = Callable[[int], Question]
"""The question about a Job in the cluster of that number."""


@dataclass(slots=True)
class Judged:
    """By cluster: the number of the verdict, whether a yes is sure, and whether all of the Job fits now."""

    codes: Array
    sure: Mask
    whole: Mask

    @property
    def passed(self) -> Mask:
        """Clusters that are still in the choice."""
        found: Mask = self.codes == 0
        return found


@dataclass(slots=True)
class _Facts:
    """Of a gang, what is asked of it again and again; `rows` is what rows are asked about. `nowhere` are clusters that had no
    room for its minimum: within a round room only shrinks."""

    gang: Gang
    rows: Gang
    least: tuple[tuple[PodShape, int], ...]
    everything: tuple[tuple[PodShape, int], ...]
    keys: frozenset[str]
    unknown: str
    nowhere: Mask


def _facts(gang: Gang, *, clusters: int) -> _Facts:
    rows = capacities.without_names(gang) if capacities.names_nodes(gang) else gang
    nowhere = np.zeros(clusters, dtype=np.bool_)
    return _Facts(gang, rows, rows.least(), rows.whole(), capacities.gang_label_keys(gang), rows.unknown, nowhere)


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is judged: `closed` are clusters that refused it, or its like, by name."""

    gang: Gang
    policy: PolicyView
    queue: str
    asked_as: str
    closed: Mapping[str, str]
    ask: Ask


class Survey:
    """Floors in the order of their names. `shut` says why a member takes nothing, whatever is asked."""

    def __init__(
        self,
        floors: Sequence[Floor],
        ground: Ground,
        *,
        verdicts: Verdicts,
        shut: Callable[[Floor], Verdict],
        filters: Sequence[str],
    ) -> None:
        self.floors, self.ground = floors, ground
        self.left = Left(ground)
        self._verdicts = verdicts
        self.codes = verdicts.codes
        self._at = {floor.member.cluster.name: at for at, floor in enumerate(floors)}
        self._headroom = Headroom(floors)
        self._shut = np.array([self.codes.number(shut(floor)) for floor in floors], dtype=np.int64)
        self._stages = [(static, tuple(names)) for static, names in groupby(filters, key=lambda name: name in STATIC)]
        self.known = np.array([floor.room is not None for floor in floors], dtype=np.bool_)
        """Clusters whose room is known."""
        capacities_of = [floor.member.capacity for floor in floors]
        self.answering = np.array([each is not None and each.answers is not None for each in capacities_of], dtype=np.bool_)
        """Clusters whose scheduler answers questions."""
        self._unpublished = np.array([self._unknown(floor) for floor in floors], dtype=np.bool_)
        self._told = [
            at for at, floor in enumerate(floors) if floor.member.capacity is not None and floor.member.capacity.answers
        ]
        self._unlabelled: dict[frozenset[str], Mask] = {}
        self._takes = np.zeros(len(floors), dtype=np.int64)
        self._facts: dict[int, _Facts] = {}
        self._packed: dict[tuple[object, ...], dict[int, tuple[int, bool]]] = {}
        for at, floor in enumerate(floors):
            self._follow(at, floor)

    def at(self, cluster: str) -> int:
        """The number of a cluster."""
        return self._at[cluster]

    def name(self, at: int) -> str:
        """The name of a cluster."""
        return self.floors[at].member.cluster.name

    def take(self, cluster: str, gang: Gang, *, queue: str) -> None:
        """A gang is promised that member."""
        at = self._at[cluster]
        self.floors[at].take(gang, queue=queue)
        self._follow(at, self.floors[at])
        self._takes[at] += 1
        self._headroom.taken(at)

    def _follow(self, at: int, floor: Floor) -> None:
        if floor.room is not None and floor.room.changes:
            self.left.note(at, floor.room.changes)
            floor.room.changes = []

    @staticmethod
    def _unknown(floor: Floor) -> bool:
        return floor.member.capacity is None or floor.room is None or floor.member.capacity.generation == 0

    # --- judging -----------------------------------------------------------------------------------------------------

    def judge(self, subject: Subject, affinity: Affinity | None) -> Judged:
        """By every filter in order: the first no of a cluster counts."""
        count = len(self.floors)
        judged = Judged(self._shut.copy(), np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.bool_))
        for static, names in self._stages:
            if static:
                told = self._statics(subject, affinity, names)
                judged.codes = np.where(judged.codes == 0, told, judged.codes)
                continue
            for name in names:
                self._one(name, subject, affinity, judged)
        return judged

    def _statics(self, subject: Subject, affinity: Affinity | None, names: tuple[str, ...]) -> Array:
        def asked() -> Array:
            found = []
            for at in range(len(self.floors)):
                question = subject.ask(at)
                question.affinity = affinity
                found.append(self.codes.number(filters.judge(question, filters=names)))
            return np.array(found, dtype=np.int64)

        return self._verdicts.get((subject.policy, affinity), names, asked)

    def _one(self, name: str, subject: Subject, affinity: Affinity | None, judged: Judged) -> None:
        match name:
            case "refused":
                for cluster in subject.closed:
                    at = self._at.get(cluster)
                    if at is not None and judged.codes[at] == 0:
                        judged.codes[at] = self.codes.number(REFUSED)
            case "company" if not company.asks(subject.policy):
                return
            case "queue":
                full, shut = self._headroom.refusing(subject.queue, subject.gang.requests)
                self._say(judged, full, QUEUE_FULL)
                self._say(judged, shut, QUEUE_SHUT)
            case "capacity":
                self._capacity(subject, affinity, judged)
            case _:
                self._each(name, subject, affinity, judged)

    def _say(self, judged: Judged, where: Mask, verdict: Verdict) -> None:
        judged.codes[where & (judged.codes == 0)] = self.codes.number(verdict)

    def _each(self, name: str, subject: Subject, affinity: Affinity | None, judged: Judged) -> None:
        """A filter that has no columns."""
        for at in np.flatnonzero(judged.passed).tolist():
            question = self.question(subject, affinity, at, judged)
            verdict = FILTERS[name](question)
            judged.codes[at] = self.codes.number(verdict)
            judged.sure[at] &= verdict.sure

    def question(self, subject: Subject, affinity: Affinity | None, at: int, judged: Judged) -> Question:
        """The question about one cluster, with what is known of its room."""
        question = subject.ask(at)
        question.affinity = affinity
        question.packing = Packing(Answer.FITS if judged.sure[at] else Answer.UNKNOWN, whole=bool(judged.whole[at]))
        return question

    # --- room --------------------------------------------------------------------------------------------------------

    def _capacity(self, subject: Subject, affinity: Affinity | None, judged: Judged) -> None:
        """As `policies.filters.capacity`."""
        facts = self._facts.get(id(subject.gang))
        if facts is None:
            facts = self._facts[id(subject.gang)] = _facts(subject.gang, clusters=len(self.floors))
        self._say(judged, self._unpublished, UNPUBLISHED)
        self._say(judged, self._without_labels(facts.keys), UNLABELLED)
        alive = judged.passed
        if not alive.any():
            return
        hopeful = alive & ~facts.nowhere
        fits = hopeful
        if hopeful.any():
            fits = hopeful & self._fit(facts.least, hopeful)
            facts.nowhere |= hopeful & ~fits
            judged.whole = fits if facts.least == facts.everything else self._fit(facts.everything, fits)
        self._no_room(subject, judged, alive & ~fits)
        if facts.unknown:
            for at in np.flatnonzero(fits).tolist():
                question = subject.ask(at)
                question.affinity = affinity
                verdict = filters.only_member_tells(question, facts.rows)
                judged.codes[at] = self.codes.number(verdict)
                judged.sure[at] = verdict.sure

    def _no_room(self, subject: Subject, judged: Judged, where: Mask) -> None:
        judged.codes[where] = self.codes.number(filters.without_room("", None))
        for at in self._told:
            if not where[at]:
                continue
            capacity = self.floors[at].member.capacity
            answer = capacity.answers.get(subject.asked_as) if capacity is not None and capacity.answers else None
            if answer is not None:
                fits = answer.fits > 0 and not self.floors[at].promised
                judged.codes[at] = self.codes.number(PASS if fits else filters.without_room("", answer))

    def _without_labels(self, asked: frozenset[str]) -> Mask:
        known = self._unlabelled.get(asked)
        if known is None:
            published = [floor.member.capacity for floor in self.floors]
            missing = [each is not None and bool(asked - each.label_keys) for each in published]
            known = self._unlabelled[asked] = np.array(missing, dtype=np.bool_)
        return known

    def _fit(self, pods: Sequence[tuple[PodShape, int]], among: Mask) -> Mask:
        """Where all of them find a place; of the clusters among which it is asked it is certain."""
        found = self.left.fits(pods)
        fits: Mask = found == int(Fit.YES)
        maybe = np.flatnonzero((found == int(Fit.MAYBE)) & among).tolist()
        if maybe:
            packed = self._packed.setdefault(tuple(pods), {})
            for at in maybe:
                fits[at] = self._pack(packed, pods, at)
        return fits

    def _pack(self, packed: dict[int, tuple[int, bool]], pods: Sequence[tuple[PodShape, int]], at: int) -> bool:
        """By a packing. What did not fit once in a round does not fit later: room only shrinks."""
        takes = int(self._takes[at])
        known = packed.get(at)
        if known is None or (known[1] and known[0] < takes):
            room = self.floors[at].room
            known = packed[at] = (takes, room is not None and room.copy().take_all(pods) is None)
        return known[1]
