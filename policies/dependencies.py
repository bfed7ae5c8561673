"""What an object refers to, and where that must go because of it (reference/karmada.md 1.6, protocol.md 7).

Namespace, Queue and PriorityClass that a Job names travel with it whatever its policy says; the rest where `propagateDeps` asks
for it. Several objects may refer to one: it goes once to each cluster that any of them goes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from policies import claims
from policies.claims import Conflict
from policies.placements import PolicyView
from policies.pod_places import pods_of

Tree = Mapping[str, Any]

PRIVILEGED: Final = ("system-node-critical", "system-cluster-critical")
"""PriorityClasses that every cluster has of its own."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object that another refers to. `namespace` is "" for kinds without one."""

    api_version: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class References:
    """What one object refers to, each once and in order. `always` travels with it; `optional` is named in a way that the object
    starts without it, so that nothing waits for it."""

    always: tuple[Reference, ...] = ()
    asked: tuple[Reference, ...] = ()
    optional: frozenset[Reference] = frozenset()


def references(manifest: Tree) -> References:
    """What a workload refers to. Claims that a controller makes from the object itself are its own, and not named here."""
    namespace = (manifest.get("metadata") or {}).get("namespace", "")
    found: dict[Reference, bool] = {}
    for kind, name, optional in _named(manifest):
        if name:
            reference = Reference(kind.api_version, kind.kind, namespace if kind.namespaced else "", name)
            found[reference] = found.get(reference, True) and optional
    always = [] if not namespace else [Reference(kinds.NAMESPACE.api_version, kinds.NAMESPACE.kind, "", namespace)]
    always += [each for each in sorted(found) if each.kind in (kinds.QUEUE.kind, kinds.PRIORITY_CLASS.kind)]
    asked = tuple(each for each in sorted(found) if each not in always)
    return References(tuple(always), asked, frozenset(each for each, optional in found.items() if optional))


Named = tuple[kinds.Kind, str, bool]
"""Kind, name, and whether the object starts without it."""


def _named(manifest: Tree) -> Iterator[Named]:
    if (manifest.get("apiVersion"), manifest.get("kind")) == (kinds.JOB.api_version, kinds.JOB.kind):
        yield from _job(manifest.get("spec") or {})
    for pod in pods_of(manifest):
        yield from _pod(pod.spec)


def _job(spec: Tree) -> Iterator[Named]:
    yield kinds.QUEUE, spec.get("queue") or keys.DEFAULT_QUEUE, False
    yield kinds.PRIORITY_CLASS, _class(spec), False
    for volume in _dicts(spec.get("volumes")):
        if volume.get("volumeClaim") is None:
            yield kinds.CLAIM, volume.get("volumeClaimName") or "", False


def _class(spec: Tree) -> str:
    name = spec.get("priorityClassName") or ""
    return "" if name in PRIVILEGED else str(name)


def _pod(spec: Tree) -> Iterator[Named]:
    yield kinds.PRIORITY_CLASS, _class(spec), False
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or ""
    yield kinds.SERVICE_ACCOUNT, account if account != "default" else "", False
    for secret in _dicts(spec.get("imagePullSecrets")):
        yield kinds.SECRET, secret.get("name") or "", True  # a pod whose image needs no secret starts without it
    for volume in _dicts(spec.get("volumes")):
        yield from _volume(volume)
    for field in ("initContainers", "containers"):
        for container in _dicts(spec.get(field)):
            yield from _environment(container)


def _volume(volume: Tree) -> Iterator[Named]:
    yield from _source(kinds.CONFIGMAP, volume.get("configMap"))
    yield from _source(kinds.SECRET, volume.get("secret"), key="secretName")
    yield from _source(kinds.CLAIM, volume.get("persistentVolumeClaim"), key="claimName")
    for source in _dicts((volume.get("projected") or {}).get("sources")):
        yield from _source(kinds.CONFIGMAP, source.get("configMap"))
        yield from _source(kinds.SECRET, source.get("secret"))
    yield from _source(kinds.SECRET, (volume.get("csi") or {}).get("nodePublishSecretRef"))


def _environment(container: Tree) -> Iterator[Named]:
    for source in _dicts(container.get("envFrom")):
        yield from _source(kinds.CONFIGMAP, source.get("configMapRef"))
        yield from _source(kinds.SECRET, source.get("secretRef"))
    for variable in _dicts(container.get("env")):
        value = variable.get("valueFrom") or {}
        yield from _source(kinds.CONFIGMAP, value.get("configMapKeyRef"))
        yield from _source(kinds.SECRET, value.get("secretKeyRef"))


def _source(kind: kinds.Kind, source: Any, *, key: str = "name") -> Iterator[Named]:
    if isinstance(source, Mapping):
        yield kind, source.get(key) or "", bool(source.get("optional"))


def _dicts(listed: Any) -> list[Tree]:
    return [each for each in listed or [] if isinstance(each, Mapping)]


# --- where they go ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Parent:
    """An object that goes to clusters, what it refers to, and the policy that governs it."""

    clusters: frozenset[str]
    references: References
    policy: PolicyView


@dataclass(frozen=True, slots=True)
class Companion:
    """Where an object goes because others refer to it, and how. `disagree`: their policies want different things, the one that
    overwrites or preserves decides. `users` counts the parents by cluster."""

    users: Mapping[str, int]
    conflict: Conflict
    preserve: bool
    disagree: bool = False

    @property
    def clusters(self) -> tuple[str, ...]:
        """By name."""
        return tuple(sorted(self.users))


def companions(parents: Iterable[Parent]) -> dict[Reference, Companion]:
    """Everything that must travel, by reference: counted over all parents, so that it stays until the last one has gone."""
    users: dict[Reference, dict[str, int]] = {}
    policies: dict[Reference, list[PolicyView]] = {}
    for parent in parents:
        wanted: Sequence[Reference] = parent.references.always
        if parent.policy.carries:
            wanted = (*wanted, *parent.references.asked)
        for reference in wanted if parent.clusters else ():
            counts = users.setdefault(reference, {})
            for cluster in parent.clusters:
                counts[cluster] = counts.get(cluster, 0) + 1
            policies.setdefault(reference, []).append(parent.policy)
    found = {}
    for reference in sorted(users):
        shared = claims.carried(policies[reference])
        found[reference] = Companion(users[reference], shared.conflict, shared.preserve, shared.disagree)
    return found
