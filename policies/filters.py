"""Filters: small rules that say whether a Job may go to a cluster. Each answers a Verdict and never raises to say no.

Which are enabled, and in which order, is a list in the hub's settings; the first that says no is the one people read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apis import kinds
from apis.capacity import ShapeAnswer
from apis.vectors import ResourceVector
from policies import capacities, departures, durations, fit, terms
from policies.capacities import CapacityView
from policies.company import ALONE, Company
from policies.extending import Registry
from policies.fit import Answer, Packing, Room
from policies.members import ClusterView
from policies.placements import Affinity, PolicyView
from policies.shapes import Gang, tolerated
from policies.verdicts import PASS, Verdict, Wake
from policies.views import JobView


@dataclass(slots=True)
class Question:
    """May this Job go to this cluster? The one view that filters and scores see.

    `room` is what is left there after everything promised; None while the member has published nothing. `promised` is what
    the hub sent to each queue of the member since. `penalty` is 0 (none) to 1. `packing` is filled by the capacity filter.
    """

    job: JobView
    gang: Gang
    policy: PolicyView
    affinity: Affinity | None
    cluster: ClusterView
    capacity: CapacityView | None = None
    room: Room | None = None
    promised: Mapping[str, ResourceVector] = field(default_factory=dict)
    closed: str = ""
    """Why this member refused the same before, while it has published nothing newer; "" when it did not."""
    penalty: float = 0.0
    packing: Packing | None = None
    alike: int = 0
    """Gangs like this one that were sent there since it published, and others of which only the member can tell."""
    unlike: int = 0
    overdue: bool = False
    """It was asked about this gang and has not answered for too long: its refusal will have to be the answer."""
    company: Company = ALONE
    """Where others of its groups are."""
    kind: tuple[str, str] = (kinds.JOB.api_version, kinds.JOB.kind)
    """apiVersion and kind of what is to run there."""


Filter = Callable[[Question], Verdict]

AWAITED: Final = "AnswerAwaited"
"""Code of a cluster that is asked about what only it can tell."""
NO_ROOM, EXPECTED, BY_EVICTION = "NoRoom", "RoomExpected", "RoomByEviction"
"""Codes of a cluster where it does not fit now; that its scheduler expects it to, or would evict for it, is told as news."""
ROOMLESS: Final = frozenset({NO_ROOM, EXPECTED, BY_EVICTION})
ASKABLE: Final = ROOMLESS | {AWAITED}
"""Codes that an answer of the member's scheduler may change."""


def affinity(question: Question) -> Verdict:
    """The policy's names, exclusions, labels and fields; overflow clusters are meant too, if only after the others."""
    if question.cluster.name in question.policy.suspended_on:
        return Verdict("DispatchingSuspended", "the policy suspends dispatching to it", (Wake.POLICY,))
    text = terms.refusal(question.affinity, question.cluster)
    return Verdict("ClusterAffinity", text, (Wake.POLICY, Wake.CLUSTER)) if text else PASS


def taints(question: Question) -> Verdict:
    """Taints of the cluster that the policy does not tolerate."""
    taint = tolerated(question.cluster.taints, by=question.policy.tolerations)
    if taint is not None:
        return Verdict("ClusterTaint", f"taint {taint.key}:{taint.effect} is not tolerated", (Wake.CLUSTER, Wake.POLICY))
    for each in question.cluster.taints if question.policy.bears else ():
        borne = departures.borne_for(each, policy=question.policy)
        if each.effect == "NoExecute" and borne < departures.FOREVER:
            text = f"taint {each.key}:{each.effect} is tolerated for {borne:.0f} s only: what started there would have to leave"
            return Verdict("ClusterTaint", text, (Wake.CLUSTER, Wake.POLICY))
    return PASS


def apis(question: Question) -> Verdict:
    """The member serves the kind, once it has said what it serves; an incomplete list proves nothing."""
    cluster, wanted = question.cluster, question.kind
    if cluster.kinds is None or not cluster.complete or wanted in cluster.kinds:
        return PASS
    return Verdict("KindMissing", f"it does not serve {wanted[1]} of {wanted[0]}", (Wake.CLUSTER,))


def company(question: Question) -> Verdict:
    """Others of its groups (`workloadAffinity`): with them, or away from them."""
    there = question.company
    text = terms.company_refusal(question.cluster.name, together=there.together, apart=there.apart)
    return Verdict("WorkloadAffinity", text, (Wake.JOB, Wake.POLICY)) if text else PASS


def health(question: Question) -> Verdict:
    """It is Ready, and not leaving."""
    cluster = question.cluster
    if cluster.deleting:
        return Verdict("ClusterLeaving", "it is being removed", (Wake.CLUSTER,))
    if cluster.draining:
        return Verdict("ClusterDraining", "it is being drained", (Wake.CLUSTER,))
    if cluster.ready != "True":
        reason = cluster.conditions.get("Ready", ("", "not reported yet"))[1]
        return Verdict("ClusterNotReady", f"Ready is {cluster.ready} ({reason})", (Wake.CLUSTER,))
    return PASS


def refused(question: Question) -> Verdict:
    """What it refused stays closed until it publishes something newer."""
    return Verdict("RefusedBefore", question.closed, (Wake.CAPACITY,)) if question.closed else PASS


def queue(question: Question) -> Verdict:
    """The member's own queue of that name and its ancestors, the least along the path (protocol.md 4)."""
    capacity = question.capacity
    if capacity is None:
        return PASS
    asked = question.gang.requests  # what others use too much of is no reason against who asks for none of it
    for each in capacities.path(question.job.queue, queues=capacity.queues):
        if not each.open:
            return Verdict("MemberQueueClosed", f"its queue {each.name} is not open", (Wake.CAPACITY,))
        after = each.used + question.promised.get(each.name, ResourceVector()) + question.gang.requests
        over = (
            []
            if each.limit is None
            else [name for name, limit in each.limit.items() if asked.get(name) and after.get(name) > limit]
        )
        if over:
            return Verdict("MemberQueueFull", f"its queue {each.name} has too little {', '.join(over)}", (Wake.CAPACITY,))
    return PASS


def capacity(question: Question) -> Verdict:
    """A packing of the gang's minimum on what is free, exact for requests; what only the member can tell, it is asked."""
    if question.capacity is None or question.room is None or question.capacity.generation == 0:
        return Verdict("CapacityUnknown", "it has not published its capacity yet", (Wake.CAPACITY,))
    missing = capacities.gang_label_keys(question.gang) - question.capacity.label_keys
    if missing:
        asked = ", ".join(sorted(missing))
        return Verdict("LabelsUnknown", f"its capacity is not told apart by {asked} yet", (Wake.CAPACITY,))
    gang = capacities.without_names(question.gang) if capacities.names_nodes(question.gang) else question.gang
    question.packing = fit.pack(question.room, gang)
    answers = question.capacity.answers
    told = answers.get(question.job.asked_as) if answers is not None else None
    match question.packing.answer:
        case Answer.NO:
            # Rows are rounded down and a packing may be missed: the member knows better, as long as nothing was sent since.
            fits = told is not None and told.fits > 0 and not question.promised
            return PASS if fits else without_room(question.packing.text, told)
        case Answer.UNKNOWN:
            return _told(question, question.packing.text, told, answers=answers is not None)
        case _:
            return PASS


def _told(question: Question, unknown: str, told: ShapeAnswer | None, *, answers: bool) -> Verdict:
    """What only the member can tell. Where nobody answers in time it passes, and the member has the last word."""
    if not answers or (question.overdue and told is None):
        return Verdict(text=unknown, sure=False)
    if told is None:
        return Verdict(AWAITED, f"{unknown}; it is being asked", (Wake.CAPACITY, Wake.JOB))
    if not told.fits:
        return without_room(told.reason or unknown, told)
    if told.fits > question.alike and not question.unlike:
        return PASS
    if question.overdue:
        return Verdict(text=unknown, sure=False)
    return Verdict(AWAITED, f"{unknown}; its answer is older than what was sent to it since", (Wake.CAPACITY, Wake.JOB))


def only_member_tells(question: Question, gang: Gang) -> Verdict:
    """Of a gang that rows have room for, and that only the member can tell more of."""
    answers = question.capacity.answers if question.capacity is not None else None
    told = answers.get(question.job.asked_as) if answers is not None else None
    return _told(question, fit.unsure(gang), told, answers=answers is not None)


def without_room(text: str, told: ShapeAnswer | None) -> Verdict:
    """With what the member's scheduler adds: it decides nothing, and tells people what to expect."""
    code = NO_ROOM
    if told is not None and told.after_eviction:
        code, text = BY_EVICTION, f"{text}; it would fit after evictions there"
    if told is not None and told.wait is not None:
        code, text = EXPECTED, f"{text}; expected to fit in about {durations.text(told.wait)}"
    return Verdict(code, text, (Wake.CAPACITY, Wake.JOB))


FILTERS: Final[Registry[Filter]] = Registry(
    {
        "affinity": affinity,
        "taints": taints,
        "apis": apis,
        "company": company,
        "health": health,
        "refused": refused,
        "queue": queue,
        "capacity": capacity,
    }
)
"""All filters by the name that settings use; those of other packages are added when the hub starts."""


def judge(question: Question, *, filters: Sequence[str]) -> Verdict:
    """The first no; else a yes that is sure only if every filter was."""
    sure, text = True, ""
    for name in filters:
        verdict = FILTERS[name](question)
        if not verdict.passes:
            return verdict
        if not verdict.sure:
            sure, text = False, verdict.text
    return PASS if sure else Verdict(text=text, sure=False)
