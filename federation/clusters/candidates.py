"""Takes names and properties of ClusterProfiles over: candidates for members, and labels of those that are (setting
`cluster_profiles`)."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from apis import kinds
from machinery.clock import Clock
from machinery.errors import AlreadyExists, NotFound
from machinery.informer import Change, Informer, Informers
from machinery.port import Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import cluster_profiles, members
from policies.cluster_profiles import CLUSTER_PROFILE, PROFILE, ProfileView, project_profile
from policies.members import ClusterView

log = logging.getLogger(__name__)

Tree = dict[str, Any]
SOON: Final = 0.1
"""Seconds that changes wait for company."""


class CandidatesController:
    """The role. Keys are names of clusters."""

    def __init__(self, *, port: Port, informers: Informers, clock: Clock) -> None:
        self._port = port
        self._profiles: Informer[ProfileView] = informers.add(CLUSTER_PROFILE, project_profile)
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._queue: WorkQueue[str] = WorkQueue(clock)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled. Where the kind is not served nothing happens until it is."""
        for informer in (self._profiles, self._clusters):
            await informer.wait_synced()
        self._profiles.subscribe(lambda change: self._queue.add_after(change.key[1], SOON))
        self._clusters.subscribe(self._cluster_changed)
        await run_workers(self._queue, self._reconcile, workers=2, name="candidates", metrics=metrics)

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.labels != new.labels:
            self._queue.add_after(change.key[1], SOON)

    async def _reconcile(self, name: str) -> float | None:
        profile = cluster_profiles.of(name, profiles=self._profiles.values())
        try:
            tree: Tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER, name))
        except NotFound:
            if profile is not None:
                await self._propose(profile)
            return None
        meta = tree["metadata"]
        before = (meta.get("labels") or {}, meta.get("annotations") or {})
        if profile is None and PROFILE in before[1] and not tree["spec"].get("id"):
            await self._port.delete(kinds.CLUSTER, name, preconditions=Preconditions(uid=meta["uid"]))
            return None
        after = cluster_profiles.revised(*before, profile)
        if after != before and (profile is not None or PROFILE in before[1]):
            meta["labels"], meta["annotations"] = after
            await self._port.replace(kinds.CLUSTER, name, tree)
        return None

    async def _propose(self, profile: ProfileView) -> None:
        """A candidate: a Cluster without an id, which its agent fills in when it joins."""
        labels, notes = cluster_profiles.revised({}, {}, profile)
        body = {
            "apiVersion": kinds.CLUSTER.api_version,
            "kind": kinds.CLUSTER.kind,
            "metadata": {"name": profile.name, "labels": labels, "annotations": notes},
            "spec": {"syncMode": "Pull"},
        }
        try:
            await self._port.create(kinds.CLUSTER, body)
        except AlreadyExists:
            return
        log.info("ClusterProfile %s names a candidate", profile.title)
