"""A Volcano as it looks from outside: what it does to Jobs, PodGroups, pods and Commands (reference/volcano.md 1.6, 1.7).

It is an actor of the simulated world, so it can be stopped and killed like our own programs. It knows upstream's fields and
no others: whatever else is in a Job's spec or status is gone once it has written the Job. Its election Leases are renewed
while it runs.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from typing import Any, Final

import orjson

from apis import keys, kinds, naming
from machinery import errors
from machinery.clock import Clock, micro_stamp, stamp
from machinery.port import PatchType, Port, Preconditions
from simulator.programs import Programs, Surroundings, federation

log = logging.getLogger(__name__)

Doc = dict[str, Any]

NAMESPACE: Final = "volcano-system"
LEASES: Final = ("vc-controller-manager", "vc-scheduler")
TICK: Final = 0.5
"""Seconds between its looks at everything."""
RENEW: Final = 2.0
"""Seconds between renewals of its Leases."""

SPEC: Final = frozenset(
    {
        *("schedulerName", "minAvailable", "volumes", "tasks", "policies", "plugins", "runningEstimate", "queue", "maxRetry"),
        *("ttlSecondsAfterFinished", "priorityClassName", "minSuccess", "networkTopology"),
    }
)
STATUS: Final = frozenset(
    {
        *("state", "minAvailable", "taskStatusCount", "pending", "running", "succeeded", "failed", "terminating", "unknown"),
        *("version", "retryCount", "runningDuration", "controlledResources", "conditions"),
    }
)
"""The fields that its types have."""
ENDED: Final = ("Completed", "Failed", "Terminated")
KILLS: Final = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
LANDS: Final = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}


async def volcano(at: Surroundings) -> None:
    """The program; until cancelled."""
    assert at.local is not None
    await Volcano(at.local, clock=at.clock).run()


def installed() -> Programs:
    """Our programs of a member, and a Volcano beside them: the actor `volcano-<member>`."""
    return Programs(member={"volcano": volcano, **federation().member})


class Volcano:
    """Controllers and scheduler in one."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._failed: set[str] = set()
        self._renewed = float("-inf")
        self._next = 0

    async def run(self) -> None:
        """Look at everything, again and again."""
        with contextlib.suppress(errors.AlreadyExists):
            await self._port.create(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
        while True:
            try:
                await self._look()
            except errors.ApiError as error:
                log.warning("volcano: %s", error)
            await self._clock.sleep(TICK)

    async def _look(self) -> None:
        if self._clock.boot() - self._renewed >= RENEW:
            self._renewed = self._clock.boot()
            for name in LEASES:
                await self._renew(name)
        for command in await self._all(kinds.COMMAND):
            await self._take(command)
        for job in await self._all(kinds.JOB):
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                await self._sync(job)
        await self._schedule()

    async def _all(self, kind: kinds.Kind) -> list[Doc]:
        return [orjson.loads(document) for document in (await self._port.list(kind)).items]

    async def _renew(self, name: str) -> None:
        spec = {"holderIdentity": "volcano-1", "leaseDurationSeconds": 15, "renewTime": micro_stamp(self._clock.now())}
        try:
            await self._port.patch(kinds.LEASE, name, {"spec": spec}, type=PatchType.MERGE, namespace=NAMESPACE)
        except errors.NotFound:
            await self._port.create(kinds.LEASE, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)

    async def _take(self, command: Doc) -> None:
        """Deleted first, so that it is carried out at most once: an actor killed here has lost it."""
        meta = command["metadata"]
        await self._port.delete(
            kinds.COMMAND, meta["name"], namespace=meta["namespace"], preconditions=Preconditions(uid=meta["uid"])
        )
        self._asked[command["target"]["uid"]] = command["action"]

    # --- one Job -----------------------------------------------------------------------------------------------------

    async def _sync(self, job: Doc) -> None:
        meta = job["metadata"]
        if meta.get("deletionTimestamp"):
            return
        status = dict(job.get("status") or {})
        phase = (status.get("state") or {}).get("phase", "")
        pods = await self._pods(meta)
        action = self._asked.pop(meta["uid"], "") or self._policy(job, pods)
        if not phase:
            await self._begin(job)
        elif action or phase not in ("Pending", "Running"):
            await self._move(job, phase, action, pods)
        else:
            await self._go_on(job, phase, pods)

    async def _pods(self, meta: Doc) -> list[Doc]:
        page = await self._port.list(kinds.POD, namespace=meta["namespace"], labels=f"{keys.JOB_NAME}={meta['name']}")
        found: list[Doc] = [orjson.loads(document) for document in page.items]
        return [pod for pod in found if pod["metadata"]["ownerReferences"][0]["uid"] == meta["uid"]]

    def _policy(self, job: Doc, pods: list[Doc]) -> str:
        """What the Job's policies say to the first failure of a pod."""
        if (job.get("status") or {}).get("state", {}).get("phase") not in ("Pending", "Running"):
            return ""
        for pod in pods:
            if pod["status"].get("phase") == "Failed" and pod["metadata"]["uid"] not in self._failed:
                self._failed.add(pod["metadata"]["uid"])
                rules = job["spec"].get("policies") or []
                return next((rule["action"] for rule in rules if rule.get("event") in ("PodFailed", "*")), "")
        return ""

    async def _begin(self, job: Doc) -> None:
        spec = {name: value for name, value in job["spec"].items() if name in SPEC}
        meta = job["metadata"]
        typed = await self._port.replace(kinds.JOB, meta["name"], {**job, "spec": spec}, namespace=meta["namespace"])
        written: Doc = orjson.loads(typed)
        await self._make_group(written)
        await self._write(written, "Pending", minAvailable=spec.get("minAvailable", 0))

    async def _make_group(self, job: Doc) -> None:
        meta, spec = job["metadata"], job["spec"]
        body = {
            "apiVersion": kinds.POD_GROUP.api_version,
            "kind": kinds.POD_GROUP.kind,
            "metadata": {
                "name": naming.pod_group_name(meta["name"], uid=meta["uid"]),
                "labels": meta.get("labels") or {},
                "annotations": meta.get("annotations") or {},
                "ownerReferences": [_owner(job)],
            },
            "spec": {"minMember": spec.get("minAvailable", 1), "queue": spec.get("queue", "default")},
            "status": {"phase": "Pending"},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self._port.create(kinds.POD_GROUP, body, namespace=meta["namespace"])

    async def _go_on(self, job: Doc, phase: str, pods: list[Doc]) -> None:
        meta, spec = job["metadata"], job["spec"]
        group = naming.pod_group_name(meta["name"], uid=meta["uid"])
        await self._make_group(job)
        found = orjson.loads(await self._port.get(kinds.POD_GROUP, group, namespace=meta["namespace"]))
        if (found.get("status") or {}).get("phase", "Pending") != "Pending":
            await self._make_pods(job, {pod["metadata"]["name"] for pod in pods}, group=group)
        count = Counter(pod["status"].get("phase") for pod in pods if not pod["metadata"].get("deletionTimestamp"))
        replicas = sum(task["replicas"] for task in spec["tasks"])
        least = spec.get("minAvailable", replicas)
        if phase == "Running" and count["Succeeded"] + count["Failed"] == replicas:
            await self._write(job, "Completed" if count["Succeeded"] >= least else "Failed", pods=pods)
        elif phase == "Pending" and count["Running"] + count["Succeeded"] + count["Failed"] >= least:
            await self._write(job, "Running", pods=pods)
        else:
            await self._write(job, phase, pods=pods)

    async def _make_pods(self, job: Doc, there: set[str], *, group: str) -> None:
        meta, status = job["metadata"], job.get("status") or {}
        for task in job["spec"]["tasks"]:
            for index in range(task["replicas"]):
                name = naming.pod_name(meta["name"], task=task["name"], index=index)
                if name not in there:
                    body = _pod(job, task, index, name=name, group=group, status=status)
                    with contextlib.suppress(errors.AlreadyExists):
                        await self._port.create(kinds.POD, body, namespace=meta["namespace"])

    async def _move(self, job: Doc, phase: str, action: str, pods: list[Doc]) -> None:
        """The table of 1.6, as far as Commands and restarts go."""
        active = phase in ("Pending", "Running")
        if active and action in KILLS:
            await self._kill(job, pods)
            await self._write(job, KILLS[action], pods=pods, kill=True)
        elif active and action == "RestartJob":
            await self._kill(job, pods, hard=True)
            await self._write(job, "Restarting", pods=pods, kill=True, retry=True)
        elif phase in ("Aborting", "Aborted") and action == "ResumeJob":
            await self._kill(job, pods, hard=True)
            await self._write(job, "Restarting", pods=pods, kill=True)
        elif phase == "Restarting" and not pods:
            status = job["status"]
            spent = status.get("retryCount", 0) >= job["spec"].get("maxRetry", 3)
            await self._write(job, "Failed" if spent else "Pending", pods=pods)
        elif phase in LANDS:
            alive = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
            await self._write(job, phase if alive else LANDS[phase], pods=pods)
        elif active:
            await self._go_on(job, phase, pods)

    async def _kill(self, job: Doc, pods: list[Doc], *, hard: bool = False) -> None:
        meta = job["metadata"]
        for pod in pods:
            if hard or pod["status"].get("phase") not in ("Succeeded", "Failed"):
                with contextlib.suppress(errors.NotFound):
                    await self._port.delete(kinds.POD, pod["metadata"]["name"], namespace=meta["namespace"])
        with contextlib.suppress(errors.NotFound):
            name = naming.pod_group_name(meta["name"], uid=meta["uid"])
            await self._port.delete(kinds.POD_GROUP, name, namespace=meta["namespace"])

    async def _write(
        self, job: Doc, phase: str, *, pods: list[Doc] | None = None, kill: bool = False, retry: bool = False, **more: Any
    ) -> None:
        """The whole status by its types, if it differs."""
        before = job.get("status") or {}
        count: Counter[str] = Counter()
        for pod in pods or []:
            stops = pod["metadata"].get("deletionTimestamp")
            count["terminating" if stops else pod["status"].get("phase", "Pending").lower()] += 1
        status = {name: value for name, value in before.items() if name in STATUS} | more
        status |= {name: count[name] for name in ("pending", "running", "succeeded", "failed", "terminating")}
        status["version"] = before.get("version", 0) + kill
        status["retryCount"] = before.get("retryCount", 0) + retry
        if phase != (before.get("state") or {}).get("phase"):
            now = stamp(self._clock.now())
            status["state"] = {"phase": phase, "lastTransitionTime": now}
            status["conditions"] = [*(before.get("conditions") or []), {"status": phase, "lastTransitionTime": now}]
        if status != before:
            meta = job["metadata"]
            body = {**job, "status": status}
            await self._port.replace(kinds.JOB, meta["name"], body, namespace=meta["namespace"], subresource="status")

    # --- scheduling --------------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        """Groups are let in; pods of a gang that is there get nodes in turn."""
        pods = [pod for pod in await self._all(kinds.POD) if pod["spec"].get("schedulerName") == "volcano"]
        nodes = [node["metadata"]["name"] for node in await self._all(kinds.NODE) if _ready(node)]
        for group in await self._all(kinds.POD_GROUP):
            meta = group["metadata"]
            mine = [pod for pod in pods if (pod["metadata"].get("annotations") or {}).get(keys.GROUP_NAME) == meta["name"]]
            if (group.get("status") or {}).get("phase", "Pending") == "Pending":
                await self._group_phase(meta, "Inqueue")
            elif len(mine) >= group["spec"]["minMember"] and nodes:
                for pod in mine:
                    await self._bind(pod, nodes)
                if (group.get("status") or {}).get("phase") == "Inqueue":
                    await self._group_phase(meta, "Running")

    async def _group_phase(self, meta: Doc, phase: str) -> None:
        with contextlib.suppress(errors.NotFound):
            patch = {"status": {"phase": phase}}
            await self._port.patch(kinds.POD_GROUP, meta["name"], patch, type=PatchType.MERGE, namespace=meta["namespace"])

    async def _bind(self, pod: Doc, nodes: list[str]) -> None:
        meta = pod["metadata"]
        if pod["spec"].get("nodeName") or meta.get("deletionTimestamp"):
            return
        self._next += 1
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._port.bind(
                meta["name"], namespace=meta["namespace"], node=nodes[self._next % len(nodes)], uid=meta["uid"]
            )


def _ready(node: Doc) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions") or [])


def _owner(job: Doc) -> Doc:
    meta = job["metadata"]
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(job: Doc, task: Doc, index: int, *, name: str, group: str, status: Doc) -> Doc:
    """A pod with the labels and annotations of 1.7, those of its template kept."""
    meta, template = job["metadata"], task["template"]
    own = template.get("metadata") or {}
    annotations = {
        keys.TASK_INDEX: str(index),
        keys.TASK_SPEC: task["name"],
        keys.JOB_NAME: meta["name"],
        keys.QUEUE_NAME: job["spec"].get("queue", "default"),
        keys.JOB_VERSION: str(status.get("version", 0)),
        keys.TEMPLATE_ID: f"{meta['name']}-{task['name']}",
        keys.JOB_RETRY_COUNT: str(status.get("retryCount", 0)),
        keys.GROUP_NAME: group,
    }
    labels = {
        keys.JOB_NAME: meta["name"],
        keys.JOB_NAMESPACE: meta["namespace"],
        keys.TASK_SPEC: task["name"],
        keys.TASK_INDEX: str(index),
        keys.QUEUE_NAME: job["spec"].get("queue", "default"),
    }
    return {
        "metadata": {
            "name": name,
            "labels": {**(own.get("labels") or {}), **labels},
            "annotations": {**(own.get("annotations") or {}), **annotations},
            "ownerReferences": [_owner(job)],
        },
        "spec": {**template["spec"], "schedulerName": template["spec"].get("schedulerName") or "volcano"},
    }
