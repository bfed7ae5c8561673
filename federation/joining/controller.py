"""The role: judges requests one after the other, says what was decided, and takes tokens away that have been used."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson

from apis import kinds
from federation.joining.judging import REASON_APPROVED, REASON_DENIED, Judgement, RequestView, Verdict, judge, project_request
from machinery.clock import Clock, stamp
from machinery.errors import ApiError, Conflict, NotFound
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers
from machinery.port import Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import joining, members
from policies.members import ClusterView

log = logging.getLogger(__name__)

READ: Final = 120.0
"""Seconds that a member has to read its certificate by the token that it asked with; until then the approved request itself
keeps the token from being used again."""
AGAIN: Final = 5.0
"""Seconds after which what the API server refused is tried again."""


class JoiningController:
    """Keys are names of requests."""

    def __init__(self, *, port: Port, informers: Informers, events: EventRecorder, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._events = events
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._requests: Informer[RequestView] = informers.add(kinds.SIGNING_REQUEST, project_request)
        self._queue: WorkQueue[str] = WorkQueue(clock)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled. One worker: of two requests by one token, the later must see how the first was decided."""
        for informer in (self._clusters, self._requests):
            await informer.wait_synced()
        self._requests.subscribe(self._changed)
        await run_workers(self._queue, self._reconcile, workers=1, name="joining", metrics=metrics)

    def _changed(self, change: Change[RequestView]) -> None:
        request = change.new
        if request is None or request.signer != joining.SIGNER:
            return
        if not request.decided:
            self._queue.add(request.name)
        elif joining.cluster_of(request.groups, prefix=joining.JOINERS) and request.spent:
            self._queue.add_after(request.name, READ)

    async def _reconcile(self, name: str) -> float | None:
        request = self._requests.get(None, name)
        if request is None:
            return None
        if request.spent is not None:
            return await self._spend(request.spent)
        clusters = {each.name: each for each in self._clusters.values()}
        alive = frozenset(each.name for each in clusters.values() if each.ready == "True")
        judgement = judge(request, clusters=clusters, others=self._requests.sorted(), alive=alive)
        if judgement.verdict is Verdict.LEAVE:
            return None
        try:
            await self._decide(name, judgement, uid=request.uid)
        except ApiError as error:
            log.warning("request %s is not decided yet: %s", name, error)
            return AGAIN
        return None

    async def _spend(self, token: str) -> float | None:
        try:
            await self._port.delete(kinds.SECRET, joining.TOKEN_PREFIX + token, namespace=joining.TOKEN_NAMESPACE)
        except NotFound:
            return None
        except ApiError as error:
            log.warning("token %s was used and is not taken away yet: %s", token, error)
            return AGAIN
        log.info("token %s was used and is gone", token)
        return None

    async def _decide(self, name: str, judgement: Judgement, *, uid: str) -> None:
        tree: dict[str, Any] = orjson.loads(await self._port.get(kinds.SIGNING_REQUEST, name))
        if tree["metadata"]["uid"] != uid or (tree.get("status") or {}).get("conditions"):
            return
        approved = judgement.verdict is Verdict.APPROVE
        said = {
            "type": judgement.verdict.value,
            "status": "True",
            "reason": REASON_APPROVED if approved else REASON_DENIED,
            "message": judgement.message,
            "lastUpdateTime": stamp(self._clock.now()),
        }
        tree.setdefault("status", {})["conditions"] = [said]
        try:
            await self._port.replace(kinds.SIGNING_REQUEST, name, tree, subresource="approval")
        except (Conflict, NotFound):
            return  # what changed it wakes us again
        log.info("request %s: %s: %s", name, judgement.verdict, judgement.message)
        if not approved:
            self._tell(project_request(orjson.dumps(tree)), judgement.message)

    def _tell(self, request: RequestView, message: str) -> None:
        """A refused request is told where the people of the cluster look that its token was made for."""
        cluster = self._clusters.get(None, joining.cluster_of(request.groups, prefix=joining.JOINERS) or "")
        if cluster is not None:
            about = About(kinds.CLUSTER, "", cluster.name, cluster.uid)
            self._events.warn(about, reason="JoinRefused", message=f"{request.name}: {message}")
