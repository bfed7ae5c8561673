"""Who else takes pods away: the eviction API, the taint manager, the pod garbage collector. Each leaves its condition behind.

A pod that is disrupted carries the condition DisruptionTarget with who did it, so that its owner need not blame the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from apis import kinds
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.port import PatchType, Port, Preconditions

if TYPE_CHECKING:
    from simulator.server import ApiServer

Doc = Mapping[str, Any]

FINISHED = frozenset({"Succeeded", "Failed"})


def disrupted(pod: Doc, *, reason: str, message: str, now: str) -> list[dict[str, Any]]:
    """The pod's conditions with DisruptionTarget among them."""
    there = (pod.get("status") or {}).get("conditions") or ()
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
    return [*(each for each in there if each["type"] != "DisruptionTarget"), told]


def tolerated_for(pod: Doc, *, taint: str) -> float | None:
    """Seconds that a pod stays on a node with this NoExecute taint; 0 without a toleration, None for ever."""
    matching = [each for each in pod["spec"].get("tolerations") or () if _tolerates(each, taint)]
    if not matching:
        return 0.0
    seconds = [each["tolerationSeconds"] for each in matching if each.get("tolerationSeconds") is not None]
    return float(min(seconds)) if seconds else None


def _tolerates(toleration: Doc, taint: str) -> bool:
    if toleration.get("effect") not in {None, "", "NoExecute"}:
        return False
    key, everything = toleration.get("key") or "", toleration.get("operator") == "Exists"
    return everything if not key else key == taint


def evict(server: ApiServer, pod: str, *, namespace: str, body: Doc) -> None:
    """POST pods/eviction: the condition first, then an ordinary deletion. There are no disruption budgets."""
    old = server.read(kinds.POD, pod, namespace=namespace)
    options = body.get("deleteOptions") or {}
    uid = (options.get("preconditions") or {}).get("uid")
    if uid is not None and uid != old.uid:
        raise server.conflict(old, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}")
    if (old.doc.get("status") or {}).get("phase") not in FINISHED:
        doc = orjson.loads(old.raw)
        now = stamp(server.clock.now())
        told = disrupted(doc, reason="EvictionByEvictionAPI", message="Eviction API: evicting", now=now)
        doc["status"]["conditions"] = told
        server.update(old, doc, subresource="status", conditional=False)
    server.delete(kinds.POD, pod, namespace=namespace, grace_seconds=options.get("gracePeriodSeconds"))


class Cleaner:
    """Deletes the pods of nodes that are not ready, or no more."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock

    async def taint_manager(self, node: str, *, taint: str) -> None:
        """Delete what is on a tainted node, each pod after the time it tolerates that; until nobody is left."""
        waited = 0.0
        while True:
            due = [
                (seconds, pod) for pod in await self._pods_of(node) if (seconds := tolerated_for(pod, taint=taint)) is not None
            ]
            due = [(seconds, pod) for seconds, pod in due if not pod["metadata"].get("deletionTimestamp")]
            if not due:
                return
            pause = max(0.0, min(seconds for seconds, _ in due) - waited)
            await self._clock.sleep(pause)
            waited += pause
            message = "Taint manager: deleting due to NoExecute taint"
            gone = [pod for seconds, pod in due if seconds <= waited]
            await self._delete(gone, reason="DeletionByTaintManager", message=message, fail=False)

    async def collect(self, node: str) -> None:
        """Fail and delete by force what was on a node that is no more."""
        pods = await self._pods_of(node)
        await self._delete(pods, reason="DeletionByPodGC", message="PodGC: node no longer exists", fail=True)

    async def _pods_of(self, node: str) -> list[Doc]:
        page = await self._port.list(kinds.POD, fields=f"spec.nodeName={node}", limit=0)
        return [orjson.loads(item) for item in page.items]

    async def _delete(self, pods: Iterable[Doc], *, reason: str, message: str, fail: bool) -> None:
        for pod in pods:
            name, namespace, uid = (pod["metadata"][each] for each in ("name", "namespace", "uid"))
            status: dict[str, Any] = {"phase": "Failed"} if fail else {}
            status["conditions"] = disrupted(pod, reason=reason, message=message, now=stamp(self._clock.now()))
            patch = {"metadata": {"uid": uid}, "status": status}
            try:
                if (pod.get("status") or {}).get("phase") not in FINISHED:
                    await self._port.patch(
                        kinds.POD, name, patch, type=PatchType.MERGE, namespace=namespace, subresource="status"
                    )
                grace = 0 if fail else None
                this = Preconditions(uid=uid)
                await self._port.delete(kinds.POD, name, namespace=namespace, preconditions=this, grace_seconds=grace)
            except (errors.NotFound, errors.Conflict):
                continue  # it went by itself
