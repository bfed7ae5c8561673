"""Where a waiting Job goes: filter, score, choose one cluster, against what is left after everything promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apis.vectors import ResourceVector
from federation.dispatch.snapshot import Member, Rules
from policies import scores, terms, verdicts
from policies.capacities import only_the_member_can_tell
from policies.filters import ASKABLE, AWAITED, ROOMLESS, Question, judge
from policies.fit import Room
from policies.placements import Affinity, PolicyView
from policies.shapes import Gang
from policies.verdicts import Considered, Decision, Outcome, Verdict, Wake
from policies.views import JobView

UNTRUSTED = "ProfileUntrusted"
"""Code of a cluster that refuses too much of what its own profile called Fits (protocol.md 3)."""

TIMEOUT_PENALTY = 0.25
"""Penalty a cluster gets from a Job for each of its starts that timed out there; four of them count as much as can be."""


@dataclass(slots=True)
class Floor:
    """One member during a round: what is left there, and what was sent to its queues since it last published."""

    member: Member
    room: Room | None
    promised: dict[str, ResourceVector] = field(default_factory=dict)
    unsure: Counter[str] = field(default_factory=Counter)
    """By digest, gangs sent there since of which only the member can tell."""

    def take(self, gang: Gang, *, queue: str) -> None:
        """A gang is promised this member."""
        if only_the_member_can_tell(gang):
            self.unsure[gang.digest] += 1
        if self.room is not None:
            self.room.charge(gang)
        capacity = self.member.capacity
        names: Sequence[str] = [queue]
        if capacity is not None and queue in capacity.queues:
            names = _path(queue, capacity_parents={name: each.parent for name, each in capacity.queues.items()})
        for name in names:
            self.promised[name] = self.promised.get(name, ResourceVector()) + gang.requests


def _path(queue: str, *, capacity_parents: Mapping[str, str]) -> list[str]:
    path: list[str] = []
    while queue and queue not in path:
        path.append(queue)
        queue = capacity_parents.get(queue, "")
    return path


def floor_of(member: Member) -> Floor:
    """A member's rows less everything promised to it."""
    floor = Floor(member, Room(member.capacity.rows) if member.capacity is not None else None)
    for queue, gang in member.promised:
        floor.take(gang, queue=queue)
    return floor


@dataclass(frozen=True, slots=True)
class Choice:
    """A cluster, or None, and the decision that says why. `asks`: clusters whose scheduler could tell more than what they have
    published; `sure`: the cluster's own profile says that it fits."""

    cluster: str | None
    decision: Decision
    asks: tuple[str, ...] = ()
    sure: bool = False


class Chooser:
    """Answers one round's questions; what is chosen is taken from the floor at once.

    Within a round room only shrinks, so what did not fit once is not packed again for an equal gang.
    """

    def __init__(self, members: Sequence[Member], *, rules: Rules, closed: Mapping[tuple[str, str], str]) -> None:
        self._floors = {member.cluster.name: floor_of(member) for member in members}
        self._rules = rules
        self._closed = closed
        self._no_room: dict[tuple[str, str], Verdict] = {}

    def choose(self, job: JobView, *, gang: Gang, policy: PolicyView, timeouts: Mapping[str, int]) -> Choice:
        """The best cluster of the first affinity term that has one."""
        told: list[Considered] = []
        wakes: set[Wake] = set()
        asks: set[str] = set()
        for affinity in policy.affinities or (None,):
            ranked, told, wakes = self._ask_all(job, gang=gang, policy=policy, affinity=affinity, timeouts=timeouts)
            asks |= {each.cluster for each in told if each.code in ASKABLE and self._answers(each.cluster)}
            awaited = any(each.code == AWAITED for each in told)
            if ranked and not (awaited and all(each.unsure for each in ranked)):
                best = min(ranked)
                self._floors[best.cluster].take(gang, queue=job.queue)
                decision = _placed(best.cluster, told, policy=policy, fitting=len(ranked))
                return Choice(best.cluster, decision, sure=not best.unsure)
        return Choice(None, _waiting(told, policy=policy, wakes=wakes), asks=tuple(sorted(asks)))

    def _answers(self, cluster: str) -> bool:
        capacity = self._floors[cluster].member.capacity
        return capacity is not None and capacity.answers is not None

    def _ask_all(
        self, job: JobView, *, gang: Gang, policy: PolicyView, affinity: Affinity | None, timeouts: Mapping[str, int]
    ) -> tuple[list[scores.Rank], list[Considered], set[Wake]]:
        ranked: list[scores.Rank] = []
        told: list[Considered] = []
        wakes: set[Wake] = {Wake.CLUSTER}
        for name in sorted(self._floors):
            question = self._question(name, job=job, gang=gang, policy=policy, affinity=affinity, timeouts=timeouts)
            verdict = self._judge(question)
            wakes |= set(verdict.wakes)
            if not verdict.passes:
                told.append(Considered(cluster=name, code=verdict.code, text=verdicts.shortened(verdict.text)))
                continue
            by_rule, total = scores.weigh(question, weights=self._rules.weights)
            whole = question.packing is not None and question.packing.whole
            tier = terms.tier(affinity, question.cluster) or 0
            ranked.append(scores.Rank(tier, not whole, not verdict.sure, -total, name))
            told.append(Considered(cluster=name, text=verdicts.shortened(verdict.text), scores=by_rule, total=total))
        return ranked, told, wakes

    def _question(
        self,
        name: str,
        *,
        job: JobView,
        gang: Gang,
        policy: PolicyView,
        affinity: Affinity | None,
        timeouts: Mapping[str, int],
    ) -> Question:
        floor = self._floors[name]
        member = floor.member
        return Question(
            job=job,
            gang=gang,
            policy=policy,
            affinity=affinity,
            cluster=member.cluster,
            capacity=member.capacity,
            room=floor.room,
            promised=floor.promised,
            closed=self._closed.get((gang.digest, name)) or self._closed.get((job.uid, name), ""),
            penalty=min(1.0, member.penalty + TIMEOUT_PENALTY * timeouts.get(name, 0)),
            alike=floor.unsure[gang.digest],
            unlike=floor.unsure.total() - floor.unsure[gang.digest],
            overdue=job.asked_as in member.overdue,
        )

    def _judge(self, question: Question) -> Verdict:
        if self._floors[question.cluster.name].member.fence is None:
            return Verdict(
                "NotRegistered", "its Lease does not exist yet, or this hub has not taken it over yet", (Wake.CLUSTER,)
            )
        distrusted = self._floors[question.cluster.name].member.distrusted
        if distrusted:
            return Verdict(UNTRUSTED, distrusted, (Wake.CAPACITY,))
        memo = (question.job.asked_as, question.cluster.name)
        known = self._no_room.get(memo)
        filters = self._rules.filters if known is None else tuple(name for name in self._rules.filters if name != "capacity")
        verdict = judge(question, filters=filters)
        if known is not None:
            return known if verdict.passes else verdict
        if verdict.code in ROOMLESS:
            self._no_room[memo] = verdict
        return verdict


def _placed(cluster: str, told: Sequence[Considered], *, policy: PolicyView, fitting: int) -> Decision:
    clusters, counts = verdicts.best(told)
    return Decision(
        outcome=Outcome.PLACED,
        reason="Placed",
        message=f"{cluster} is the best of {fitting} that fit, of {len(told)} clusters",
        policy=policy.title,
        clusters=clusters,
        counts=counts,
    )


def _waiting(told: Sequence[Considered], *, policy: PolicyView, wakes: set[Wake]) -> Decision:
    clusters, counts = verdicts.best(told)
    if not told:
        return Decision(
            outcome=Outcome.WAITING,
            reason="NoClusters",
            message="no cluster is registered",
            policy=policy.title,
            wakes=[Wake.CLUSTER],
        )
    texts = "; ".join(f"{each.cluster}: {each.text}" for each in clusters)
    return Decision(
        outcome=Outcome.WAITING,
        reason="NoClusterFits",
        message=f"0 of {len(told)} clusters fit: {texts}",
        policy=policy.title,
        clusters=clusters,
        counts=counts,
        wakes=sorted(wakes),
    )
