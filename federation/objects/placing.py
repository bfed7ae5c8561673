"""Where an object goes: everywhere its policy means for what runs nothing, else as `policies.choosing` says. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apis import keys
from apis.vectors import ResourceVector
from federation.objects.snapshot import Around, Rules, Site
from policies import choosing, federated_quotas, filters, profiles, queueing, run_times, spreading, terms
from policies.choosing import Market, Wish
from policies.dependencies import Reference
from policies.division import Strategy
from policies.estimates import Demand
from policies.filters import Question
from policies.fit import Room
from policies.matching import setting
from policies.offers import OfferView
from policies.placements import Affinity, PolicyView, ReplicaRule
from policies.profiles import Profile
from policies.shapes import Gang
from policies.verdicts import PASS, Verdict
from policies.views import JobView, own_settings

QUEUES: Final = (keys.QUEUE_NAME, "scheduling.volcano.sh/queue-name", "kueue.x-k8s.io/queue-name")
"""Labels and annotations by which an object names its queue."""
ROOMY: Final = ("health", "affinity", "taints", "apis", "refused")
"""Filters for what runs nothing; without `health` it could not reach a member that is to come back."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Replicas by cluster (0 for what is not divided), or none and why; `term` is the affinity term it was found under."""

    targets: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    text: str = ""
    term: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One object that is to be placed. `assigned`: its pods by cluster, where it is placed already; `observed`: under which
    term; `gang` None: it runs nothing; `fresh`: what was chosen before does not count."""

    reference: Reference
    source: Mapping[str, Any]
    policy: PolicyView
    gang: Gang | None = None
    assigned: Mapping[str, int] = field(default_factory=dict)
    observed: str = ""
    fresh: bool = False

    @property
    def job(self) -> JobView:
        """It as filters see a Job."""
        meta = self.source.get("metadata") or {}
        return JobView(
            namespace=self.reference.namespace,
            name=self.reference.name,
            uid=str(meta.get("uid", "")),
            version=str(meta.get("resourceVersion", "")),
            labels=meta.get("labels") or {},
            settings=own_settings(meta.get("annotations")),
            queue=queue_of(self.source),
            gang=self.gang,
        )


def queue_of(source: Mapping[str, Any]) -> str:
    """The queue an object names, else the default one."""
    meta = source.get("metadata") or {}
    for field_name in ("labels", "annotations"):
        for key in QUEUES:
            if name := (meta.get(field_name) or {}).get(key):
                return str(name)
    return keys.DEFAULT_QUEUE


def place(asked: Asked, *, around: Around, rules: Rules) -> Placed:
    """The best there is for it now."""
    if not around.sites:
        return Placed(reason="NoClusterFit", text="no cluster is registered")
    return _everywhere(asked, around) if asked.gang is None else _running(asked, asked.gang, around=around, rules=rules)


# --- what runs nothing -----------------------------------------------------------------------------------------------
def _everywhere(asked: Asked, around: Around) -> Placed:
    """Under the first term that has them, every cluster that passes and that spread constraints leave."""
    affinities: Sequence[Affinity | None] = asked.policy.affinities or (None,)
    text = ""
    for affinity in affinities:
        passed: list[Site] = []
        said: list[str] = []
        for site in around.sites:
            verdict = _verdict(_question(asked, site, affinity=affinity), site, asked=asked, names=ROOMY[1:])
            if verdict.passes:
                passed.append(site)
            else:
                said.append(f"{site.cluster.name}: {verdict.text}")
        candidates = [
            spreading.Candidate(
                name=each.cluster.name,
                available=0,
                score=100.0 if each.cluster.name in asked.assigned else 0.0,
                tier=terms.tier(affinity, each.cluster) or 0,
                groups=spreading.groups_of(each.cluster, asked.policy.spread),
            )
            for each in passed
        ]
        found = spreading.select(candidates, asked.policy.spread, strategy=Strategy.DUPLICATED, replicas=0)
        if found.clusters:
            return Placed(dict.fromkeys(sorted(found.clusters), 0), "Success", term=affinity.name if affinity else "")
        text = "; ".join([found.text, *said[:5]])
    return Placed(reason="NoClusterFit", text=text)


def _verdict(question: Question, site: Site, *, asked: Asked, names: Sequence[str]) -> Verdict:
    """Where it is already, neither taints nor what is served sends it away (reference/karmada.md 3.3)."""
    if site.cluster.deleting:
        return filters.FILTERS["health"](question)
    there = site.cluster.name in asked.assigned
    return filters.judge(question, filters=[each for each in names if not there or each in ("affinity", "refused")])


def _question(asked: Asked, site: Site, *, affinity: Affinity | None, room: Room | None = None) -> Question:

    promised: dict[str, ResourceVector] = {}
    for queue, gang in site.promised:
        promised[queue] = promised.get(queue, ResourceVector()) + gang.requests
    return Question(
        job=asked.job,
        gang=asked.gang or NOTHING,
        policy=_without_suspension(asked, site),
        affinity=affinity,
        cluster=site.cluster,
        capacity=site.capacity,
        room=room,
        promised=promised,
        closed=site.closed,
        kind=(asked.reference.api_version, asked.reference.kind),
    )


def _without_suspension(asked: Asked, site: Site) -> PolicyView:
    """Suspended dispatching keeps pods from being sent to a cluster anew; what is there, and what runs nothing, stays placed:
    its Work only takes no updates."""
    policy = asked.policy
    if not policy.suspended_on or (asked.gang is not None and site.cluster.name not in asked.assigned):
        return policy
    return dataclasses.replace(policy, suspended_on=frozenset())


NOTHING: Final = Gang(tasks=(), minimum=0, digest="")


# --- what runs pods --------------------------------------------------------------------------------------------------
def _running(asked: Asked, gang: Gang, *, around: Around, rules: Rules) -> Placed:
    refusal = queueing.refusal(asked.job.queue, queues=around.queues)
    if refusal is not None:
        return Placed(reason=refusal.reason, text=refusal.message)
    more = gang.requests if not asked.assigned else gang.requests * 0
    verdict = _admits(asked, more, around)
    if not verdict.passes:
        return Placed(reason=verdict.code, text=verdict.text)
    rooms = {}
    for site in around.sites:
        room = Room(site.capacity.rows) if site.capacity is not None else None
        if room is not None:
            for _, promised in site.promised:
                room.charge(promised)
        rooms[site.cluster.name] = room
    sites = {each.cluster.name: each for each in around.sites}

    def judged(question: Question) -> Verdict:
        return _verdict(question, sites[question.cluster.name], asked=asked, names=rules.filters)

    questions = [_question(asked, each, affinity=None, room=rooms[each.cluster.name]) for each in around.sites]
    chosen = choosing.choose(questions, wish=_wish(asked, gang, around, rules), market=_market(around, rules), judge=judged)
    if not chosen.parts:
        return Placed(reason="NoClusterFit" if chosen.text.startswith("0 of") else "Unschedulable", text=chosen.text)
    divided = asked.policy.replicas.strategy is not None and len(gang.tasks) == 1
    targets = {part.cluster: part.replicas if divided else 0 for part in chosen.parts}
    if asked.policy.replicas.strategy is Strategy.DUPLICATED:
        verdict = _admits(asked, gang.requests * (len(targets) - len(asked.assigned)), around)
        if not verdict.passes:
            return Placed(reason=verdict.code, text=verdict.text)
    return Placed(targets, "Success", term=chosen.term)


def _admits(asked: Asked, requests: ResourceVector, around: Around) -> Verdict:
    """By its queue, and by every quota of its namespace."""
    if not requests:
        return PASS
    verdict = queueing.admits(asked.job, request=requests, queues=around.queues, used=around.used)
    if not verdict.passes or not around.quotas:
        return verdict
    return federated_quotas.admits(
        requests, namespace=asked.reference.namespace, quotas=around.quotas, holdings=around.holdings
    )


def _wish(asked: Asked, gang: Gang, around: Around, rules: Rules) -> Wish:
    def given(name: str) -> str:
        return setting(name, job=asked.job, policy=asked.policy, namespace=around.given)

    own = {profiles.DEFAULT.name: Profile(profiles.DEFAULT.name, dict(rules.weights) or profiles.DEFAULT.weights)}
    profile, _ = profiles.profile_of(given("profile"), own={**own, **around.profiles})
    time = run_times.expected(annotation=given("estimated-duration"), default=rules.run_time)
    single = gang.tasks[0].name if len(gang.tasks) == 1 else ""
    assigned = {name: {single: pods} for name, pods in asked.assigned.items()} if single else {}
    return Wish(
        gang,
        asked.policy if len(gang.tasks) == 1 else _whole(asked.policy),
        profile,
        Demand(gang, time.seconds),
        uid=asked.job.uid,
        observed=asked.observed,
        assigned=assigned,
        fresh=asked.fresh,
    )


def _whole(policy: PolicyView) -> PolicyView:
    """Several sorts of pods are never divided: each of their clusters gets all of it."""
    if policy.replicas.strategy in (None, Strategy.DUPLICATED):
        return policy
    return dataclasses.replace(policy, replicas=ReplicaRule())


def _market(around: Around, rules: Rules) -> Market:
    offers: dict[str, OfferView] = {}
    for each in around.offers:
        if not each.deleting:
            offers.setdefault(each.cluster, each)
    return Market(offers, rates=rules.rates)
