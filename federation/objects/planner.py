"""What becomes of one object: a pure function from what is wanted and what is there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from apis import keys, kinds, naming
from federation.objects import documents, folding, placing, travelling
from federation.objects.placing import Asked, Placed
from federation.objects.snapshot import Rules, Snapshot
from federation.objects.views import ObjectWork, Tree, digest
from policies import claims
from policies.claims import Applied, Change, Governed
from policies.dependencies import Reference, references
from policies.division import Strategy, webster
from policies.interpreting import Component, Unclear
from policies.matching import DEFAULT
from policies.overrides import overridden
from policies.placements import PolicyView
from policies.selecting import template_of
from policies.shapes import Gang, Pool

ACTING, UNCLEAR = "ActingKind", "Unclear"
_HANDS_OFF = (ACTING, UNCLEAR)
"""Reasons for which what is in the members stays as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, in this order. `marks`: a merge patch of the object's metadata; `create_binding`, or `binding`, a merge
    patch of one that is there; Works; then statuses. `release`: the binding may go, its Works are gone; `discard`: it must.
    `told`: reason and text for people; `waits`: it is to be looked at again when room, clusters or queues change."""

    create_binding: Tree | None = None
    binding: Tree | None = None
    marks: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    create: tuple[Tree, ...] = ()
    update: tuple[tuple[ObjectWork, Tree], ...] = ()
    delete: tuple[ObjectWork, ...] = ()
    release: bool = False
    discard: bool = False
    binding_status: Tree | None = None
    object_status: Tree | None = None
    told: tuple[str, str] = ("", "")
    waits: bool = False


def plan(snapshot: Snapshot, *, rules: Rules, now: str) -> Plan:
    """Everything about one object. `now` as RFC 3339."""
    source, binding = snapshot.source, snapshot.binding
    owned = binding is None or source is None or _uid(source) == binding["spec"]["resource"].get("uid")
    deleting = binding is not None and bool(binding["metadata"].get("deletionTimestamp"))
    if source is None or deleting or not owned:
        return _retire(snapshot, deleting=deleting)
    if source["metadata"].get("deletionTimestamp") or travelling.stays(source):
        return Plan()
    governed = _governed(snapshot, source)
    marks = claims.remarked(*_marks(source), policy=governed.policy)
    if not governed.policy.uid:
        return _ungoverned(snapshot, marks=marks, lost=governed.change is Change.LOST, now=now)
    kept = _keeps(snapshot, governed.policy)
    if kept is not None:
        status = _statuses(snapshot, _current(snapshot), Placed(reason=kept[0], text=kept[1]), now=now) if binding else Plan()
        return dataclasses.replace(status, marks=marks, told=kept)
    return dataclasses.replace(_Planning(snapshot, governed.policy, rules=rules, now=now).plan(), marks=marks)


# --- before anything is placed ---------------------------------------------------------------------------------------
def _retire(snapshot: Snapshot, *, deleting: bool) -> Plan:
    """The object is gone, or another has its name, or somebody deletes the binding."""
    spare = tuple(each for _, each in sorted(snapshot.works.items()) if not each.deleting)
    if snapshot.binding is None:
        return Plan(delete=spare)
    if not deleting:
        return Plan(discard=True)
    return Plan(delete=spare, release=not snapshot.works)


def _governed(snapshot: Snapshot, source: Tree | Mapping[str, Any]) -> Governed:
    claim = claims.claim_of(*_marks(source))
    return claims.govern((template_of(source),), claim=claim, policies=snapshot.around.policies)


def _ungoverned(snapshot: Snapshot, *, marks: Mapping[str, Mapping[str, str | None]], lost: bool, now: str) -> Plan:
    """No policy has anything to say: what is there stays as it is, and nothing places it again."""
    if snapshot.binding is None:
        return Plan(marks=marks)
    found = _statuses(snapshot, _current(snapshot), Placed(reason="Success"), now=now)
    if not lost:
        return dataclasses.replace(found, marks=marks)
    meta = snapshot.binding["metadata"]
    unmarked = claims.remarked(meta.get("labels") or {}, meta.get("annotations") or {}, policy=DEFAULT)
    patch = {"metadata": {**unmarked, "resourceVersion": meta.get("resourceVersion", "")}} if unmarked else None
    return dataclasses.replace(found, marks=marks, binding=patch)


def _keeps(snapshot: Snapshot, policy: PolicyView) -> tuple[str, str] | None:
    """Why what the policy says does not act now, although it governs; None when it does."""
    known = {(each.namespace, each.name) for each in snapshot.around.overrides if not each.deleting}
    missing = claims.missing_overrides(policy, known=known)
    if missing:
        return "WaitingForOverrides", f"{policy.title} waits for override policies: {', '.join(missing)}"
    assert snapshot.source is not None
    if policy.lazy and not claims.acts(policy, applied=_applied(snapshot), template=content_of(snapshot.source)):
        return "Success", ""
    return None


def content_of(source: Mapping[str, Any]) -> int:
    """A number that changes with what people write of an object: its generation, or of kinds that have none its content."""
    generation = int((source.get("metadata") or {}).get("generation") or 0)
    body = {name: value for name, value in source.items() if name not in ("metadata", "status")}
    return generation or naming.fnv32a(digest(body))


def _applied(snapshot: Snapshot) -> Applied | None:
    notes = (snapshot.binding or {}).get("metadata", {}).get("annotations") or {}
    try:
        read = msgspec.json.decode(notes.get(keys.APPLIED_POLICY, "null"), type=tuple[str, int, int] | None)
    except msgspec.MsgspecError:
        return None
    return Applied(*read) if read else None


def _uid(source: Mapping[str, Any]) -> str:
    return str(source["metadata"].get("uid", ""))


def _marks(source: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    meta = source.get("metadata") or {}
    return meta.get("labels") or {}, meta.get("annotations") or {}


def _current(snapshot: Snapshot) -> dict[str, int]:
    """Replicas by cluster, as the binding has them."""
    listed = ((snapshot.binding or {}).get("spec") or {}).get("clusters") or []
    return {each["name"]: int(each.get("replicas") or 0) for each in listed}


def _statuses(snapshot: Snapshot, targets: Mapping[str, int], placed: Placed, *, now: str, runs: bool = False) -> Plan:
    """Only what is told."""
    status = folding.binding_status(
        snapshot, targets, reason=placed.reason, text=placed.text, term=placed.term, fresh=_fresh(snapshot), now=now
    )
    return Plan(binding_status=status, object_status=folding.object_status(snapshot, targets) if runs else None)


def _fresh(snapshot: Snapshot) -> bool:
    """Whether it was asked to be placed anew since it was placed."""
    binding = snapshot.binding or {}
    asked = (binding.get("spec") or {}).get("rescheduleTriggeredAt") or ""
    return bool(asked) and asked > ((binding.get("status") or {}).get("lastScheduledTime") or "")


# --- placing ---------------------------------------------------------------------------------------------------------
class _Planning:
    """One object that a policy governs."""

    def __init__(self, snapshot: Snapshot, policy: PolicyView, *, rules: Rules, now: str) -> None:
        assert snapshot.source is not None
        self._snapshot, self._policy, self._rules, self._now = snapshot, policy, rules, now
        self._source = snapshot.source
        self._components: tuple[Component, ...] = ()
        self._gang: Gang | None = None

    def plan(self) -> Plan:
        """Where it goes, and everything that follows."""
        placed = self._placed()
        targets = dict(placed.targets)
        wanted = documents.binding(
            self._snapshot.reference,
            self._snapshot.kind,
            uid=_uid(self._source),
            version=str(self._source["metadata"].get("resourceVersion", "")),
            policy=self._policy,
            targets=targets,
            pods=self._gang.replicas if self._gang is not None else 0,
            refers_to=self._refers_to() if self._policy.carries else (),
        )
        wanted["metadata"]["annotations"][keys.APPLIED_POLICY] = msgspec.json.encode(
            (self._policy.uid, self._policy.generation, content_of(self._source))
        ).decode()
        waits = not targets or placed.reason not in ("Success", "")
        told = (placed.reason, placed.text) if placed.text else ("", "")
        works = Plan() if placed.reason in _HANDS_OFF else self._works(targets)
        if self._snapshot.binding is None:
            return dataclasses.replace(works, create_binding=wanted, waits=waits, told=works.told if works.told[0] else told)
        patch = documents.rebound(self._snapshot.binding, wanted)
        said = Plan()
        if patch is None or "spec" not in patch:
            said = _statuses(self._snapshot, targets, placed, now=self._now, runs=self._gang is not None)
        return dataclasses.replace(
            works,
            binding=patch,
            binding_status=said.binding_status,
            object_status=said.object_status,
            waits=waits,
            told=works.told if works.told[0] else told,
        )

    def _placed(self) -> Placed:
        """Its clusters: those it has, or those it should have."""
        current = _current(self._snapshot)
        acting = travelling.acting(self._source, hub_runs=self._rules.hub_runs)
        if acting:
            return Placed(current, ACTING, acting)
        try:
            self._components = self._snapshot.around.interpreter.components(self._source)
            self._gang = self._snapshot.around.interpreter.gang(self._source, pool=Pool())
        except Unclear as unclear:
            return Placed(current, UNCLEAR, str(unclear))
        suspension = ((self._snapshot.binding or {}).get("spec") or {}).get("suspension") or {}
        if suspension.get("scheduling"):
            return Placed(current, "SchedulingSuspended", "spec.suspension.scheduling of its binding is true")
        staying = {site.cluster.name for site in self._snapshot.around.sites if not site.cluster.deleting}
        live = {name: each for name, each in current.items() if name in staying}
        if self._gang is None:
            return self._choose(live)
        if live and all(folding.finished(self._snapshot, self._snapshot.works.get(name)) for name in live):
            return Placed(live, "Success")
        strategy = self._policy.replicas.strategy
        if strategy is Strategy.DUPLICATED:
            found = self._choose(live)
            return found if found.targets else Placed(live, found.reason, found.text)
        if strategy is not None and len(self._gang.tasks) == 1:
            return self._divided(live)
        return self._one_cluster(live)

    def _one_cluster(self, live: Mapping[str, int]) -> Placed:
        """It stays where it is, unless its member refuses it or somebody asked for another choice; then it is gone there before
        it is anywhere else."""
        works = self._snapshot.works
        kept = {name: each for name, each in live.items() if not (name in works and works[name].refused)}
        if kept and not _fresh(self._snapshot):
            return Placed(kept, "Success")
        if kept:
            found = self._choose({}, fresh=True)
            if not found.targets or set(found.targets) == set(kept):
                return Placed(kept, "Success")
        if works:
            return Placed({}, "Moving", f"it must be gone from {', '.join(sorted(works))} first")
        return self._choose({})

    def _divided(self, live: Mapping[str, int]) -> Placed:
        """As few pods as can be change their cluster; a batch Job keeps its shares, because its completions are divided."""
        assert self._gang is not None
        fresh = _fresh(self._snapshot)
        indexed = self._source.get("kind") == kinds.BATCH_JOB.kind and (self._source.get("spec") or {}).get("completions")
        if live and not fresh and (sum(live.values()) == self._gang.replicas or indexed):
            return Placed(live, "Success")
        found = self._choose(live, fresh=fresh)
        return found if found.targets else Placed(live, found.reason, found.text)

    def _choose(self, assigned: Mapping[str, int], *, fresh: bool = False) -> Placed:
        status = (self._snapshot.binding or {}).get("status") or {}
        asked = Asked(
            self._snapshot.reference,
            self._source,
            self._policy,
            self._asks(),
            assigned=assigned,
            observed=status.get("schedulerObservingAffinityName") or "",
            fresh=fresh,
        )
        return placing.place(asked, around=self._snapshot.around, rules=self._rules)

    def _asks(self) -> Gang | None:
        """What may be divided is no gang: each of its pods is of use alone."""
        gang, strategy = self._gang, self._policy.replicas.strategy
        if gang is None or len(gang.tasks) != 1 or strategy in (None, Strategy.DUPLICATED):
            return gang
        return Pool().gang((dataclasses.replace(gang.tasks[0], minimum=1),), minimum=1)

    def _refers_to(self) -> Sequence[Reference]:
        try:
            named = self._snapshot.around.interpreter.dependencies(self._source)
        except Unclear:
            named = ()
        found = references(self._source)
        return sorted({*found.asked, *found.always, *named})

    # --- Works -------------------------------------------------------------------------------------------------------
    def _works(self, targets: Mapping[str, int]) -> Plan:
        """One for each target, as the policies of now make it; the others go."""
        snapshot = self._snapshot
        create, update, told = [], [], ("", "")
        for name in sorted(targets):
            body, failure = self._work(name, targets)
            if body is None:
                told = ("ApplyOverridePolicyFailed", f"{name}: {failure}")
                continue
            known = snapshot.works.get(name)
            if known is None:
                create.append(body)
            elif not known.deleting and known.digest != body["metadata"]["annotations"][keys.SOURCE_DIGEST]:
                update.append((known, body))
        spare = tuple(each for name, each in sorted(snapshot.works.items()) if name not in targets and not each.deleting)
        return Plan(create=tuple(create), update=tuple(update), delete=spare, told=told)

    def _work(self, cluster: str, targets: Mapping[str, int]) -> tuple[Tree | None, str]:
        """The Work of one cluster, or why there can be none."""
        site = next((each for each in self._snapshot.around.sites if each.cluster.name == cluster), None)
        if site is None:
            return None, "it is not registered any more"
        part, replicas = self._part(cluster, targets)
        made = overridden(part, cluster=site.cluster, policies=self._snapshot.around.overrides)
        if made.failure is not None:
            return None, str(made.failure)
        _, notes = _marks(self._source)
        tree = documents.manifest(made.manifest, conflict=claims.conflict(self._policy, notes))
        spec = documents.work_spec(
            tree, suspended=claims.suspends(self._policy, cluster), preserve=bool(self._policy.preserves)
        )
        asks = ""
        if self._gang is not None and not folding.finished(self._snapshot, self._snapshot.works.get(cluster)):
            asks = documents.demand(self._components, self._gang, replicas=replicas, queue=placing.queue_of(self._source))
        marked = documents.Marked(made.annotations(), asks)
        reference, kind = self._snapshot.reference, self._snapshot.kind
        return documents.work(reference, kind, cluster=cluster, uid=_uid(self._source), spec=spec, marked=marked), ""

    def _part(self, cluster: str, targets: Mapping[str, int]) -> tuple[Mapping[str, Any], int]:
        """The manifest with the replicas of that cluster, 0 where it is not divided; completions are divided as pods are."""
        replicas = targets[cluster]
        divided = self._policy.replicas.strategy not in (None, Strategy.DUPLICATED)
        if not replicas or not divided:
            return self._source, 0
        part = self._snapshot.around.interpreter.revised(self._source, replicas=replicas)
        completions = (self._source.get("spec") or {}).get("completions")
        if self._source.get("kind") == kinds.BATCH_JOB.kind and completions:
            share = webster(int(completions), {name: each for name, each in targets.items() if each}).get(cluster, 0)
            part = {**part, "spec": {**part["spec"], "completions": max(1, share)}}
        return part, replicas
