"""What an agent may do at the hub: read its Works and say how they stand, renew its Lease, publish its capacity and its prices,
speak for its own Cluster. Nothing else, and nothing of any other member (protocol.md 8).

The rights of a member hang on a group that its certificate carries and that names it, or on its ServiceAccount in its execution
namespace where the hub signs no client certificates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from apis import keys, kinds
from apis.kinds import Kind
from federation.clusters.guard import MANAGER
from machinery.clock import Clock
from machinery.errors import ApiError
from machinery.informer import Change, Informer, Informers
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import joining, members
from policies.members import ClusterView

log = logging.getLogger(__name__)

ACCOUNT: Final = "member-agent"
"""ServiceAccount in an execution namespace, for members that join without a certificate."""
ROLE: Final = "member"
AGAIN: Final = 60.0
"""Seconds after which what was refused is tried again."""

Doc = dict[str, Any]


def group_of(cluster: str) -> str:
    """The group of the credential of one member."""
    return joining.groups_of(cluster)[1]


def manifests(cluster: str, *, uid: str) -> Iterator[tuple[Kind, Doc, str | None]]:
    """Roles and their bindings, each with the namespace it lives in. What is cluster-wide comes first: an agent registers by it
    before its execution namespace is made; it goes with the Cluster of this UID."""
    namespace, wide = keys.execution_namespace(cluster), f"volcano-federation:member:{cluster}"
    owner = {"apiVersion": kinds.CLUSTER.api_version, "kind": kinds.CLUSTER.kind, "name": cluster, "uid": uid}
    meta = {"name": wide, "ownerReferences": [owner]}
    subjects = [
        {"apiGroup": kinds.ROLE.group, "kind": "Group", "name": group_of(cluster)},
        {"kind": kinds.SERVICE_ACCOUNT.kind, "name": ACCOUNT, "namespace": namespace},
    ]
    yield kinds.CLUSTER_ROLE, {"metadata": meta, "rules": _own(cluster)}, None
    yield kinds.CLUSTER_ROLE_BINDING, _bound(kinds.CLUSTER_ROLE, meta, subjects=subjects), None
    yield kinds.ROLE, {"metadata": {"name": ROLE, "namespace": namespace}, "rules": _exchange()}, namespace
    yield kinds.ROLE_BINDING, _bound(kinds.ROLE, {"name": ROLE, "namespace": namespace}, subjects=subjects), namespace


def _exchange() -> list[Doc]:
    return [
        _rule(kinds.WORK, ["get", "list", "watch", "update", "patch"]),
        _rule(kinds.WORK, ["update", "patch"], subresource="status"),
        _rule(kinds.CLUSTER_CAPACITY, ["get", "list", "watch"]),
        _rule(kinds.CLUSTER_CAPACITY, ["patch"], subresource="status", names=[keys.MEMBER_LEASE]),
        _rule(kinds.LEASE, ["get", "update"], names=[keys.MEMBER_LEASE]),
    ]


def _own(cluster: str) -> list[Doc]:
    return [
        _rule(kinds.CLUSTER, ["get", "update"], names=[cluster]),
        _rule(kinds.CLUSTER, ["update"], subresource="status", names=[cluster]),
        _rule(kinds.CLUSTER_OFFER, ["create", "patch"], names=[cluster]),
    ]


def _rule(kind: Kind, verbs: list[str], *, subresource: str = "", names: list[str] | None = None) -> Doc:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    rule: Doc = {"apiGroups": [kind.group], "resources": [resource], "verbs": verbs}
    return {**rule, "resourceNames": names} if names else rule


def _bound(kind: Kind, meta: Doc, *, subjects: list[Doc]) -> Doc:
    return {
        "metadata": meta,
        "roleRef": {"apiGroup": kind.group, "kind": kind.kind, "name": meta["name"]},
        "subjects": subjects,
    }


async def grant(port: Port, cluster: str, *, uid: str, registered: bool) -> bool:
    """Put in place what can be, never forced; answers whether it was. `registered`: the execution namespace is there. A hub
    that may not is served by rights given by hand, and the log says so."""
    for kind, body, namespace in manifests(cluster, uid=uid):
        if namespace is not None and not registered:
            continue
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        try:
            await port.patch(
                kind, body["metadata"]["name"], whole, type=PatchType.APPLY, namespace=namespace, field_manager=MANAGER
            )
        except ApiError as error:
            log.warning("%s %s of member %s is not in place: %s", kind.kind, body["metadata"]["name"], cluster, error)
            return False
    return True


class RightsController:
    """The role: gives every member its rights, once per leader and Cluster. Keys are names of Clusters."""

    def __init__(self, *, port: Port, informers: Informers, clock: Clock) -> None:
        self._port = port
        self._clusters: Informer[ClusterView] = informers.add(kinds.CLUSTER, members.project_cluster)
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._granted: dict[str, tuple[str, bool]] = {}
        """By name, the UID and whether the member was registered."""

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._clusters.wait_synced()
        self._clusters.subscribe(self._changed)
        await run_workers(self._queue, self._reconcile, workers=2, name="rights", metrics=metrics)

    def _changed(self, change: Change[ClusterView]) -> None:
        if change.new is None:
            self._granted.pop(change.key[1], None)
        elif _due(change.new) != self._granted.get(change.new.name):
            self._queue.add(change.new.name)

    async def _reconcile(self, name: str) -> float | None:
        cluster = self._clusters.get(None, name)
        if cluster is None or cluster.deleting:
            return None
        due = _due(cluster)
        if due == self._granted.get(name):
            return None
        if not await grant(self._port, name, uid=cluster.uid, registered=due[1]):
            return AGAIN
        self._granted[name] = due
        return None


def _due(cluster: ClusterView) -> tuple[str, bool]:
    return cluster.uid, cluster.conditions.get("Registered", ("", ""))[0] == "True"
