"""Where a waiting Job goes: `policies.choosing` over what is left in each member after everything promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from federation.dispatch.floors import floor_of
from federation.dispatch.snapshot import Rules, Snapshot
from policies import profiles, reads, run_times, verdicts
from policies.choosing import Chosen, Market, Remembered, Wish, choose
from policies.estimates import Demand
from policies.filters import ASKABLE, ROOMLESS, Question, judge
from policies.matching import setting
from policies.offers import OfferView
from policies.parts import Part
from policies.placements import PolicyView
from policies.profiles import Profile
from policies.shapes import Gang
from policies.verdicts import Decision, Outcome, Verdict, Wake
from policies.views import JobView

UNTRUSTED = "ProfileUntrusted"
"""Code of a cluster that refuses too much of what its own profile called Fits (protocol.md 3)."""

TIMEOUT_PENALTY = 0.25
"""Penalty a cluster gets from a Job for each of its starts that timed out there; four of them count as much as can be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts by name of the cluster, or none, and the decision that says why. `asks`: clusters whose scheduler could tell more
    than what they have published; `sure`: the clusters' own profiles say that it fits. `wish` and `chosen`: what it was made
    from, for those who explain it."""

    decision: Decision
    wish: Wish
    chosen: Chosen
    parts: tuple[Part, ...] = ()
    asks: tuple[str, ...] = ()
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One Job that waits. `given` are the settings of its namespace, `timeouts` its starts that timed out by cluster."""

    job: JobView
    gang: Gang
    policy: PolicyView
    timeouts: Mapping[str, int]
    given: Mapping[str, str]

    def setting(self, name: str) -> str:
        """The nearest of Job, policy and namespace."""
        return setting(name, job=self.job, policy=self.policy, namespace=self.given)


class Chooser:
    """Answers one round's questions; what is chosen is to be taken from the floors before the next.

    Within a round room only shrinks, so what did not fit once is not packed again for an equal gang.
    """

    def __init__(self, snapshot: Snapshot, *, rules: Rules) -> None:
        self._floors = {member.cluster.name: floor_of(member) for member in snapshot.members}
        self._rules = rules
        self._closed = snapshot.closed
        self._market = Market(_by_cluster(snapshot), rates=rules.rates)
        self._profiles = {profiles.DEFAULT.name: Profile(profiles.DEFAULT.name, rules.weights), **snapshot.profiles}
        self._fits = Remembered()
        self._sources = snapshot.sources
        self._history = snapshot.history
        self._regions = {member.cluster.name: member.cluster.region for member in snapshot.members}
        self._no_room: dict[tuple[str, str], Verdict] = {}

    def choose(self, asked: Asked) -> Choice:
        """The best there is for it; nothing is taken yet."""
        asks: set[str] = set()

        def judged(question: Question) -> Verdict:
            verdict = self._judge(question)
            if verdict.code in ASKABLE and self._answers(question.cluster.name):
                asks.add(question.cluster.name)
            return verdict

        wish, told = self._wish(asked)
        questions = [self._question(name, asked) for name in sorted(self._floors)]
        chosen = choose(questions, wish=wish, market=self._market, judge=judged, fits=self._fits)
        if not chosen.parts:
            return Choice(_waiting(chosen, policy=asked.policy, told=told), wish, chosen, asks=tuple(sorted(asks)))
        placed = _placed(chosen, wish=wish, told=told)
        return Choice(placed, wish, chosen, chosen.parts, sure=not chosen.unsure)

    def take(self, cluster: str, gang: Gang, *, queue: str) -> None:
        """What was chosen is promised that member."""
        self._floors[cluster].take(gang, queue=queue)

    def _wish(self, asked: Asked) -> tuple[Wish, str]:
        """What is asked for, and what is to be told about it."""
        found, wrong = reads.reads_of(asked.setting("reads"), sources=self._sources, regions=self._regions)
        given = asked.setting("profile") or (profiles.DATA_FIRST.name if found and asked.job.created_by_flow else "")
        profile, told = profiles.profile_of(given, own=self._profiles)
        time = run_times.expected(
            annotation=asked.setting("estimated-duration"),
            estimate=asked.job.estimate,
            history=self._history.get(asked.job.template, ()),
            default=self._rules.run_time,
        )
        told = "; ".join(filter(None, (told, *(each.message for each in wrong[:1]))))
        return Wish(asked.gang, asked.policy, profile, Demand(asked.gang, time.seconds, found), uid=asked.job.uid), told

    def _answers(self, cluster: str) -> bool:
        capacity = self._floors[cluster].member.capacity
        return capacity is not None and capacity.answers is not None

    def _question(self, name: str, asked: Asked) -> Question:
        floor = self._floors[name]
        member, job, gang = floor.member, asked.job, asked.gang
        return Question(
            job=job,
            gang=gang,
            policy=asked.policy,
            affinity=None,
            cluster=member.cluster,
            capacity=member.capacity,
            room=floor.room,
            promised=floor.promised,
            closed=self._closed.get((gang.digest, name)) or self._closed.get((job.uid, name), ""),
            penalty=min(1.0, member.penalty + TIMEOUT_PENALTY * asked.timeouts.get(name, 0)),
            alike=floor.unsure[gang.digest],
            unlike=floor.unsure.total() - floor.unsure[gang.digest],
            overdue=job.asked_as in member.overdue,
        )

    def _judge(self, question: Question) -> Verdict:
        member = self._floors[question.cluster.name].member
        if member.fence is None:
            return Verdict(
                "NotRegistered", "its Lease does not exist yet, or this hub has not taken it over yet", (Wake.CLUSTER,)
            )
        if member.distrusted:
            return Verdict(UNTRUSTED, member.distrusted, (Wake.CAPACITY,))
        memo = (question.job.asked_as, question.cluster.name)
        known = self._no_room.get(memo)
        filters = self._rules.filters if known is None else tuple(name for name in self._rules.filters if name != "capacity")
        verdict = judge(question, filters=filters)
        if known is not None:
            return known if verdict.passes else verdict
        if verdict.code in ROOMLESS:
            self._no_room[memo] = verdict
        return verdict


def _by_cluster(snapshot: Snapshot) -> dict[str, OfferView]:
    """The first offer of each cluster by name: two that contradict each other are not mixed."""
    found: dict[str, OfferView] = {}
    for each in snapshot.offers:
        if not each.deleting:
            found.setdefault(each.cluster, each)
    return found


def _placed(chosen: Chosen, *, wish: Wish, told: str) -> Decision:
    clusters, counts = verdicts.best(chosen.told)
    names = [part.cluster for part in chosen.parts]
    if len(names) == 1:
        text = f"{names[0]} is the best of {chosen.fitting} that fit, of {len(chosen.told)} clusters"
    else:
        shares = ", ".join(f"{part.replicas} in {part.cluster}" for part in chosen.parts)
        text = f"divided over {len(names)} of {chosen.fitting} that fit, of {len(chosen.told)} clusters: {shares}"
    if chosen.beyond:
        text += "; without room now: " + ", ".join(f"{count} in {name}" for name, count in sorted(chosen.beyond.items()))
    largest = chosen.options.get(max(chosen.parts, key=lambda part: part.replicas).cluster)
    return Decision(
        outcome=Outcome.PLACED,
        reason="Placed",
        message=verdicts.shortened(_with(text, told)),
        policy=wish.policy.title,
        data=verdicts.shortened(reads.told(wish.demand.reads, largest)) if largest is not None else "",
        clusters=clusters,
        counts=counts,
    )


def _waiting(chosen: Chosen, *, policy: PolicyView, told: str) -> Decision:
    clusters, counts = verdicts.best(chosen.told)
    nobody = "NoClusters" if not chosen.told else "NoClusterFits"
    return Decision(
        outcome=Outcome.WAITING,
        reason=nobody if chosen.text.startswith(("0 of", "no cluster is registered")) else "NoDivision",
        message=_with(chosen.text, told),
        policy=policy.title,
        clusters=clusters,
        counts=counts,
        wakes=sorted(chosen.wakes),
    )


def _with(text: str, told: str) -> str:
    return f"{text}; {told}" if told else text
