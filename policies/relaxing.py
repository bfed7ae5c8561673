"""What could be done so that a waiting Job starts: changes of the Job, or of the policy that governs it, and what each costs.

Costs are points, not money: what a change takes from those who want the Job. Nothing is lost by resuming; less of the work
being done at once costs more, less of it being done at all the most; what somebody else has to agree to (a policy) costs more
than what the Job's own people can do. docs/concepts/placement-review.md has the table.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apis import keys, kinds
from policies.division import Strategy
from policies.placements import PolicyView, ReplicaRule, Selector
from policies.shapes import Taint, Toleration, tolerated

Manifest = Mapping[str, Any]
MOST_TASKS: Final = 8
MOST_TAINTS: Final = 4
MOST_QUEUES: Final = 8
"""How many of each are offered, the first by name: a search has to end."""


class Kind(enum.StrEnum):
    """What is changed."""

    RESUME = "Resume"
    PROFILE = "Profile"
    QUEUE = "Queue"
    TOLERATE_NODE = "TolerateNode"
    MINIMUM = "MinAvailable"
    TOLERATE_CLUSTER = "TolerateCluster"
    ANY_NODE = "AnyNode"
    NO_SPREAD = "NoSpread"
    DIVIDE = "Divide"
    ANY_CLUSTER = "AnyCluster"
    REPLICAS = "Replicas"


class How(enum.StrEnum):
    """What it takes to make a change."""

    EDIT = "Edit"
    SUBMIT = "SubmitAgain"
    """The field of a Job may not be changed once it is there."""
    POLICY = "Policy"


COSTS: Final[Mapping[Kind, int]] = {
    Kind.RESUME: 100,
    Kind.PROFILE: 500,
    Kind.QUEUE: 1000,
    Kind.TOLERATE_NODE: 1500,
    Kind.MINIMUM: 2000,
    Kind.TOLERATE_CLUSTER: 2500,
    Kind.ANY_NODE: 3000,
    Kind.NO_SPREAD: 3200,
    Kind.DIVIDE: 3500,
    Kind.ANY_CLUSTER: 4500,
    Kind.REPLICAS: 5000,
}
"""Points of each; of MinAvailable and Replicas up to twice as much, by the share that is given up."""

HOWS: Final[Mapping[Kind, How]] = {
    **dict.fromkeys(Kind, How.EDIT),
    **dict.fromkeys((Kind.QUEUE, Kind.TOLERATE_NODE, Kind.ANY_NODE), How.SUBMIT),
    **dict.fromkeys((Kind.TOLERATE_CLUSTER, Kind.NO_SPREAD, Kind.DIVIDE, Kind.ANY_CLUSTER), How.POLICY),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `to`: name of the queue or profile, or a taint as `key:effect`; `count`: the new number of pods, `task` of
    which task ("": of the Job)."""

    kind: Kind
    cost: int = 0
    task: str = ""
    to: str = ""
    count: int = 0

    @property
    def how(self) -> How:
        """What it takes."""
        return HOWS[self.kind]

    @property
    def family(self) -> tuple[str, str]:
        """Two changes of one family cannot be made together."""
        if self.kind in (Kind.TOLERATE_CLUSTER, Kind.TOLERATE_NODE):
            return self.kind, self.to
        return self.kind, self.task

    @property
    def text(self) -> str:
        """For people."""
        of = f" of task {self.task}" if self.task else ""
        return {
            Kind.RESUME: "resume it",
            Kind.PROFILE: f"use the profile {self.to}",
            Kind.QUEUE: f"submit it to queue {self.to}",
            Kind.TOLERATE_NODE: f"let its pods tolerate the node taint {self.to}",
            Kind.MINIMUM: f"let it start with {self.count} pods (minAvailable)",
            Kind.TOLERATE_CLUSTER: f"let its policy tolerate the cluster taint {self.to}",
            Kind.ANY_NODE: "drop the node selectors and node affinity of its pods",
            Kind.NO_SPREAD: "drop the spread constraints of its policy",
            Kind.DIVIDE: "let its policy divide it over clusters (Aggregated)",
            Kind.ANY_CLUSTER: "let its policy allow every cluster",
            Kind.REPLICAS: f"run {self.count} replicas{of}",
        }[self.kind]


Ladder = tuple[Change, ...]
"""The same change made more and more, from the cheapest; one rung where there is no more or less."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is planned: a Job as its completed manifest says, and the policy that governs it."""

    manifest: Manifest
    policy: PolicyView


@dataclass(frozen=True, slots=True)
class Offers:
    """What else there is: queues, profiles, taints of clusters and of nodes, as far as the one who asks may know of them."""

    queues: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    node_taints: tuple[Taint, ...] = ()
    policy: bool = True
    """Whether changes of the policy are offered."""


class BadChange(ValueError):
    """A change that cannot be made on this Job; says why."""


# --- making ----------------------------------------------------------------------------------------------------------


def changed(scene: Scene, changes: Iterable[Change]) -> Scene:
    """The scene with all of them made; `scene` stays as it is. Raises BadChange."""
    for change in changes:
        scene = _MAKE[change.kind](scene, change)
    return scene


def _with_spec(scene: Scene, **fields: Any) -> Scene:
    spec = {**(scene.manifest.get("spec") or {}), **fields}
    return dataclasses.replace(scene, manifest={**scene.manifest, "spec": spec})


def _annotated(scene: Scene, name: str, value: str | None) -> Scene:
    meta = scene.manifest.get("metadata") or {}
    kept = {key: each for key, each in (meta.get("annotations") or {}).items() if key != f"{keys.GROUP}/{name}"}
    notes = kept if value is None else {**kept, f"{keys.GROUP}/{name}": value}
    return dataclasses.replace(scene, manifest={**scene.manifest, "metadata": {**meta, "annotations": notes}})


def _resumed(scene: Scene, change: Change) -> Scene:
    return _with_spec(_annotated(scene, "suspend", None), suspend=None)


def _profiled(scene: Scene, change: Change) -> Scene:
    return _annotated(scene, "profile", change.to)


def _queued(scene: Scene, change: Change) -> Scene:
    return _with_spec(scene, queue=change.to)


def _minimum(scene: Scene, change: Change) -> Scene:
    tasks = _tasks(scene.manifest)
    if not 1 <= change.count <= _replicas(tasks):
        raise BadChange(f"minAvailable {change.count} is not between 1 and {_replicas(tasks)}")
    if len(tasks) == 1:
        tasks = [{**tasks[0], "minAvailable": change.count}]
    return _with_spec(scene, minAvailable=change.count, tasks=tasks)


def _scaled(scene: Scene, change: Change) -> Scene:
    tasks = _tasks(scene.manifest)
    named = [each for each in tasks if each["name"] == change.task] if change.task else tasks[:1] if len(tasks) == 1 else []
    if not named:
        raise BadChange(f"there is no task {change.task!r}: there are {', '.join(each['name'] for each in tasks)}")
    if change.count < 0:
        raise BadChange(f"{change.count} replicas are less than none")
    after = [_task_of(each, change.count) if each is named[0] else each for each in tasks]
    least = (scene.manifest.get("spec") or {}).get("minAvailable") or _floors(tasks)
    fewer = _floors(after) if least == _floors(tasks) else min(least, _replicas(after))
    return _with_spec(scene, tasks=after, minAvailable=max(fewer, 1))


def _task_of(task: Mapping[str, Any], count: int) -> dict[str, Any]:
    whole = task["minAvailable"] == task["replicas"]
    return {**task, "replicas": count, "minAvailable": count if whole else min(task["minAvailable"], count)}


def _any_node(scene: Scene, change: Change) -> Scene:
    return _with_pods(scene, _without_places)


def _without_places(pod: Mapping[str, Any]) -> dict[str, Any]:
    affinity = {name: value for name, value in (pod.get("affinity") or {}).items() if name != "nodeAffinity"}
    kept = {name: value for name, value in pod.items() if name not in ("nodeSelector", "affinity")}
    return {**kept, "affinity": affinity} if affinity else kept


def _node_tolerated(scene: Scene, change: Change) -> Scene:
    key, effect = _taint_of(change.to)
    more = {"key": key, "operator": "Exists", "effect": effect}
    return _with_pods(scene, lambda pod: {**pod, "tolerations": [*(pod.get("tolerations") or []), more]})


def _with_pods(scene: Scene, edit: Any) -> Scene:
    tasks = []
    for task in (scene.manifest.get("spec") or {}).get("tasks") or []:
        template = task.get("template") or {}
        tasks.append({**task, "template": {**template, "spec": edit(template.get("spec") or {})}})
    return _with_spec(scene, tasks=tasks)


def _taint_of(text: str) -> tuple[str, str]:
    key, _, effect = text.rpartition(":")
    if not key or effect not in ("NoSchedule", "NoExecute"):
        raise BadChange(f"{text!r} is no taint as key:NoSchedule or key:NoExecute")
    return key, effect


def _with_policy(scene: Scene, **fields: Any) -> Scene:
    """The policy changed. Where none governs, one for this Job alone."""
    policy = scene.policy
    if not policy.selectors and not policy.uid:
        meta = scene.manifest.get("metadata") or {}
        name, namespace = str(meta.get("name") or ""), str(meta.get("namespace") or "")
        only = Selector(kinds.JOB.api_version, kinds.JOB.kind, name=name)
        policy = PolicyView(namespace=namespace, name=name, uid="new", selectors=(only,))
    return dataclasses.replace(scene, policy=dataclasses.replace(policy, **fields))


def _cluster_tolerated(scene: Scene, change: Change) -> Scene:
    key, effect = _taint_of(change.to)
    return _with_policy(scene, tolerations=(*scene.policy.tolerations, Toleration(key, "Exists", "", effect)))


def _unspread(scene: Scene, change: Change) -> Scene:
    return _with_policy(scene, spread=())


def _divided(scene: Scene, change: Change) -> Scene:
    return _with_policy(scene, replicas=ReplicaRule(Strategy.AGGREGATED))


def _any_cluster(scene: Scene, change: Change) -> Scene:
    return _with_policy(scene, affinities=())


_MAKE: Final = {
    Kind.RESUME: _resumed,
    Kind.PROFILE: _profiled,
    Kind.QUEUE: _queued,
    Kind.TOLERATE_NODE: _node_tolerated,
    Kind.MINIMUM: _minimum,
    Kind.TOLERATE_CLUSTER: _cluster_tolerated,
    Kind.ANY_NODE: _any_node,
    Kind.NO_SPREAD: _unspread,
    Kind.DIVIDE: _divided,
    Kind.ANY_CLUSTER: _any_cluster,
    Kind.REPLICAS: _scaled,
}


def _tasks(manifest: Manifest) -> list[dict[str, Any]]:
    """Tasks with name, replicas and minimum filled in, as admission fills them in."""
    found = []
    for at, task in enumerate((manifest.get("spec") or {}).get("tasks") or []):
        replicas = task.get("replicas") or 0
        least = task.get("minAvailable")
        made = {"name": task.get("name") or f"default{at}", "replicas": replicas}
        found.append({**task, **made, "minAvailable": replicas if least is None else least})
    return found


def _replicas(tasks: Iterable[Mapping[str, Any]]) -> int:
    return sum(each["replicas"] for each in tasks)


def _floors(tasks: Iterable[Mapping[str, Any]]) -> int:
    return sum(each["minAvailable"] for each in tasks)


# --- offering --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Offered:
    scene: Scene
    ladders: list[Ladder] = field(default_factory=list)

    def one(self, kind: Kind, **more: Any) -> None:
        self.ladders.append((Change(kind, COSTS[kind], **more),))


def ladders(scene: Scene, offers: Offers) -> tuple[Ladder, ...]:
    """Every change that could make a difference, in a defined order."""
    found, spec = _Offered(scene), scene.manifest.get("spec") or {}
    notes = (scene.manifest.get("metadata") or {}).get("annotations") or {}
    if spec.get("suspend") or notes.get(keys.SUSPEND) == "true":
        found.one(Kind.RESUME)
    for name in sorted(set(offers.profiles) - {notes.get(f"{keys.GROUP}/profile", "")})[:MOST_QUEUES]:
        found.one(Kind.PROFILE, to=name)
    for name in sorted(set(offers.queues) - {spec.get("queue") or keys.DEFAULT_QUEUE})[:MOST_QUEUES]:
        found.one(Kind.QUEUE, to=name)
    _fewer(found, scene.manifest)
    _other_nodes(found, offers)
    if offers.policy:
        _other_clusters(found, offers)
    return tuple(found.ladders)


def _fewer(found: _Offered, manifest: Manifest) -> None:
    tasks = _tasks(manifest)
    least = min((manifest.get("spec") or {}).get("minAvailable") or _floors(tasks), _replicas(tasks))
    rungs = range(least - 1, 0, -1)
    if rungs:
        found.ladders.append(tuple(Change(Kind.MINIMUM, _dear(Kind.MINIMUM, least, of), count=of) for of in rungs))
    for task in sorted(tasks, key=lambda each: (-each["replicas"], each["name"]))[:MOST_TASKS]:
        whole, name = task["replicas"], task["name"]
        if whole > 1:
            counts = range(whole - 1, 0, -1)
            found.ladders.append(
                tuple(Change(Kind.REPLICAS, _dear(Kind.REPLICAS, whole, of), task=name, count=of) for of in counts)
            )


def _dear(kind: Kind, whole: int, left: int) -> int:
    return COSTS[kind] + -(-COSTS[kind] * (whole - left) // whole)


def _other_nodes(found: _Offered, offers: Offers) -> None:
    pods = [(each.get("template") or {}).get("spec") or {} for each in _tasks(found.scene.manifest)]
    if any(pod.get("nodeSelector") or (pod.get("affinity") or {}).get("nodeAffinity") for pod in pods):
        found.one(Kind.ANY_NODE)
    for taint in _named(offers.node_taints):
        if any(tolerated((taint,), by=_tolerations(pod)) is not None for pod in pods):
            found.one(Kind.TOLERATE_NODE, to=f"{taint.key}:{taint.effect}")


def _other_clusters(found: _Offered, offers: Offers) -> None:
    policy = found.scene.policy
    for taint in _named(each for each in offers.taints if tolerated((each,), by=policy.tolerations) is not None):
        found.one(Kind.TOLERATE_CLUSTER, to=f"{taint.key}:{taint.effect}")
    if policy.affinities:
        found.one(Kind.ANY_CLUSTER)
    if policy.spread:
        found.one(Kind.NO_SPREAD)
    if policy.replicas.strategy is not Strategy.AGGREGATED and _replicas(_tasks(found.scene.manifest)) > 1:
        found.one(Kind.DIVIDE)


def _named(taints: Iterable[Taint]) -> list[Taint]:
    by_name = {(each.key, each.effect): each for each in taints if each.effect in ("NoSchedule", "NoExecute")}
    return [by_name[name] for name in sorted(by_name)][:MOST_TAINTS]


def _tolerations(pod: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.get("key") or "", each.get("operator") or "Equal", each.get("value") or "", each.get("effect") or "")
        for each in pod.get("tolerations") or []
    )
