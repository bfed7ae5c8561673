"""Where a waiting Job goes: `policies.choosing` over what is left in each member after everything promised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from federation.dispatch.floors import Floor
from federation.dispatch.snapshot import Rules, Snapshot
from federation.dispatch.survey import STATIC, Subject, Survey
from federation.dispatch.terrain import by_cluster, terrain_of
from federation.dispatch.view import View, Viewer, Words
from policies import company, profiles, reads, run_times, terms, verdicts
from policies.choosing import Chosen, Market, Remembered, Wish, choose, nobody
from policies.company import Company, Resident
from policies.estimates import Demand, Option
from policies.filters import Question, judge
from policies.ground import Floats, Mask
from policies.matching import setting
from policies.parts import Part
from policies.placements import Affinity, PolicyView
from policies.profiles import Profile
from policies.shapes import Gang
from policies.verdicts import PASS, Decision, Outcome, Verdict, Wake
from policies.views import JobView

UNTRUSTED = "ProfileUntrusted"
"""Code of a cluster that refuses too much of what its own profile called Fits (protocol.md 3)."""

NOT_REGISTERED: Final = Verdict(
    "NotRegistered", "its Lease does not exist yet, or this hub has not taken it over yet", (Wake.CLUSTER,)
)

IN_COLUMNS: Final = STATIC | {"company", "refused", "queue", "capacity"}
"""Filters that look at nothing of a Job but its gang, policy, queue and refusals."""

_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})

TIMEOUT_PENALTY = 0.25
"""Penalty a cluster gets from a Job for each of its starts that timed out there; four of them count as much as can be."""


class Choice:
    """Parts by name of the cluster, or none, and the decision that says why. `asks`: clusters whose scheduler could tell more
    than what they have published; `awaits`: one of them is being asked what only it can tell; `sure`: the clusters' own
    profiles say that it fits. `bare` is the decision without its words, which are found when somebody reads them: most Jobs
    that wait have been told already. `wish` and `chosen`: what it was made from, for those who explain it."""

    def __init__(
        self,
        *,
        wish: Wish,
        bare: Decision,
        words: Callable[[], Decision],
        explain: Callable[[], Chosen],
        parts: tuple[Part, ...] = (),
        asks: tuple[str, ...] = (),
        sure: bool = False,
        awaits: bool = False,
    ) -> None:
        self.wish, self.bare, self.parts, self.asks, self.sure, self.awaits = wish, bare, parts, asks, sure, awaits
        self.gist = bare.gist()
        self._words, self._explain = words, explain
        self._decision: Decision | None = None

    @property
    def decision(self) -> Decision:
        """With its words."""
        if self._decision is None:
            self._decision = self._words()
        return self._decision

    @property
    def chosen(self) -> Chosen:
        """With what every cluster has to say, by what is left now."""
        return self._explain()


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
    """Answers one round's questions; what is chosen is to be taken before the next is asked.

    All clusters are judged at once, in columns; `explain` puts the same question cluster by cluster (`policies.choosing`).
    Within a round room only shrinks: where no cluster fitted once, none is looked for again for an equal gang.
    """

    def __init__(self, snapshot: Snapshot, *, rules: Rules) -> None:
        members = sorted(snapshot.members, key=lambda member: member.cluster.name)
        self._clusters = [member.cluster for member in members]
        self._rules = rules
        self._market = Market(by_cluster(snapshot.offers), rates=rules.rates)
        self._profiles = {profiles.DEFAULT.name: Profile(profiles.DEFAULT.name, rules.weights), **snapshot.profiles}
        self._fits = Remembered()
        self._sources = snapshot.sources
        self._history = snapshot.history
        self._residents = list(snapshot.residents)
        self._regions = {member.cluster.name: member.cluster.region for member in snapshot.members}
        self.terrain = terrain = terrain_of(
            self._clusters,
            [member.capacity.rows if member.capacity is not None else None for member in members],
            offers=self._market.offers,
            rates=rules.rates,
            before=snapshot.terrain,
        )
        """For those who look again: of an equal snapshot it is the same."""
        floors = [terrain.floors.floor(member) for member in members]
        self._survey = Survey(floors, terrain.ground, verdicts=terrain.verdicts, shut=_shut, filters=rules.filters)
        self._viewer = Viewer(self._survey, terrain, self._clusters, waits=self._market.waits)
        self._penalty = np.array([member.penalty for member in members], dtype=np.float64)
        self._closed: dict[str, dict[str, str]] = {}
        for (subject, cluster), text in snapshot.closed.items():
            self._closed.setdefault(subject, {})[cluster] = text
        self._in_columns = IN_COLUMNS.issuperset(rules.filters)
        self._nowhere: dict[tuple[object, ...], Choice] = {}
        self._sets: dict[bytes, tuple[str, ...]] = {}
        self._times: dict[tuple[str, str, str], float] = {}

    def choose(self, asked: Asked) -> Choice:
        """The best there is for it; nothing is taken yet."""
        alike = self._alike(asked)
        known = self._nowhere.get(alike) if alike is not None else None
        if known is not None:
            return known
        wish, told = self._wish(asked)
        choice = self._chosen(asked, wish, told)
        if alike is not None and not choice.parts and not choice.awaits:
            self._nowhere[alike] = choice
        return choice

    def take(self, cluster: str, gang: Gang, *, queue: str) -> None:
        """What was chosen is promised that member."""
        self._survey.take(cluster, gang, queue=queue)

    def settled(self, job: JobView, clusters: Iterable[str]) -> None:
        """It is placed there; who comes after it in this round may want to be with it, or away from it."""
        self._residents.append(Resident(job.uid, job.namespace, job.labels, frozenset(clusters)))

    def explain(self, asked: Asked, wish: Wish) -> Chosen:
        """The same question put to every cluster by itself, with all that each has to say."""
        questions = [self._question(at, asked) for at in range(len(self._clusters))]
        return choose(questions, wish=wish, market=self._market, judge=self._judge, fits=self._fits)

    def anew(self, asked: Asked, *, homes: Collection[str]) -> Chosen:
        """Where it would go if it ran nowhere yet. Where it runs it fits: what it takes there counts as free, and room, queue
        and old refusals are not asked about. Nothing is taken."""
        wish, _ = self._wish(asked)
        questions = [self._question(at, asked) for at in range(len(self._clusters))]
        for question in questions:
            if question.cluster.name in homes and question.room is not None:
                question.room = question.room.with_more(asked.gang.requests)
        own = tuple(name for name in self._rules.filters if name not in ("capacity", "queue", "refused"))

        def judged(question: Question) -> Verdict:
            if question.cluster.name not in homes:
                return self._judge(question)
            verdict = _shut(self._survey.floors[self._survey.at(question.cluster.name)])
            return verdict if not verdict.passes else judge(question, filters=own)

        return choose(questions, wish=replace(wish, fresh=True), market=self._market, judge=judged, fits=self._fits)

    def _chosen(self, asked: Asked, wish: Wish, told: str) -> Choice:
        subject = Subject(
            gang=asked.gang,
            policy=asked.policy,
            queue=asked.job.queue,
            asked_as=asked.job.asked_as,
            closed=self._refusals(asked),
            ask=lambda at: self._question(at, asked),
        )
        affinities: Sequence[Affinity | None] = asked.policy.affinities or (None,)
        named = [each for each in affinities if each is not None]
        order = terms.attempts(named, observed=wish.observed, placed=bool(wish.assigned)) or (0,)
        wakes, asks = {Wake.CLUSTER}, np.zeros(len(self._clusters), dtype=np.bool_)
        view: View | None = None
        for at in order if self._clusters else ():
            view = self._viewer.under(affinities[at], subject, wish, penalty=self._penalties(asked))
            wakes |= view.wakes
            asks |= view.asks
            if view.found.parts:
                break

        def say(words: Words | None) -> Decision:
            if view is None or not view.found.parts:
                return _waiting(view, wish=wish, told=told, wakes=wakes, words=words)
            return _placed(view, wish=wish, told=told, words=words, option=lambda name: self._viewer.option(view, wish, name))

        def words(at: int, affinity: Affinity | None) -> Verdict:
            return self._judge(replace(self._question(at, asked), affinity=affinity))

        parts = view.found.parts if view is not None else ()
        return Choice(
            wish=wish,
            bare=say(None),
            words=lambda: say(words),
            explain=lambda: self.explain(asked, wish),
            parts=parts,
            asks=() if parts else self._names(asks),
            sure=view is not None and bool(parts) and not view.found.unsure,
            awaits=view is not None and view.awaits,
        )

    def _names(self, clusters: Mask) -> tuple[str, ...]:
        """By name; the same few sets come again and again."""
        key = clusters.tobytes()
        if key not in self._sets:
            self._sets[key] = tuple(self._survey.name(at) for at in np.flatnonzero(clusters).tolist())
        return self._sets[key]

    # --- what is asked -----------------------------------------------------------------------------------------------

    def _wish(self, asked: Asked) -> tuple[Wish, str]:
        """What is asked for, and what is to be told about it."""
        found, wrong = reads.reads_of(asked.setting("reads"), sources=self._sources, regions=self._regions)
        given = asked.setting("profile") or (profiles.DATA_FIRST.name if found and asked.job.created_by_flow else "")
        profile, told = profiles.profile_of(given, own=self._profiles)
        said = (asked.setting("estimated-duration"), asked.job.estimate, asked.job.template)
        if said not in self._times:
            past = self._history.get(said[2], ())
            time = run_times.expected(annotation=said[0], estimate=said[1], history=past, default=self._rules.run_time)
            self._times[said] = time.seconds
        told = "; ".join(filter(None, (told, *(each.message for each in wrong[:1]))))
        return Wish(asked.gang, asked.policy, profile, Demand(asked.gang, self._times[said], found), uid=asked.job.uid), told

    def _alike(self, asked: Asked) -> tuple[object, ...] | None:
        """What decides whether any cluster fits, beside what is left; None where more than that does."""
        if not self._in_columns or asked.policy.replicas.strategy is not None or asked.job.uid in self._closed:
            return None
        if company.asks(asked.policy):
            return None
        job, said = asked.job, (asked.setting("profile"), asked.setting("reads"))
        return (id(asked.gang), id(asked.policy), job.queue, job.asked_as, bool(job.created_by_flow), said)

    def _question(self, at: int, asked: Asked) -> Question:
        floor, cluster = self._survey.floors[at], self._clusters[at]
        member, job, gang = floor.member, asked.job, asked.gang
        return Question(
            job=job,
            gang=gang,
            policy=asked.policy,
            affinity=None,
            cluster=cluster,
            capacity=member.capacity,
            room=floor.room,
            promised=floor.promised,
            closed=self._refusals(asked).get(cluster.name, ""),
            penalty=min(1.0, member.penalty + TIMEOUT_PENALTY * asked.timeouts.get(cluster.name, 0)),
            alike=floor.unsure[gang.digest],
            unlike=floor.unsure.total() - floor.unsure[gang.digest],
            overdue=job.asked_as in member.overdue,
            company=self._company(asked),
        )

    def _company(self, asked: Asked) -> Company:
        """Where others of its groups are, those that this round placed among them."""
        if not company.asks(asked.policy):
            return company.ALONE
        return company.of(asked.job, policy=asked.policy, residents=self._residents)

    def _refusals(self, asked: Asked) -> Mapping[str, str]:
        """Why clusters refused it or its like, by name."""
        if not self._closed:
            return _NOBODY
        alike, own = self._closed.get(asked.gang.digest), self._closed.get(asked.job.uid)
        return {**(own or {}), **(alike or {})} if alike or own else _NOBODY

    def _penalties(self, asked: Asked) -> Floats:
        if not asked.timeouts:
            return self._penalty
        more = np.array([TIMEOUT_PENALTY * asked.timeouts.get(each.name, 0) for each in self._clusters])
        found: Floats = np.minimum(1.0, self._penalty + more)
        return found

    def _judge(self, question: Question) -> Verdict:
        verdict = _shut(self._survey.floors[self._survey.at(question.cluster.name)])
        return verdict if not verdict.passes else judge(question, filters=self._rules.filters)


def _shut(floor: Floor) -> Verdict:
    """Why a member takes nothing, whatever is asked."""
    if floor.member.fence is None:
        return NOT_REGISTERED
    return Verdict(UNTRUSTED, floor.member.distrusted, (Wake.CAPACITY,)) if floor.member.distrusted else PASS


def _placed(view: View, *, wish: Wish, told: str, words: Words | None, option: Callable[[str], Option | None]) -> Decision:
    if words is None:
        return Decision(outcome=Outcome.PLACED, reason="Placed")
    named, found = view.best(), view.found
    names = [part.cluster for part in found.parts]
    count = len(view.judged.codes)
    if len(names) == 1:
        text = f"{names[0]} is the best of {view.fitting} that fit, of {count} clusters"
    else:
        shares = ", ".join(f"{part.replicas} in {part.cluster}" for part in found.parts)
        text = f"divided over {len(names)} of {view.fitting} that fit, of {count} clusters: {shares}"
    if found.beyond:
        text += "; without room now: " + ", ".join(f"{count} in {name}" for name, count in sorted(found.beyond.items()))
    largest = option(max(found.parts, key=lambda part: part.replicas).cluster) if wish.demand.reads else None
    return Decision(
        outcome=Outcome.PLACED,
        reason="Placed",
        message=verdicts.shortened(_with(text, told)),
        policy=wish.policy.title,
        data=verdicts.shortened(reads.told(wish.demand.reads, largest)) if largest is not None else "",
        clusters=view.considered(named, words=words),
        counts=view.counts(named),
    )


def _waiting(view: View | None, *, wish: Wish, told: str, wakes: set[Wake], words: Words | None) -> Decision:
    if view is None:
        text, reason, clusters, counts = "no cluster is registered", "NoClusters", [], {}
    else:
        named = view.best()
        clusters, counts = view.considered(named, words=words), view.counts(named) if words else {}
        text, reason = view.found.text, "NoDivision"
        if not text:
            text, reason = nobody(clusters, of=len(view.judged.codes)), "NoClusterFits"
    return Decision(
        outcome=Outcome.WAITING,
        reason=reason,
        message=_with(text, told),
        policy=wish.policy.title,
        clusters=clusters,
        counts=counts,
        wakes=sorted(wakes),
    )


def _with(text: str, told: str) -> str:
    return f"{text}; {told}" if told else text
