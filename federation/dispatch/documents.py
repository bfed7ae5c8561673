"""Bodies of bindings and Works (reference/karmada.md 0.1, 5.1, 5.2; protocol.md 1 and 7). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from apis import keys, kinds, naming, runs
from apis.runs import BindingRun, Part, RunRecord, TaskSlice
from federation.dispatch.items import Decide, Governed, Terms
from policies import claims, parts, verdicts
from policies.views import VERDICTS

Tree = dict[str, Any]

PLACEMENT_LIMIT: Final = 1024
"""Bytes of a policy's placement that are copied into a binding; a larger one is only named (protocol.md 7: 4 KiB in all)."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_HUBS_OWN: Final = (LAST_APPLIED, keys.LAST_EPOCH)

LARGEST_WORK: Final = 1 << 20
"""Bytes of a Work (protocol.md 7): etcd takes 1.5 MiB, and status and managed fields come on top."""

_SERVER_FIELDS: Final = (
    "managedFields",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "finalizers",
)


def parse(document: bytes) -> Tree:
    """A document as a tree, to be changed and written back with everything it holds."""
    tree: Tree = msgspec.json.decode(document)
    return tree


def new_binding(item: Decide, *, job: Mapping[str, Any], replicas: int) -> Tree:
    """A ResourceBinding with the decision already in it; `job` is the Job's manifest."""
    namespace, name = item.key
    meta = job["metadata"]
    annotations = _policy_annotations(item.governed)
    spec: Tree = {
        "resource": {
            "apiVersion": kinds.JOB.api_version,
            "kind": kinds.JOB.kind,
            "namespace": namespace,
            "name": name,
            "uid": item.job_uid,
            "resourceVersion": meta.get("resourceVersion", ""),
        },
        "schedulerName": "volcano-federation",
    }
    if item.governed.placement and len(item.governed.placement) <= PLACEMENT_LIMIT:
        spec["placement"] = msgspec.json.decode(item.governed.placement)
    binding: Tree = {
        "apiVersion": kinds.RESOURCE_BINDING.api_version,
        "kind": kinds.RESOURCE_BINDING.kind,
        "metadata": {
            "name": naming.binding_name(name),
            "namespace": namespace,
            "labels": {keys.BINDING_ID: item.job_uid, **_policy_labels(item.governed)},
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": kinds.JOB.api_version,
                    "kind": kinds.JOB.kind,
                    "name": name,
                    "uid": item.job_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": [keys.BINDING_FINALIZER],
        },
        "spec": spec,
    }
    return decided(binding, item=item, replicas=replicas)


def decided(binding: Tree, *, item: Decide, replicas: int) -> Tree:
    """The binding with run, clusters and verdicts of the item; everything else stays."""
    annotations = binding["metadata"].setdefault("annotations", {})
    annotations[keys.RUN] = runs.encode(item.run)
    if item.decision is not None:
        annotations[VERDICTS] = verdicts.encode(item.decision)
    spec = binding.setdefault("spec", {})
    spec["clusters"] = [{"name": name, "replicas": _part_of(item.run, name) or replicas} for name in item.clusters]
    if not spec["clusters"]:
        del spec["clusters"]
    if item.terms.preserves:
        spec["preserveResourcesOnDeletion"] = True
    else:
        spec.pop("preserveResourcesOnDeletion", None)
    return binding


def _part_of(run: BindingRun, cluster: str) -> int:
    """Pods of a part that is not all of the Job, else 0."""
    return sum(each.replicas for each in run.parts[cluster].shares.values())


def _policy_labels(governed: Governed) -> Tree:
    if not governed.id:
        return {}
    return {claims.POLICY_ID if governed.namespace else claims.CLUSTER_POLICY_ID: governed.id}


def _policy_annotations(governed: Governed) -> Tree:
    if not governed.name:
        return {}
    if not governed.namespace:
        return {f"cluster{keys.POLICY_NAME}": governed.name}
    return {keys.POLICY_NAMESPACE: governed.namespace, keys.POLICY_NAME: governed.name}


def run_record(run: BindingRun, *, cluster: str, job: Mapping[str, Any], terms: Terms) -> RunRecord:
    """The run record of one Work: epoch, fence and division from the binding, the rest from what the user asked for."""
    shares = run.parts[cluster].shares
    return RunRecord(
        job=run.job,
        epoch=run.epoch,
        fence=run.parts[cluster].fence,
        retries=run.retries,
        exclusive=terms.exclusive,
        failover=terms.failover,
        fence_after=terms.fence_after,
        max_run_time=terms.max_run_time,
        tasks={name: TaskSlice(offset=each.offset, total=each.total) for name, each in shares.items()}
        or {name: TaskSlice(offset=0, total=replicas) for name, replicas in _tasks(job)},
    )


def _tasks(job: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for index, task in enumerate(job.get("spec", {}).get("tasks") or ()):
        yield task.get("name") or f"default{index}", task.get("replicas") or 0


def replicas(job: Mapping[str, Any]) -> int:
    """Pods of all tasks."""
    return sum(count for _, count in _tasks(job))


def share(job: Mapping[str, Any], *, run: BindingRun, cluster: str) -> Mapping[str, Any]:
    """The Job's manifest as a part runs it; KeyError where the Job has a task that was not divided."""
    part = parts.recorded(cluster, run.parts[cluster])
    return job if part is None else parts.revised(job, part, replicas=replicas(job))


def work(record: RunRecord, *, cluster: str, job: Mapping[str, Any]) -> Tree:
    """A Work with the hub's finalizer, made from the Job as a quorum read returned it."""
    meta = job["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    return {
        "apiVersion": kinds.WORK.api_version,
        "kind": kinds.WORK.kind,
        "metadata": {
            "name": naming.work_name(name, namespace=namespace),
            "namespace": keys.execution_namespace(cluster),
            "labels": {keys.WORK_ID: record.job},
            "annotations": {
                keys.RUN: runs.encode(record),
                keys.BINDING_NAMESPACE: namespace,
                keys.BINDING_NAME: naming.binding_name(name),
                keys.TEMPLATE_UID: record.job,
                keys.JOB_GENERATION: str(meta.get("generation", 0)),
            },
            "finalizers": [keys.WORK_FINALIZER],
        },
        "spec": {"workload": {"manifests": [manifest(job)]}},
    }


def work_size(job: Mapping[str, Any], *, terms: Terms) -> int:
    """Bytes of the Job's Work in a cluster with the longest name there is."""
    name = "c" * 63
    part = Part(cluster_uid="", fence=1 << 31)
    run = BindingRun(job=job["metadata"].get("uid", ""), epoch=1 << 31, retries=1 << 31, parts={name: part})
    return len(msgspec.json.encode(work(run_record(run, cluster=name, job=job, terms=terms), cluster=name, job=job)))


def identity(key: tuple[str, str]) -> Tree:
    """What is left of a manifest when its run has ended and its end is recorded (protocol.md 7): no order, only a name."""
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": {"namespace": key[0], "name": key[1]}}


def manifest(job: Mapping[str, Any]) -> Tree:
    """What the member gets of a Job: without what the hub's API server filled in, without status, without a ttl of its own
    (the hub enforces it), and without the copy of itself that kubectl leaves."""
    metadata = {name: value for name, value in job["metadata"].items() if name not in _SERVER_FIELDS}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in _HUBS_OWN}
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    spec = {name: value for name, value in (job.get("spec") or {}).items() if name != "ttlSecondsAfterFinished"}
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": metadata, "spec": spec}
