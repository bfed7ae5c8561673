"""The planner of rounds, asked what would become of a Job: before the same snapshot, and nothing is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from federation.dispatch.items import Decide
from federation.dispatch.placing import Asked, Chooser
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Member, Rules, Snapshot
from policies import parts, profiles, queueing, run_times
from policies.claims import governing
from policies.federated_quotas import Holding
from policies.matching import DEFAULT, setting
from policies.offers import OfferView
from policies.parts import Part
from policies.placements import PolicyView
from policies.run_times import RunTime
from policies.shapes import Gang, Pool
from policies.trials import Answer, Assumed, Surroundings, Trial
from policies.verdicts import Decision, Outcome
from policies.views import JobView


class RoundTrier:
    """A `policies.trials.Trier` before one snapshot. `settings` are those of the namespace whose Jobs are tried, `labels` its
    labels, None while they are not known."""

    def __init__(
        self, snapshot: Snapshot, *, rules: Rules, settings: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        self._snapshot = replace(snapshot, cases=(), terrain=Chooser(snapshot, rules=rules).terrain)
        self._rules = rules
        self._settings = settings
        self._labels = labels
        self._pool = Pool()

    @property
    def surroundings(self) -> Surroundings:
        """What else there is, each by name."""
        look = self._snapshot
        capacities = [each.capacity for each in look.members if each.capacity is not None]
        return Surroundings(
            queues=tuple(name for name in sorted(look.queues) if queueing.refusal(name, queues=look.queues) is None),
            profiles=tuple(sorted({*profiles.BUILT_IN, *look.profiles})),
            taints=tuple(taint for each in look.members for taint in each.cluster.taints),
            node_taints=tuple(
                taint for capacity in capacities for node_class in capacity.rows.classes for taint in node_class.taints
            ),
            currency=_currency(look.offers, rates=self._rules.rates),
        )

    def governing(self, job: JobView) -> PolicyView:
        """The policy that governs a Job."""
        return governing(job, policies=self._snapshot.policies, makers=self._snapshot.makers)

    def setting(self, name: str, job: JobView) -> str:
        """A user key as the nearest of Job, policy and namespace has it, or ""."""
        return setting(name, job=job, policy=self.governing(job), namespace=self._settings)

    def run_time(self, job: JobView) -> RunTime:
        """How long a Job is expected to run on nodes of throughput 1."""
        told, past = self.setting("estimated-duration", job), self._snapshot.history.get(job.template, ())
        return run_times.expected(annotation=told, estimate=job.estimate, history=past, default=self._rules.run_time)

    def starts(self, trial: Trial) -> Answer:
        """What a round would decide."""
        decision, _ = self._decided(trial)
        return _told(decision)

    def answer(self, trial: Trial) -> Answer:
        """What a round would decide, cluster by cluster."""
        decision, snapshot = self._decided(trial)
        answer, job = _told(decision), trial.job
        if job.gang is None or not job.gang.tasks:
            return answer
        policy = governing(job, policies=snapshot.policies, makers=snapshot.makers)
        asked = Asked(job, job.gang, policy, {}, self._settings)
        choice = Chooser(snapshot, rules=self._rules).choose(asked)
        chosen = choice.chosen
        placed = choice.parts if answer.outcome is Outcome.PLACED else ()
        return replace(
            answer,
            policy=policy.title,
            profile=choice.wish.profile.name,
            parts=placed,
            shares={part.cluster: self._share(part, job.gang) for part in placed},
            told=chosen.told,
            options=chosen.options,
            waits=self._waits(snapshot.members, job),
            run_time=self.run_time(job),
            sure=choice.sure,
        )

    # --- asking ------------------------------------------------------------------------------------------------------

    def _decided(self, trial: Trial) -> tuple[Decision, Snapshot]:
        """As a round does it, with this Job alone waiting."""
        snapshot = self._with(trial)
        made = plan(snapshot, rules=self._rules)
        for item in made.items:
            if isinstance(item, Decide) and item.decision is not None:
                return item.decision, snapshot
        return Decision(outcome=Outcome.WAITING, reason="NothingDecided"), snapshot

    def _with(self, trial: Trial) -> Snapshot:
        look, job = self._snapshot, trial.job
        policy = trial.policy
        used = dict(look.used)
        for each in trial.assumed:
            for name in queueing.chain(each.queue, queues=look.queues):
                used[name] = used.get(name, each.gang.requests * 0) + each.gang.requests
        more = tuple(Holding(each.namespace, each.cluster, each.gang.requests) for each in trial.assumed)
        return replace(
            look,
            cases=(Case(key=job.key, job=job, settings=self._settings, labels=self._labels),),
            members=tuple(_member(each, trial) for each in look.members),
            used=used,
            policies=look.policies if policy is None else () if policy == DEFAULT else (policy,),
            holdings=(*look.holdings, *more),
        )

    def _waits(self, members: Iterable[Member], job: JobView) -> dict[str, float]:
        """What schedulers of members expect, where they were asked."""
        found = {}
        for each in members:
            answers = each.capacity.answers if each.capacity is not None else None
            told = answers.get(job.asked_as) if answers is not None else None
            if told is not None and not told.fits and told.wait is not None:
                found[each.cluster.name] = float(told.wait)
        return found

    def _share(self, part: Part, gang: Gang) -> Gang:
        return gang if parts.is_whole(part, gang) else parts.gang_of(part, gang, pool=self._pool)


def _member(member: Member, trial: Trial) -> Member:
    assumed = _there(trial.assumed, member.cluster.name)
    overdue = member.overdue if trial.asked else member.overdue | {trial.job.asked_as}
    return replace(member, promised=(*member.promised, *assumed), overdue=overdue)


def _there(assumed: Iterable[Assumed], cluster: str) -> tuple[tuple[str, Gang], ...]:
    return tuple((each.queue, each.gang) for each in assumed if each.cluster == cluster)


def _told(decision: Decision) -> Answer:
    return Answer(
        outcome=decision.outcome,
        reason=decision.reason,
        message=decision.message,
        at=decision.field,
        policy=decision.policy,
        data=decision.data,
        told=tuple(decision.clusters),
        wakes=tuple(decision.wakes),
    )


def _currency(offers: Iterable[OfferView], *, rates: Mapping[str, float]) -> str:
    """The currency of all money: the one with a rate of 1, or the only one that anybody uses."""
    own = sorted(name for name, rate in rates.items() if rate == 1.0)
    named = sorted({each.currency for each in offers if each.currency})
    if rates:
        return own[0] if own else ""
    return named[0] if len(named) == 1 else ""
