"""What a member's scheduler remembers of pods, and a hub of Jobs: resident bytes of a process that reads a list of them
(design.md 12).

A process of its own reads so many pod documents through the agent's projection into an informer's store, and folds
them into inventory and gangs, as the agent does when it starts. Pods are those of Jobs of a hundred pods from a handful of
templates; most run on one of a thousand nodes, the others wait. Its programs count too, and so does what reading the list
takes for a moment: the peak is held against the limit. The hub's process reads Jobs that run, each with binding and Work, into
its informers' stores and the ledger, beside a hundred clusters of a thousand nodes, and gathers one snapshot.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator

import orjson

from apis.vectors import ResourceVector
from benchmarks.harness import Row, cost, read_rows
from machinery.informer import Change
from machinery.port import Document
from machinery.projections import Listing, Store
from member_agent.inventory import Inventory
from member_agent.scheduling.snapshot import Gangs
from member_agent.views import NodeView, PodView, Projector

NAME = "memory"
MIB = 1 << 20
LIMITS = {100_000: 600 * MIB, 1_000_000: 2048 * MIB}
"""Pods and resident bytes (issue: 100,000 within 600 MiB, 1,000,000 within 2 GiB)."""
CLUSTERS, HUB_LIMIT = 100, 1 << 30
"""Members of the hub, and resident bytes at 100,000 live Jobs."""
LIVE_JOBS = 100_000
GANG, NODES, TEMPLATES = 100, 1000, 24
RUNNING = 0.9


# --- documents -------------------------------------------------------------------------------------------------------


def document(number: int, *, of: int) -> Document:
    """One pod as an API server sends it, with what the projection leaves out."""
    job, index = divmod(number, GANG)
    name = f"train-{job:06}-work-{index}"
    runs = number < RUNNING * of
    return orjson.dumps(
        {
            "metadata": {
                "name": name,
                "namespace": f"team-{job % 40:02}",
                "uid": f"{number:08x}-1c5e-4f0b-9d51-{number:012x}",
                "resourceVersion": str(1_000_000 + number),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "volcano.sh/job-name": f"train-{job:06}",
                    "volcano.sh/job-namespace": f"team-{job % 40:02}",
                    "volcano.sh/queue-name": f"queue-{job % 12}",
                    "volcano.sh/task-spec": "work",
                    "volcano.sh/task-index": str(index),
                },
                "annotations": {
                    "scheduling.k8s.io/group-name": f"train-{job:06}",
                    "volcano.sh/task-spec": "work",
                    "volcano.sh/job-version": "0",
                },
                "ownerReferences": [
                    {
                        "kind": "Job",
                        "name": f"train-{job:06}",
                        "uid": f"{job:08x}-6b0e-4f0b-9d51-{job:012x}",
                        "controller": True,
                    }
                ],
                "managedFields": [{"manager": "agent", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": _spec(job % TEMPLATES) | ({"nodeName": f"node-{number % NODES:04}"} if runs else {}),
            "status": _status(index) if runs else {"phase": "Pending"},
        }
    )


def _spec(template: int) -> dict[str, object]:
    container = {
        "name": "main",
        "image": f"registry.example/train:{template}",
        "command": ["sh", "-c", "exec train --steps 100000"],
        "env": [{"name": f"SETTING_{at}", "value": "x" * 20} for at in range(10)],
        "resources": {"requests": {"cpu": f"{100 + 50 * (template % 8)}m", "memory": f"{1 + template % 3}Gi"}},
    }
    return {
        "schedulerName": "volcano",
        "restartPolicy": "OnFailure",
        "priority": 0,
        "containers": [container],
        "nodeSelector": {"zone": "abc"[template % 3]},
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
    }


def _status(index: int) -> dict[str, object]:
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": index % 2,
                "state": {"running": {"startedAt": "2026-01-01T00:01:00Z"}},
            }
        ],
    }


def _node(number: int) -> NodeView:
    amounts = ResourceVector({"cpu": 10_000_000, "memory": 10_000 * (1 << 30) * 1000, "pods": 10_000_000})
    labels = {"zone": "abc"[number % 3], "kubernetes.io/hostname": f"node-{number:04}"}
    return NodeView(f"node-{number:04}", f"uid-{number}", "1", labels, (), False, True, "boot", amounts)


# --- measuring -------------------------------------------------------------------------------------------------------


def read(pods: int) -> None:
    """Be the agent that starts beside so many pods; prints what it holds then."""
    inventory = Inventory()
    gangs = Gangs(inventory, scheduler="volcano")
    for number in range(NODES):
        node = _node(number)
        inventory.node_changed(Change(("", node.name), None, node))
    _ = inventory.room
    store = Store(Projector().pod, unreadable=lambda key, why: sys.exit(f"pod {key} cannot be read: {why}"))
    listing = Listing[PodView]()
    for each in documents(pods):
        store.keep(listing, each)
    for change in store.replace(listing, version=str(2_000_000 + pods)):
        inventory.pod_changed(change)
        gangs.pod_changed(change)
    if len(store.objects) != pods or len(inventory.held()) != int(RUNNING * pods):
        sys.exit(f"{len(store.objects)} pods are known and {len(inventory.held())} hold room: not what was listed")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    bound = LIMITS.get(pods, max(LIMITS.values()) * pods // max(LIMITS))
    print(cost(NAME, f"{pods} pods read, held in stores, inventory and gangs", ours=peak, bound=bound, unit="bytes").line())


def read_hub(jobs: int) -> None:
    """Be the hub's leader that starts beside so many live Jobs; prints what it holds then."""
    from benchmarks import hub_jobs

    stores = hub_jobs.read(jobs, clusters=CLUSTERS)
    found = stores.snapshot([(job.namespace, job.name) for job in list(stores.jobs.values())[:100]], now=0.0)
    if sum(len(member.promised) for member in found.members) != jobs:
        sys.exit("not every Job is in the ledger")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    bound = HUB_LIMIT if jobs <= LIVE_JOBS else HUB_LIMIT * jobs // LIVE_JOBS
    print(cost(NAME, f"hub: {jobs} live Jobs, {CLUSTERS} clusters", ours=peak, bound=bound, unit="bytes").line())


def documents(pods: int) -> Iterator[Document]:
    """One at a time: the bytes are dropped as they are read."""
    return (document(number, of=pods) for number in range(pods))


def measure(count: int, *, what: str = "--read") -> Row:
    """In a process of its own: memory that another case used would count otherwise."""
    command = [sys.executable, "-m", f"benchmarks.{NAME}", what, str(count)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    (row,) = read_rows(output.splitlines())
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, nargs="*", default=sorted(LIMITS), help="how many there are, one case each")
    parser.add_argument("--jobs", type=int, nargs="*", default=[LIVE_JOBS], help="how many the hub has, one case each")
    parser.add_argument("--read-hub", type=int, help="be the hub that is measured")
    parser.add_argument("--read", type=int, help="be the process that is measured")
    asked = parser.parse_args()
    if asked.read is not None:
        read(asked.read)
        return 0
    if asked.read_hub is not None:
        read_hub(asked.read_hub)
        return 0
    for pods in asked.pods:
        print(measure(pods).line(), flush=True)
    for jobs in asked.jobs:
        print(measure(jobs, what="--read-hub").line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
