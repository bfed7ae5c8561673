"""Live Jobs as the hub's API server sends them, with binding and Work, and what the hub's dispatch keeps of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson

from apis import keys, kinds, naming, runs
from apis.kinds import Kind
from apis.runs import BindingRun, Part, RunRecord, TaskSlice
from benchmarks.federations import TEAMS, Raised, Shelves, cluster_name, lease, make_member, make_queues
from benchmarks.jobs import typed
from federation.dispatch.stores import Stores
from machinery.informer import Change
from machinery.port import Document
from machinery.projections import Listing, Store
from policies.views import VERDICTS, Projections

TEMPLATES, NODES = 24, 1000
Doc = dict[str, Any]


def job(number: int) -> Doc:
    """A Job that runs, from one of a handful of templates, with what the projection leaves out."""
    template = number % TEMPLATES
    container = {
        "name": "main",
        "image": f"registry.example/train:{template}",
        "command": ["sh", "-c", "exec train --steps 100000"],
        "env": [{"name": f"SETTING_{at}", "value": "x" * 20} for at in range(10)],
        "resources": {"requests": {"cpu": f"{100 + 50 * (template % 8)}m", "memory": f"{1 + template % 3}Gi"}},
    }
    pods = 4 + template
    task = {"name": "work", "replicas": pods, "minAvailable": pods, "template": {"spec": {"containers": [container]}}}
    return {
        **typed(kinds.JOB),
        "metadata": {
            **_identity(number, f"train-{number:06}", f"team-{number % 40:02}", "a"),
            "generation": 1,
            "labels": {"team": f"team-{number % 40:02}", "stage": "production", "run": f"run-{number:06}"},
            "annotations": {keys.PROFILE: "cost-first"},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"minAvailable": pods, "queue": f"d{number % 10}-t{number % TEAMS}", "tasks": [task]},
    }


def status(number: int) -> Doc:
    """As folded: it runs."""
    pods = 4 + number % TEMPLATES
    state = {"phase": "Running", "message": f"{_cluster(number)}: Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    tasks = {"work": {"phase": {"Running": pods}}}
    return {"state": state, "minAvailable": pods, "running": pods, "taskStatusCount": tasks}


def documents(number: int) -> tuple[tuple[Kind, Document], ...]:
    """The Job, its binding and its Work."""
    body = job(number)
    name, namespace, uid = body["metadata"]["name"], body["metadata"]["namespace"], body["metadata"]["uid"]
    cluster, bound = _cluster(number), naming.binding_name(name)
    run = BindingRun(job=uid, epoch=1, parts={cluster: Part(cluster_uid=f"uid-of-{cluster}", fence=1)})
    record = RunRecord(job=uid, epoch=1, fence=1, tasks={"work": TaskSlice(0, 4)})
    considered = [{"cluster": cluster_name(at), "scores": {"balance": 80}, "total": 80} for at in range(5)]
    told = {"outcome": "Placed", "reason": "Placed", "message": f"{cluster} is the best of 90", "clusters": considered}
    notes = {keys.RUN: runs.encode(run), VERDICTS: orjson.dumps(told).decode()}
    binding = {
        "metadata": {**_identity(number, bound, namespace, "b"), "annotations": notes},
        "spec": {"resource": {"name": name, "uid": uid}, "clusters": [{"name": cluster}]},
    }
    pointers = {keys.BINDING_NAMESPACE: namespace, keys.BINDING_NAME: bound, keys.RUN: runs.encode(record)}
    where = keys.execution_namespace(cluster)
    work = {
        "metadata": {**_identity(number, naming.work_name(name, namespace=namespace), where, "c"), "annotations": pointers},
        "spec": {"workload": {"manifests": [body]}},
        "status": {"conditions": [{"type": "Applied", "status": "True"}], "manifestStatuses": [{"status": status(number)}]},
    }
    of = (kinds.JOB, kinds.RESOURCE_BINDING, kinds.WORK)
    return tuple(zip(of, map(orjson.dumps, ({**body, "status": status(number)}, binding, work)), strict=True))


def _identity(number: int, name: str, namespace: str, letter: str) -> Doc:
    uid = f"{letter}{number:07x}-6b0e-4f0b-9d51-{number:012x}"
    stamp = "2026-01-01T00:00:00Z"
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(10**6 + number),
        "creationTimestamp": stamp,
    }


def _cluster(number: int) -> str:
    return cluster_name(number % 100)


def read(jobs: int, *, clusters: int) -> Stores:
    """The stores of a leader that starts beside so many live Jobs; members have subtracted none of them yet."""
    shelves, projections = Shelves(), Projections()
    stores = Stores(shelves, projections=projections, fences=Raised())  # type: ignore[arg-type]
    numbers, queues = np.random.default_rng(1), make_queues()
    for at in range(clusters):
        member = make_member(at, nodes=NODES, numbers=numbers, queues=queues)
        shelves.by_kind[kinds.CLUSTER.name].put(member.cluster)
        shelves.by_kind[kinds.LEASE.name].put(lease(member.cluster.name))
        shelves.by_kind[kinds.CLUSTER_CAPACITY.name].put(member.capacity)
    projects = {kinds.JOB: projections.job, kinds.RESOURCE_BINDING: projections.binding, kinds.WORK: projections.work}
    kept = {kind: Store(project, unreadable=_unreadable) for kind, project in projects.items()}  # type: ignore[type-var]
    listings = {kind: Listing[Any]() for kind in kept}
    for number in range(jobs):
        for kind, document in documents(number):
            kept[kind].keep(listings[kind], document)
    for kind, store in kept.items():
        changes = store.replace(listings[kind], version=str(2 * 10**6))
        shelves.by_kind[kind.name].objects = store.objects
        _tell(stores, kind, changes)
    return stores


def _tell(stores: Stores, kind: Kind, changes: Iterable[Change[Any]]) -> None:
    for change in changes:
        if kind == kinds.RESOURCE_BINDING:
            stores.saw_binding(change)
        elif kind == kinds.WORK:
            stores.saw_work(change, now=0.0)


def _unreadable(key: object, why: str) -> None:
    sys.exit(f"{key} cannot be read: {why}")
