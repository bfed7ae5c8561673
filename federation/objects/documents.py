"""Bodies of bindings and Works of objects (reference/karmada.md 0.1, 5.1, 5.2). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming
from apis.kinds import Kind
from federation.objects.views import Tree, digest
from policies import claims
from policies.dependencies import Reference
from policies.interpreting import Component
from policies.placements import PolicyView
from policies.shapes import Gang

PLACEMENT_LIMIT: Final = 1024
"""Bytes of a policy's placement that are copied into a binding."""
DEPENDENCIES_LIMIT: Final = 32
"""Objects named in a binding because its own refers to them."""
LONGEST_NAME: Final = 253

_OWN_METADATA: Final = ("name", "namespace", "labels", "annotations")
_HUBS_NOTES: Final = ("kubectl.kubernetes.io/", keys.GROUP)
_MARKS: Final = (
    claims.POLICY_ID,
    claims.CLUSTER_POLICY_ID,
    claims.CLUSTER_POLICY_NAME,
    keys.POLICY_NAMESPACE,
    keys.POLICY_NAME,
    "kubernetes.io/metadata.name",
)
_OF_A_CONTROLLER: Final = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
_ALSO_COMPANIONS: Final = frozenset(
    kind.kind
    for kind in (
        kinds.NAMESPACE,
        kinds.QUEUE,
        kinds.PRIORITY_CLASS,
        kinds.CONFIGMAP,
        kinds.SECRET,
        kinds.CLAIM,
        kinds.SERVICE_ACCOUNT,
    )
)
"""Kinds that Jobs refer to: a Work of theirs may be there already, by the name that is the usual one."""


def binding_kind(kind: Kind) -> Kind:
    """Where the decision about an object is kept."""
    return kinds.RESOURCE_BINDING if kind.namespaced else kinds.CLUSTER_RESOURCE_BINDING


def binding_name(reference: Reference, kind: Kind) -> str:
    """The same for the same object."""
    return naming.binding_name(reference.name, kind=kind)


def work_name(reference: Reference, kind: Kind) -> str:
    """The same in every execution namespace."""
    usual = naming.work_name(reference.name, namespace=reference.namespace, kind=kind)
    if kind.kind in _ALSO_COMPANIONS:
        usual = f"{reference.name}-{naming.fnv32a(f'{reference.namespace}-{reference.name}-{kind.kind}-by-policy'):08x}"
    return usual[-LONGEST_NAME:].lstrip("-.")


def manifest(source: Mapping[str, Any], *, conflict: claims.Conflict) -> Tree:
    """What a member gets of an object: without what the hub's API server and controllers filled in, without status, without a
    time to live of its own, and without the policy's marks."""
    meta = {name: value for name, value in source["metadata"].items() if name in _OWN_METADATA}
    notes = {
        name: value
        for name, value in (meta.pop("annotations", None) or {}).items()
        if not name.startswith(_HUBS_NOTES) and name not in _MARKS
    }
    notes.setdefault(claims.CONFLICT, conflict.lower())
    labels = {name: value for name, value in (meta.pop("labels", None) or {}).items() if name not in _MARKS}
    tree = {name: value for name, value in source.items() if name not in ("metadata", "status")}
    tree["metadata"] = {**meta, "annotations": notes, **({"labels": labels} if labels else {})}
    return _job(tree) if source.get("kind") == kinds.BATCH_JOB.kind else tree


def _job(tree: Tree) -> Tree:
    """Whatever is called Job: the hub enforces its time to live; a batch/v1 Job is the member's own again."""
    dropped = ("ttlSecondsAfterFinished", "managedBy", "selector", "manualSelector")
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in dropped}
    template = spec.get("template")
    if isinstance(template, Mapping) and isinstance(template.get("metadata"), Mapping):
        labels = {
            name: value for name, value in (template["metadata"].get("labels") or {}).items() if name not in _OF_A_CONTROLLER
        }
        spec["template"] = {**template, "metadata": {**template["metadata"], "labels": labels}}
    return {**tree, "spec": spec}


def work_spec(made: Mapping[str, Any], *, suspended: bool, preserve: bool) -> Tree:
    """`spec` of a Work."""
    spec: Tree = {"workload": {"manifests": [made]}}
    if suspended:
        spec["suspendDispatching"] = True
    if preserve:
        spec["preserveResourcesOnDeletion"] = True
    return spec


def demand(components: Sequence[Component], gang: Gang, *, replicas: int, queue: str) -> str:
    """What the pods of a part ask for, for the hub's ledger: components with what one pod of each requests."""
    shapes = {task.name: task.shape for task in gang.tasks}
    single = len(components) == 1
    tasks = [
        {
            "name": each.name,
            "replicas": replicas if single and replicas else each.replicas,
            "template": {"spec": {"containers": [{"resources": {"requests": _requests(shapes[each.name].requests)}}]}},
        }
        for each in components
        if each.replicas and each.name in shapes
    ]
    return msgspec.json.encode({"queue": queue, "tasks": tasks}).decode()


def _requests(amounts: Mapping[str, int]) -> Tree:
    """Quantities of one pod, in thousandths; pods are counted anyway."""
    return {name: f"{amount}m" for name, amount in amounts.items() if name != "pods" and amount}


@dataclass(frozen=True, slots=True)
class Marked:
    """Annotations of a Work beside those of every Work."""

    overrides: Mapping[str, str]
    demand: str = ""


def work(reference: Reference, kind: Kind, *, cluster: str, uid: str, spec: Mapping[str, Any], marked: Marked) -> Tree:
    """A Work with the hub's finalizer and no run."""
    return {
        "apiVersion": kinds.WORK.api_version,
        "kind": kinds.WORK.kind,
        "metadata": {
            "name": work_name(reference, kind),
            "namespace": keys.execution_namespace(cluster),
            "labels": {keys.OBJECT: "true", keys.WORK_ID: uid},
            "annotations": {
                keys.SOURCE_DIGEST: digest([spec, marked.demand]),
                keys.BINDING_NAMESPACE: reference.namespace,
                keys.BINDING_NAME: binding_name(reference, kind),
                keys.TEMPLATE_UID: uid,
                **marked.overrides,
                **({keys.DEMAND: marked.demand} if marked.demand else {}),
            },
            "finalizers": [keys.WORK_FINALIZER],
        },
        "spec": dict(spec),
    }


def binding(
    reference: Reference,
    kind: Kind,
    *,
    uid: str,
    version: str,
    policy: PolicyView,
    targets: Mapping[str, int],
    pods: int,
    refers_to: Sequence[Reference],
) -> Tree:
    """A binding with the decision in it. `targets`: replicas by cluster, 0 for what is not divided."""
    labels, notes = claims.marks(policy)
    where = binding_kind(kind)
    spec: Tree = {
        "resource": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": reference.name,
            "uid": uid,
            "resourceVersion": version,
            **({"namespace": reference.namespace} if reference.namespace else {}),
        },
        "schedulerName": "volcano-federation",
        "clusters": [{"name": name, **({"replicas": each} if each else {})} for name, each in sorted(targets.items())],
        "conflictResolution": "Overwrite" if policy.overwrites else "Abort",
        "propagateDeps": policy.carries,
        "preserveResourcesOnDeletion": bool(policy.preserves),
        **({"replicas": pods} if pods else {}),
        **_suspension(policy),
    }
    if policy.placement and len(policy.placement) <= PLACEMENT_LIMIT:
        spec["placement"] = msgspec.json.decode(policy.placement)
    if refers_to:
        named = [{"apiVersion": r.api_version, "kind": r.kind, "namespace": r.namespace, "name": r.name} for r in refers_to]
        notes = {**notes, keys.DEPENDENCIES: msgspec.json.encode(named[:DEPENDENCIES_LIMIT]).decode()}
    return {
        "apiVersion": where.api_version,
        "kind": where.kind,
        "metadata": {
            "name": binding_name(reference, kind),
            **({"namespace": reference.namespace} if reference.namespace else {}),
            "labels": {keys.OBJECT: "true", keys.BINDING_ID: uid, **labels},
            "annotations": dict(notes),
            "ownerReferences": [
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "name": reference.name,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": [keys.BINDING_FINALIZER],
        },
        "spec": spec,
    }


def _suspension(policy: PolicyView) -> Tree:
    if policy.suspended:
        return {"suspension": {"dispatching": True}}
    if policy.suspended_on:
        return {"suspension": {"dispatchingOnClusters": {"clusterNames": sorted(policy.suspended_on)}}}
    return {}


def rebound(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree | None:
    """The merge patch that makes a binding say what it should; None when it does. What others own stays: whether it may be
    scheduled, and when it was asked to be placed anew."""
    there = known.get("spec") or {}
    changes: Tree = {}
    spec = {name: value for name, value in wanted["spec"].items() if name not in ("resource", "suspension")}
    different = {name: value for name, value in spec.items() if there.get(name) != value and (value or there.get(name))}
    gone = {name: None for name in ("replicas", "placement") if name in there and name not in spec}
    dispatching = wanted["spec"].get("suspension") or {}
    kept = there.get("suspension") or {}
    own = {name: kept.get(name) for name in ("dispatching", "dispatchingOnClusters")}
    asked = {name: dispatching.get(name) for name in own}
    if own != asked:
        different["suspension"] = asked
    if different or gone:
        different["resource"] = wanted["spec"]["resource"]
        changes["spec"] = {**different, **gone}
    meta, marks = known.get("metadata") or {}, wanted["metadata"]
    metadata: Tree = {}
    for field, names in (
        ("labels", (claims.POLICY_ID, claims.CLUSTER_POLICY_ID)),
        (
            "annotations",
            (keys.POLICY_NAMESPACE, keys.POLICY_NAME, claims.CLUSTER_POLICY_NAME, keys.DEPENDENCIES, keys.APPLIED_POLICY),
        ),
    ):
        have, want = meta.get(field) or {}, marks.get(field) or {}
        moved = {name: want.get(name) for name in names if have.get(name) != want.get(name)}
        if moved:
            metadata[field] = moved
    if metadata:
        changes["metadata"] = metadata
    if not changes:
        return None
    changes.setdefault("metadata", {})["resourceVersion"] = meta.get("resourceVersion", "")
    return changes
