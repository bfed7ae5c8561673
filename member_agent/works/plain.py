"""What a Work that brings an object without a run asks for here: pure.

Such objects are what Jobs refer to (docs/concepts/dependencies.md): namespaces, queues, priority classes, configuration,
secrets, claims, accounts; and workloads of other kinds than Volcano's Job (docs/concepts/other-kinds.md), whose status is
reported. They are kept in line with the Work, never wrested from somebody else unless the Work says so, and go with it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from apis import keys, kinds
from apis.runs import RefusalReason
from machinery import errors
from member_agent import carried
from member_agent.views import Condition, WorkView, condition, status_digest
from member_agent.works.applier import PRUNED
from member_agent.works.planner import PROTECTED, Refuse
from member_agent.works.report import Status, Urgency
from policies import claims

Tree = dict[str, Any]

LARGEST_STATUS: Final = 16 << 10
"""Bytes of a reported status; of a larger one the largest fields are left out: a Work is read by every watcher of it."""

UPDATE_REFUSED, LOCALLY_DELETED = "UpdateRefused", "LocallyDeleted"
"""Reasons of Applied=True for what is there and cannot be changed any more, and for what was there and is not run again."""

BUILT_IN: Final = {
    kinds.NAMESPACE: ("default",),
    kinds.QUEUE: (keys.DEFAULT_QUEUE, keys.ROOT_QUEUE),
}
"""Names that every cluster has of its own."""

SYSTEM_CLASSES: Final = "system-"
APPLIED: Final = "AppliedSuccessful"
IN_PLACE: Final = "InPlace"
"""Applied=True for an object of somebody else that holds all that is asked for: it is left as it is."""

REFUSED: Final = {
    errors.Invalid: RefusalReason.INVALID,
    errors.TooLarge: RefusalReason.INVALID,
    errors.Forbidden: RefusalReason.DENIED,
    errors.NotFound: RefusalReason.KIND_MISSING,
}
"""What the member's API server says to an object, as a refusal."""


def kind_of(work: WorkView, *, more: Sequence[str] = ()) -> kinds.Kind | None:
    """The kind of an object that the Work brings without a run; None for the Work of a run, or of a kind not taken. `more` are
    kinds that this member's people let in."""
    return carried.find(work.target.api_version, work.target.kind, more=more) if work.record is None else None


class Whose(enum.Enum):
    """Who made the object of that name here."""

    NOBODY = "nobody"
    OURS = "ours"
    OTHERS = "others"


def whose(work: WorkView, present: Mapping[str, Any] | None) -> Whose:
    """By the marks that applying leaves. A namespace that was made for a Job carries the label only."""
    if present is None:
        return Whose.NOBODY
    meta = present.get("metadata") or {}
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    if keys.WORK_NAME in notes:
        mine = (notes.get(keys.WORK_NAMESPACE), notes[keys.WORK_NAME]) == (work.namespace, work.name)
        return Whose.OURS if mine else Whose.OTHERS
    made_for_a_job = work.target.kind == kinds.NAMESPACE.kind and labels.get(keys.MANAGED_LABEL) == "true"
    return Whose.OURS if made_for_a_job else Whose.OTHERS


@dataclass(frozen=True, slots=True)
class Apply:
    """Write it; `take` also the fields that others own."""

    take: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """It is as it should be, or as it can be; reason and message of Applied=True. `status`: what the object says of itself."""

    reason: str
    message: str = ""
    status: Mapping[str, Any] | None = None


Answer = Apply | Keep | Refuse


def unfit(work: WorkView) -> Refuse | None:
    """What may never be written here, whatever is there."""
    kind, target = kind_of(work), work.target
    assert kind is not None
    place = target.namespace if kind.namespaced else target.name if kind == kinds.NAMESPACE else ""
    if not target.name or (kind.namespaced and not target.namespace):
        return Refuse(RefusalReason.INVALID, "spec.workload.manifests[0]: no readable object with a name and namespace")
    if place == keys.SYSTEM_NAMESPACE or place.startswith(PROTECTED):
        return Refuse(RefusalReason.DENIED, f"namespace {place} takes nothing from the hub")
    if kind == kinds.PRIORITY_CLASS and target.name.startswith(SYSTEM_CLASSES):
        return Refuse(RefusalReason.DENIED, f"PriorityClass {target.name} is the cluster's own")
    if target.name in BUILT_IN.get(kind, ()):
        return Refuse(RefusalReason.DENIED, f"{kind.kind} {target.name} is the cluster's own")
    return None


def answer(work: WorkView, *, manifest: Tree, present: Mapping[str, Any] | None) -> Answer:
    """What to do about the object; `present` as a quorum read has it, None when there certainly is none."""
    owner = whose(work, present)
    if owner is Whose.NOBODY:
        kind = carried.WORKLOADS.get((work.target.api_version, work.target.kind))
        if kind in carried.ENDING and work.applied:
            return Keep(LOCALLY_DELETED, "it was deleted in this member, where it ran, and is not run again")
        return Apply(take=False)
    assert present is not None
    wanted = content(manifest)
    if owner is Whose.OURS:
        notes = (present.get("metadata") or {}).get("annotations") or {}
        same = (notes.get(keys.WORK_UID), notes.get(keys.WORK_DIGEST)) == (work.uid, work.digest)
        return Keep(APPLIED) if same and holds(present, wanted) else Apply(take=True)
    if overwrites(manifest):
        return Apply(take=True)
    if work.target.kind == kinds.NAMESPACE.kind or holds(present, wanted):
        return Keep(IN_PLACE)
    where = f"{work.target.namespace}/{work.target.name}" if work.target.namespace else work.target.name
    return Refuse(RefusalReason.NAME_TAKEN, f"{work.target.kind} {where} is there already, made here, and differs")


def overwrites(manifest: Mapping[str, Any]) -> bool:
    """Whether an object of somebody else is taken over (`conflictResolution: Overwrite`)."""
    notes = (manifest.get("metadata") or {}).get("annotations") or {}
    return str(notes.get(claims.CONFLICT, "")).lower() == claims.Conflict.OVERWRITE.lower()


def content(manifest: Mapping[str, Any]) -> Tree:
    """Everything but what names the object and what is written about it."""
    return {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata", "status")}


def holds(present: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there, whatever else is."""
    if isinstance(wanted, Mapping) and isinstance(present, Mapping):
        return all(holds(present.get(name), value) for name, value in wanted.items())
    return bool(present == wanted) or (not wanted and wanted is not False and wanted != 0 and not present)


def body(work: WorkView, manifest: Mapping[str, Any]) -> Tree:
    """The object as it is applied: the manifest with our marks."""
    meta = {name: value for name, value in (manifest.get("metadata") or {}).items() if name not in PRUNED}
    meta["labels"] = {**(meta.get("labels") or {}), keys.MANAGED_LABEL: "true"}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        keys.WORK_NAMESPACE: work.namespace,
        keys.WORK_NAME: work.name,
        keys.WORK_UID: work.uid,
        keys.WORK_DIGEST: work.digest,
    }
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": meta}


UNMARKED: Final[Tree] = {
    "metadata": {
        "labels": {keys.MANAGED_LABEL: None},
        "annotations": dict.fromkeys((keys.WORK_NAMESPACE, keys.WORK_NAME, keys.WORK_UID, keys.WORK_DIGEST)),
    }
}
"""The merge patch by which an object is let go: it stays, and is nobody's but the cluster's own."""


def refusal(error: errors.ApiError, *, kind: kinds.Kind) -> Refuse:
    """The API server's no. What it says of a Secret is not repeated: it may quote the contents."""
    text = error.message if kind != kinds.SECRET else "this member's API server refuses it; its words may quote the contents"
    return Refuse(REFUSED[type(error)], text)


def status(work: WorkView, said: Keep | Refuse, *, now: str) -> Status | None:
    """The Work's status; None when it says so already."""
    wanted = Condition("Applied", "True", said.reason, said.message) if isinstance(said, Keep) else None
    if isinstance(said, Refuse):
        wanted = Condition("Applied", "False", said.reason.value, said.message)
    assert wanted is not None
    known = condition(work.conditions, "Applied")
    told = bounded(said.status) if isinstance(said, Keep) and said.status else None
    if known is not None:
        same = (known.status, known.reason, known.message) == (wanted.status, wanted.reason, wanted.message)
        if same and (told is None or status_digest(told) == work.reported):
            return None
        if known.status == wanted.status:
            now = known.last_transition_time or now
    stamped = msgspec.structs.replace(wanted, last_transition_time=now)
    others = tuple(each for each in work.conditions if each.type != "Applied")
    health = "Healthy" if wanted.status == "True" else "Unknown"
    return Status((*others, stamped), told, health, Urgency.SOON)


def bounded(status: Mapping[str, Any]) -> Tree:
    """The status, without its largest fields where it is too large."""
    sizes = {name: len(orjson.dumps(value)) for name, value in status.items()}
    kept, left = set(), LARGEST_STATUS
    for name in sorted(sizes, key=lambda each: (sizes[each], each)):
        left -= sizes[name] + len(name)
        if left >= 0:
            kept.add(name)
    return {name: value for name, value in status.items() if name in kept}


def read(document: bytes) -> Tree:
    """A document as a tree."""
    tree: Tree = orjson.loads(document)
    return tree
