"""Jobs of several tasks, and what is made of them, for tests of children, groups and plugins."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import orjson

from apis import keys, kinds, naming
from apis.runs import RunRecord, TaskSlice, encode
from member_agent.jobs import children
from member_agent.jobs.children import KeyPair, Moulds
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.plugins import BUILT_IN, Registry
from member_agent.views import JobView, Projector

Doc = dict[str, Any]

UID = "0b7c5d1e-job"
KEYS = KeyPair(private="PRIVATE\n", public="ssh-rsa PUBLIC\n")


def container(name: str = "main", **more: Any) -> Doc:
    return {"name": name, "image": "busybox:1", **more}


def task(name: str, replicas: int = 1, *, containers: list[Doc] | None = None, pod: Doc | None = None, **more: Any) -> Doc:
    """`pod` is merged into the template's spec."""
    spec = {"restartPolicy": "Never", "containers": containers or [container()], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(*tasks: Doc, name: str = "train", plugins: Mapping[str, list[str]] | None = None, **spec: Any) -> Doc:
    """A Job as an API server serves it."""
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "lab", "uid": UID},
        "spec": {"queue": "default", "tasks": list(tasks), **({"plugins": dict(plugins)} if plugins else {}), **spec},
    }


def marked(manifest: Doc, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Doc:
    """The same Job with labels and annotations."""
    found = copy.deepcopy(manifest)
    found["metadata"] |= {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return found


def part(manifest: Doc, *, epoch: int = 1, tasks: Mapping[str, tuple[int, int, int]] | None = None) -> Doc:
    """The part of a Job that one cluster runs: `tasks` are replicas here, first index, replicas in all."""
    found = copy.deepcopy(manifest)
    slices = {name: TaskSlice(offset=offset, total=total) for name, (_, offset, total) in (tasks or {}).items()}
    for each in found["spec"]["tasks"]:
        if each["name"] in (tasks or {}):
            each["replicas"] = (tasks or {})[each["name"]][0]
    record = RunRecord(job="hub-uid", epoch=epoch, fence=1, tasks=slices)
    found["metadata"].setdefault("annotations", {})[keys.RUN] = encode(record)
    return found


def view(manifest: Doc, *, version: int = 0, retries: int = 0) -> JobView:
    """The Job as the agent keeps it."""
    meta = {**manifest["metadata"], "resourceVersion": "1", "creationTimestamp": "2025-12-31T23:59:00Z"}
    status = {"version": version, "retryCount": retries}
    return Projector().job(orjson.dumps({**manifest, "metadata": meta, "status": status}))


def orders(seen: JobView) -> list[PodOrder]:
    """Every pod of the Job here, when it was never scaled; none where nobody can read what it is to have."""
    slices = seen.record.tasks if seen.record else {}
    found = []
    for each in seen.gang.tasks if seen.gang is not None else ():
        first = slices[each.name].offset if each.name in slices else 0
        for index in range(first, first + each.replicas):
            found.append(PodOrder(each.name, index, naming.pod_name(seen.name, task=each.name, index=index)))
    return found


def pods(manifest: Doc, *, version: int = 0, retries: int = 0, registry: Registry = BUILT_IN) -> dict[str, Doc]:
    """All pods of a Job by `<task>-<index>`; the manifest must have come through unchanged."""
    before = copy.deepcopy(manifest)
    seen = view(manifest, version=version, retries=retries)
    moulds = Moulds(seen, manifest, scheduler="volcano", registry=registry)
    made = {f"{order.task}-{order.index}": copy.deepcopy(moulds.pod(order)) for order in orders(seen)}
    assert manifest == before
    return made


def objects(manifest: Doc, *, registry: Registry = BUILT_IN) -> dict[tuple[str, str], Doc]:
    """Everything beside pods and group, by kind and name."""
    found = children.objects(view(manifest), manifest, keys=lambda: KEYS, registry=registry)
    return {(each.kind.kind, each.name): each.manifest for each in found}


def env(pod: Doc, index: int = 0, *, field: str = "containers") -> dict[str, str]:
    """Variables of a container; those from elsewhere as `kind/name/key`. No name may stand twice."""
    found: dict[str, str] = {}
    for each in pod["spec"][field][index].get("env", []):
        assert each["name"] not in found
        source = each.get("valueFrom", {}).get("configMapKeyRef")
        found[each["name"]] = f"ConfigMap/{source['name']}/{source['key']}" if source else each["value"]
    return found


def ports(pod: Doc, index: int = 0, *, field: str = "containers") -> list[tuple[str, int]]:
    """Name and number of the ports that a container declares."""
    return [(each.get("name", ""), each["containerPort"]) for each in pod["spec"][field][index].get("ports", [])]


def mounts(pod: Doc, index: int = 0, *, field: str = "containers") -> dict[str, str]:
    """Volume by path."""
    found = pod["spec"][field][index].get("volumeMounts", [])
    assert len({each["mountPath"] for each in found}) == len(found)
    return {each["mountPath"]: each["name"] for each in found}
