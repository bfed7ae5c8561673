"""What was found out, as the status of a review: within the rights of its creator, and of bounded size. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from federation.reviews.flows import FlowFindings, PlannedStep
from federation.reviews.jobs import Findings
from federation.reviews.questions import BadQuestion
from federation.reviews.rights import Rights
from federation.reviews.standing import Standing
from machinery.clock import stamp
from policies.cheapest import Tried
from policies.relaxing import Change
from policies.run_times import RunTime
from policies.trials import Answer
from policies.verdicts import Considered, Decision, Outcome

Status = dict[str, Any]
MOST_CLUSTERS: Final = 50
"""Clusters that are judged one by one; the others are counted by code."""
MOST_TRIED: Final = 20
"""Changes that were tried and are told, the cheapest first."""
LONGEST: Final = 1024
"""Characters of a text."""

OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.PLACED: "Starts",
    Outcome.WAITING: "Waits",
    Outcome.HELD: "Held",
    Outcome.REFUSED: "Refused",
}


def of_job(
    found: Findings, *, rights: Rights, now: datetime.datetime, currency: str, notes: Sequence[str], promises: Sequence[str]
) -> Status:
    """The answer about a Job that is not there yet, or waits."""
    answer = found.answer
    status = {
        "outcome": OUTCOMES[answer.outcome],
        **_reasons(answer, rights=rights),
        "policy": answer.policy,
        "profile": answer.profile,
        **_times(answer, now=now),
        **_money(answer.money if answer.parts else None, currency),
        "placements": [_part(answer, at) for at in range(len(answer.parts))],
        "onlyMemberCanTell": True if answer.starts and not answer.sure else None,
        **_clusters(answer.told, answer.waits, rights=rights),
        "wakes": [str(each) for each in answer.wakes],
        "cheapest": _tried(found.cheapest) if found.cheapest is not None else None,
        "tried": [_tried(each) for each in _worth_telling(found)],
        "notEverythingTried": True if found.exhausted else None,
        "notes": [*(f"planned as if: {each.text}" for each in found.relaxed), *_data(answer, rights=rights), *notes],
        "notPromised": list(promises),
    }
    return answered(status, now=now)


def of_standing(at: Standing, *, rights: Rights, now: datetime.datetime, run_time: RunTime, promises: Sequence[str]) -> Status:
    """The answer about a Job that runs or has ended: what was recorded when it was decided, and what its status says since."""
    told = at.decision or Decision(outcome=Outcome.PLACED)
    status = {
        **_stands(at, told),
        **(_end(at, run_time, now=now) if at.started and not at.ended else {}),
        "field": told.field,
        "policy": told.policy,
        "placements": [{"cluster": cluster, "replicas": pods} for cluster, pods in at.parts.items()],
        **_clusters(told.clusters, {}, rights=rights, counts=told.counts),
        "notPromised": list(promises) if at.runs else [],
    }
    return answered(status, now=now)


def _stands(at: Standing, told: Decision) -> Status:
    """Outcome, reason and message."""
    state, placed = at.job.status.state, f"it was placed so: {told.message}" if told.message else ""
    if at.ended:
        over = (at.ended, "; ".join(filter(None, (state.message, placed))))
        reason, message = (told.reason, told.message) if at.refused else over
        return {"outcome": "Ended", "reason": reason, "message": message}
    if at.runs and not at.started:
        message = "; ".join(filter(None, ("its members have not started it", state.message, placed)))
        return {"outcome": "Placed", "reason": state.reason or "NotStarted", "message": message}
    return {"outcome": "Runs" if at.runs else "Refused", "reason": told.reason, "message": told.message}


def _end(at: Standing, run_time: RunTime, *, now: datetime.datetime) -> Status:
    """When it should end, by when it began and how long it is expected to run; nothing where that is over."""
    told = {"runSeconds": round(run_time.seconds) or None, "runTimeFrom": str(run_time.source)}
    if not at.job.last_transition:
        return told
    end = datetime.datetime.fromisoformat(at.job.last_transition) + datetime.timedelta(seconds=run_time.seconds)
    return {**told, "expectedFinish": stamp(end)} if end > now else told


def of_flow(found: FlowFindings, *, rights: Rights, now: datetime.datetime, currency: str) -> Status:
    """The answer about a JobFlow."""
    blocked = found.blocked
    whole = found.finish is not None
    names = ", ".join(each.node.name for each in blocked[:3])
    told = "every step would run" if whole else f"{len(blocked)} of {len(found.steps)} Jobs would wait: {names}"
    status = {
        "outcome": "Starts" if whole else "Waits",
        "reason": "Placed" if whole else (blocked[0].reason if blocked else "NotEverythingReckoned"),
        "message": told,
        "steps": [_step(each, found.path, rights=rights) for each in found.steps],
        "criticalPath": list(found.path),
        **_money(found.money if whole else None, currency),
        "expectedStart": stamp(now) if whole else None,
        "expectedFinish": _after(now, found.finish),
        "notes": list(found.notes),
    }
    return answered(status, now=now)


def of_refusal(error: BadQuestion, *, now: datetime.datetime) -> Status:
    """A review that was not planned: its question, its creator or his rights would not do."""
    status = {"outcome": "Refused", "reason": error.reason, "message": error.message[:LONGEST], "field": error.field}
    return answered(status, now=now, good=False)


def answered(status: Status, *, now: datetime.datetime, good: bool = True) -> Status:
    """With time and condition; nothing that says nothing."""
    condition = {
        "type": "Answered",
        "status": "True" if good else "False",
        "reason": "Answered" if good else status["reason"],
        "message": "" if good else status["message"],
        "lastTransitionTime": stamp(now),
    }
    kept = {name: value for name, value in status.items() if value not in (None, "", [], {})}
    return {**kept, "answeredAt": stamp(now), "conditions": [condition]}


# --- pieces ----------------------------------------------------------------------------------------------------------


def _reasons(answer: Answer, *, rights: Rights) -> Status:
    """Texts of clusters name what is in them: whoever may not see clusters gets the reasons counted."""
    message = answer.message
    if not rights.clusters and not answer.parts and any(each.code for each in answer.told):
        counted = ", ".join(f"{count} {code}" for code, count in sorted(_by_code(answer.told).items()))
        hub = answer.reason not in ("NoClusterFits", "NoDivision")
        message = answer.message if hub else f"0 of {len(answer.told)} clusters fit: {counted}"
    return {"reason": answer.reason, "message": message[:LONGEST], "field": answer.at}


def _data(answer: Answer | None, *, rights: Rights) -> tuple[str, ...]:
    """What data had to do with it: it names clusters where data lies."""
    return (answer.data,) if answer is not None and answer.data and rights.clusters else ()


def _times(answer: Answer, *, now: datetime.datetime) -> Status:
    time = answer.run_time
    return {
        "runSeconds": round(time.seconds) or None,
        "runTimeFrom": str(time.source) if time.seconds else None,
        "expectedStart": _after(now, answer.begin),
        "expectedFinish": _after(now, answer.finish),
    }


def _after(now: datetime.datetime, seconds: float | None) -> str | None:
    return None if seconds is None else stamp(now + datetime.timedelta(seconds=seconds))


def money(amount: float) -> str:
    """For people: cents, or what is less than one."""
    return f"{amount:.2f}" if amount == 0 or amount >= 0.01 else f"{amount:.3g}"


def _money(amount: float | None, currency: str) -> Status:
    return {} if amount is None else {"cost": money(amount), "currency": currency}


def _part(answer: Answer, at: int) -> Status:
    part = answer.parts[at]
    option = answer.options.get(part.cluster)
    told: Status = {
        "cluster": part.cluster,
        "replicas": part.replicas,
        "tasks": [{"name": each.name, "replicas": each.replicas} for each in part.tasks],
    }
    if option is None:
        return told
    told |= {name: value for name, value in (("nodeClass", option.node_class), ("pool", option.pool)) if value}
    if option.money is not None:
        told |= {"market": str(option.market), "cost": money(option.money)}
    return told if option.finish is None else {**told, "finishSeconds": round(option.finish)}


def _clusters(
    told: Iterable[Considered], waits: Mapping[str, float], *, rights: Rights, counts: Mapping[str, int] | None = None
) -> Status:
    """The best one by one, the others by code; for those who may not see clusters all of them by code."""
    ordered = sorted(told, key=lambda each: (bool(each.code), -each.total, each.code, each.cluster))
    named = ordered[:MOST_CLUSTERS] if rights.clusters else []
    rest = dict(counts or {})
    for code, count in _by_code(ordered[len(named) :]).items():
        rest[code] = rest.get(code, 0) + count
    return {"clusters": [_judged(each, waits) for each in named], "counts": dict(sorted(rest.items()))}


def _by_code(told: Iterable[Considered]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in told:
        counts[each.code or "Fits"] = counts.get(each.code or "Fits", 0) + 1
    return counts


def _judged(each: Considered, waits: Mapping[str, float]) -> Status:
    told: Status = {"name": each.cluster, "code": each.code, "text": each.text, "scores": dict(each.scores)}
    told = {name: value for name, value in told.items() if value}
    if each.scores:
        told["total"] = each.total
    return {**told, "expectedWaitSeconds": round(waits[each.cluster])} if each.cluster in waits else told


def _worth_telling(found: Findings) -> list[Tried]:
    """What does not start it, and what would but is dearer, without the steps of halving beside it."""
    others = [each for each in found.tried if each is not found.cheapest]
    return sorted(others, key=lambda each: each.cost)[:MOST_TRIED]


def _tried(tried: Tried) -> Status:
    told = {"changes": [_change(each) for each in tried.changes], "points": tried.cost, "starts": tried.starts}
    return {**told, "why": tried.why[:LONGEST]} if tried.why else told


def _change(change: Change) -> Status:
    told: Status = {"change": str(change.kind), "text": change.text, "how": str(change.how), "points": change.cost}
    told |= {name: value for name, value in (("to", change.to), ("task", change.task)) if value}
    return {**told, "count": change.count} if change.count else told


def _step(step: PlannedStep, path: Sequence[str], *, rights: Rights) -> Status:
    answer = step.answer
    shown = step.message if answer is None or answer.starts or rights.clusters else _reasons(answer, rights=rights)["message"]
    told: Status = {
        "name": step.node.name,
        "step": step.node.step,
        "clusters": list(step.clusters),
        "reason": step.reason,
        "message": "; ".join(filter(None, (shown, *_data(answer, rights=rights))))[:LONGEST],
        "critical": True if step.node.name in path else None,
    }
    if step.start is not None and step.finish is not None:
        told |= {"startSeconds": round(step.start), "finishSeconds": round(step.finish)}
        if answer is not None and answer.money is not None:
            told["cost"] = money(answer.money)
    return {name: value for name, value in told.items() if value not in (None, "", [])}
