"""`fedctl top`: how full clusters and queues are, and which Jobs hold most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from apis import kinds
from apis.vectors import EMPTY, ResourceVector, spoken
from fedctl import exits, tables, views
from fedctl.desk import Desk, every

SHOWN: Final = ("cpu", "memory", "nvidia.com/gpu")
"""Resources that have columns of their own."""
Doc = Mapping[str, Any]


async def clusters(desk: Desk) -> int:
    """Amounts in use of those that there are, and what waits, per member."""
    rows = []
    for document in await every(desk.port, kinds.CLUSTER, namespace=None):
        tree = msgspec.json.decode(document)
        summary = (tree.get("status") or {}).get("resourceSummary") or {}
        whole, used, waiting = (_vector(summary.get(name)) for name in ("allocatable", "allocated", "allocating"))
        nodes = (tree.get("status") or {}).get("nodeSummary") or {}
        rows.append(
            (
                tree["metadata"]["name"],
                f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
                *(_share(name, used=used, whole=whole) for name in SHOWN),
                _amounts(waiting),
            )
        )
    desk.out(tables.text(("NAME", "NODES", "CPU", "MEMORY", "GPU", "WAITING"), sorted(rows)))
    return exits.OK


async def queues(desk: Desk) -> int:
    """Amounts in use of those that a queue may use; fullest first."""
    rows = []
    for document in await every(desk.port, kinds.QUEUE, namespace=None):
        queue = views.read_queue(document)
        used, most = _vector(queue.status.allocated), _vector(queue.spec.capability)
        fullest = max((used.get(name) / most.get(name) for name in most if most.get(name)), default=0.0)
        cells = tuple(_share(name, used=used, whole=most) for name in SHOWN)
        line = (
            queue.metadata.name,
            queue.status.state or "Unknown",
            *cells,
            str(queue.status.running),
            str(queue.status.pending),
        )
        rows.append((-fullest, line))
    desk.out(tables.text(("NAME", "STATE", "CPU", "MEMORY", "GPU", "RUNNING", "PENDING"), [row for _, row in sorted(rows)]))
    return exits.OK


async def jobs(desk: Desk, *, everywhere: bool) -> int:
    """What the pods that run were asked for; largest first, by GPUs, then CPUs."""
    rows = []
    for document in await every(desk.port, kinds.JOB, namespace=None if everywhere else desk.namespace):
        job = views.read_job(document)
        if not job.status.running:
            continue
        held = _held(orjson.loads(document), running=job.status.running, pods=max(1, job.pods))
        name = f"{job.metadata.namespace}/{job.metadata.name}" if everywhere else job.metadata.name
        cells = tuple(spoken(each, milli=held.get(each)) if held.get(each) else "-" for each in SHOWN)
        order = (-held.get(SHOWN[2]), -held.get(SHOWN[0]), name)
        rows.append((order, (name, job.spec.queue, str(job.status.running), *cells)))
    desk.out(tables.text(("NAME", "QUEUE", "PODS", "CPU", "MEMORY", "GPU"), [row for _, row in sorted(rows)]))
    return exits.OK


def _held(tree: Doc, *, running: int, pods: int) -> ResourceVector:
    """What the running pods hold, where a Job has several tasks by their shares of its pods."""
    whole = EMPTY
    for task in (tree.get("spec") or {}).get("tasks") or ():
        one = EMPTY
        for container in task["template"]["spec"].get("containers") or ():
            resources = container.get("resources") or {}
            one = one + _vector({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
        whole = whole + one * task.get("replicas", 1)
    return ResourceVector({name: amount * running // pods for name, amount in whole.items()})


def _vector(quantities: Mapping[str, Any] | None) -> ResourceVector:
    """Amounts; what cannot be read counts as none."""
    try:
        return ResourceVector.from_quantities({name: str(value) for name, value in (quantities or {}).items()})
    except ValueError:
        return EMPTY


def _share(name: str, *, used: ResourceVector, whole: ResourceVector) -> str:
    if not whole.get(name):
        return spoken(name, milli=used.get(name)) if used.get(name) else "-"
    share = 100 * used.get(name) // whole.get(name)
    return f"{spoken(name, milli=used.get(name))}/{spoken(name, milli=whole.get(name))} ({share}%)"


def _amounts(vector: ResourceVector) -> str:
    said = (f"{spoken(name, milli=vector.get(name))} {name}" for name in SHOWN if vector.get(name))
    return ", ".join(said) or "-"
