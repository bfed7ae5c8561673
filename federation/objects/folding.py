"""What comes back: the status of a binding and of its object, from what members say in Works. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from federation.objects.snapshot import Snapshot
from federation.objects.views import ObjectWork, Tree
from policies.interpreting import Interpreter, Unclear

STATUS_BUDGET: Final = 2048
"""Bytes of members' statuses in one binding: etcd and watches carry them, and the Works have them in full (protocol.md 7)."""
MESSAGE_LIMIT: Final = 240


def member_status(work: ObjectWork) -> Tree | None:
    """What the member says of the object; None while it says nothing that can be read."""
    if not work.status:
        return None
    try:
        found = msgspec.json.decode(work.status)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def items(snapshot: Snapshot, targets: Mapping[str, int]) -> list[Tree]:
    """`aggregatedStatus`: an item for each target whose member has said something, by name; statuses as far as they fit."""
    assert snapshot.source is not None
    interpreter = snapshot.around.interpreter
    found, left = [], STATUS_BUDGET
    for name in sorted(targets):
        work = snapshot.works.get(name)
        if work is None or work.applied is None:
            continue
        status = member_status(work)
        object_there = {**snapshot.source, "status": status or {}}
        item: Tree = {
            "clusterName": name,
            "applied": work.applied,
            "health": str(interpreter.health(object_there, applied=work.applied and not work.deleting)),
        }
        if not work.applied:
            item["appliedMessage"] = f"{work.reason}: {work.message}"[:MESSAGE_LIMIT]
        told = _reflected(interpreter, object_there) if status else None
        size = len(msgspec.json.encode(told)) if told else 0
        if told and size <= left:
            left -= size
            item["status"] = told
        found.append(item)
    return found


def _reflected(interpreter: Interpreter, object_there: Tree) -> Mapping[str, Any] | None:
    try:
        return interpreter.status(object_there)
    except Unclear:
        return None


def finished(snapshot: Snapshot, work: ObjectWork | None) -> bool:
    """Whether the object has ended in that cluster and runs nothing there any more."""
    if work is None or snapshot.source is None:
        return False
    status = member_status(work)
    return status is not None and snapshot.around.interpreter.finished({**snapshot.source, "status": status})


def binding_status(
    snapshot: Snapshot, targets: Mapping[str, int], *, reason: str, text: str, term: str, fresh: bool, now: str
) -> Tree | None:
    """The status that a binding should have; None when it has it. Times move only with what they are about."""
    assert snapshot.binding is not None
    known = snapshot.binding.get("status") or {}
    generation = (snapshot.binding.get("metadata") or {}).get("generation", 0)
    listed = items(snapshot, targets)
    applied = bool(targets) and len(listed) == len(targets) and all(each["applied"] for each in listed)
    placed = bool(targets) and reason in ("Success", "")
    message = f"placed on {', '.join(sorted(targets)[:5])}" if placed else text[:MESSAGE_LIMIT]
    if placed and len(targets) > 5:
        message += f" and {len(targets) - 5} more"
    conditions = [
        _condition(known, "Scheduled", placed, "Success" if placed else reason, message, generation=generation, now=now),
        _condition(
            known,
            "FullyApplied",
            applied,
            "FullyAppliedSuccess" if applied else "FullyAppliedFailed",
            "",
            generation=generation,
            now=now,
        ),
    ]
    before: Tree = next((each for each in known.get("conditions") or [] if each.get("type") == "Scheduled"), {})
    moved = placed and (fresh or before.get("message") != message)
    wanted: Tree = {
        "schedulerObservedGeneration": generation,
        "conditions": conditions,
        "aggregatedStatus": listed,
        "lastScheduledTime": now if moved else known.get("lastScheduledTime"),
        "schedulerObservingAffinityName": (term or known.get("schedulerObservingAffinityName")) if placed else None,
    }
    wanted = {name: value for name, value in wanted.items() if value not in (None, "")}
    return None if wanted == {name: known.get(name) for name in wanted} else wanted


def _condition(
    known: Mapping[str, Any], type: str, holds: bool, reason: str, message: str, *, generation: int, now: str
) -> Tree:
    status = "True" if holds else "False"
    before: Tree = next((each for each in known.get("conditions") or [] if each.get("type") == type), {})
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": type,
        "status": status,
        "reason": reason or "Waiting",
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }


_OF_THE_MEMBER: Final = frozenset({"uncountedTerminatedPods"})
"""Books that the controller in a member keeps in a status for itself; an API server takes none of them for a Job that has
ended."""


def object_status(snapshot: Snapshot, targets: Mapping[str, int]) -> Tree | None:
    """The merge patch of the object's own status; None where nothing is new, or nobody knows how several become one."""
    assert snapshot.source is not None
    told = [(name, status) for name in sorted(targets) if (status := _of(snapshot, name)) is not None]
    if not told or (len(told) < len(targets)):
        return None
    try:
        found = snapshot.around.interpreter.aggregate(snapshot.source, told)
    except Unclear:
        return None
    if found is None:
        return None
    found = {name: value for name, value in found.items() if name not in _OF_THE_MEMBER}
    known = snapshot.source.get("status") or {}
    changes = {name: value for name, value in found.items() if known.get(name) != value}
    gone = {name: None for name in known if name not in found}
    return {**changes, **gone} or None


def _of(snapshot: Snapshot, cluster: str) -> Tree | None:
    work = snapshot.works.get(cluster)
    return member_status(work) if work is not None and not work.deleting else None
