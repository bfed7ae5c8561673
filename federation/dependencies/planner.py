"""What becomes of the Works of one object: a pure function from what is needed and what is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from federation.dependencies import documents
from federation.dependencies.documents import CompanionWork
from policies.dependencies import Companion, Reference


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One object. `source` as a quorum read of the hub has it, None when there is none or it does not travel; `works` by
    cluster; `unneeded`: seconds for which a Work, by UID, has not been needed; `clusters`: those that are registered."""

    reference: Reference
    wanted: Companion | None = None
    source: Mapping[str, Any] | None = None
    works: Mapping[str, CompanionWork] = field(default_factory=dict)
    unneeded: Mapping[str, float] = field(default_factory=dict)
    clusters: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write. `forsaken`: Works of clusters that have left, with nobody there to confirm; `missing`: it is needed and
    not there; `again`: seconds until the next Work has not been needed for long enough."""

    spec: Mapping[str, Any] | None = None
    create: tuple[str, ...] = ()
    update: tuple[CompanionWork, ...] = ()
    delete: tuple[CompanionWork, ...] = ()
    forsaken: tuple[CompanionWork, ...] = ()
    missing: bool = False
    again: float | None = None


def plan(snapshot: Snapshot, *, linger: float) -> Plan:
    """Works that are missing, outdated, or not needed any more for `linger` seconds. What was deleted at the hub while runs
    need it stays as it is in the members: they go on."""
    wanted, works = snapshot.wanted, snapshot.works
    there = set(wanted.clusters if wanted is not None else ()) & set(snapshot.clusters)
    spare = [each for name, each in sorted(works.items()) if name not in there and not each.deleting]
    waits = {each.uid: linger - snapshot.unneeded.get(each.uid, 0.0) for each in spare if each.cluster in snapshot.clusters}
    delete = tuple(each for each in spare if waits.get(each.uid, 0.0) <= 0)
    left = (each for name, each in sorted(works.items()) if name not in snapshot.clusters)
    forsaken = tuple(each for each in left if each.deleting and each.finalized)
    again = min((each for each in waits.values() if each > 0), default=None)
    if wanted is None or snapshot.source is None:
        return Plan(delete=delete, forsaken=forsaken, missing=bool(there), again=again)
    spec = documents.spec(snapshot.source, reference=snapshot.reference, companion=wanted)
    wrong = [works[name] for name in sorted(there & set(works)) if works[name].digest != documents.digest(spec)]
    return Plan(
        spec=spec,
        create=tuple(sorted(there - set(works))),
        update=tuple(each for each in wrong if not each.deleting),
        delete=delete,
        forsaken=forsaken,
        again=again,
    )
