"""The one writer of Clusters, and of what is exchanged with each: namespace, Lease, ClusterCapacity. It decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from apis import cluster_orders, keys, kinds
from apis.cluster_orders import Declaration, Stamp
from apis.kinds import Kind
from machinery.clock import Clock, stamp
from machinery.errors import AlreadyExists, Conflict, NotFound
from machinery.port import Port, Preconditions
from policies.shapes import Taint
from policies.views import WorkView

log = logging.getLogger(__name__)

Tree = dict[str, Any]
Wanted = Mapping[str, tuple[str, str, str] | None]
"""Condition type to status, reason and message; None takes it away."""


class MemberWriter:
    """Writes with optimistic concurrency; conflicts are raised, and the caller looks again."""

    def __init__(self, port: Port, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock

    # --- the Cluster -------------------------------------------------------------------------------------------------

    async def _change(self, name: str, change: Callable[[Tree], None], *, subresource: str | None = None) -> None:
        """Others write other parts of the same object: ours is put among them against the version just read."""
        try:
            tree: Tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER, name))
            before = msgspec.json.encode(tree)
            change(tree)
            if msgspec.json.encode(tree) != before:
                await self._port.replace(kinds.CLUSTER, name, tree, subresource=subresource)
        except NotFound:
            log.debug("cluster %s is gone", name)

    async def say(self, name: str, wanted: Wanted) -> None:
        """Conditions among those of others; a time moves only with its status."""
        now = stamp(self._clock.now())

        def change(tree: Tree) -> None:
            status = tree.get("status") or {}
            there = {each.get("type"): each for each in status.get("conditions") or []}
            kept = [each for kind, each in there.items() if kind not in wanted]
            ours = []
            for kind, said in sorted(wanted.items()):
                if said is None:
                    continue
                old = there.get(kind) or {}
                since = old.get("lastTransitionTime") if old.get("status") == said[0] else None
                ours.append(
                    {"type": kind, "status": said[0], "reason": said[1], "message": said[2], "lastTransitionTime": since or now}
                )
            tree["status"] = {**status, "conditions": kept + ours}

        await self._change(name, change, subresource="status")

    async def taint(self, name: str, *, add: Sequence[Taint], remove: Sequence[Taint]) -> None:
        """Others' taints stay; one is told apart by key and effect."""
        now = stamp(self._clock.now())

        def change(tree: Tree) -> None:
            spec = tree.setdefault("spec", {})
            gone = {(each.key, each.effect) for each in (*add, *remove)}
            taints = [each for each in spec.get("taints") or [] if (each.get("key"), each.get("effect")) not in gone]
            for each in add:
                value = {"value": each.value} if each.value else {}
                taints.append({"key": each.key, "effect": each.effect, **value, "timeAdded": now})
            spec["taints"] = taints

        await self._change(name, change)

    async def finalizer(self, name: str, *, present: bool) -> None:
        """The hub's own: while it is there, the Cluster is not let go."""

        def change(tree: Tree) -> None:
            meta = tree["metadata"]
            others = [each for each in meta.get("finalizers") or [] if each != keys.CLUSTER_FINALIZER]
            meta["finalizers"] = [*others, keys.CLUSTER_FINALIZER] if present else others

        await self._change(name, change)

    async def forget(self, name: str, annotation: str) -> None:
        """An order that was carried out, or refused, is taken off."""
        await self._change(name, lambda tree: (tree["metadata"].get("annotations") or {}).pop(annotation, None))

    # --- the Lease ---------------------------------------------------------------------------------------------------

    async def declare(self, cluster: str, *, mark: str, of: Callable[[bytes], str], whose: Stamp, why: str) -> bool:
        """H4: holder hub, F + 1, and whose word it is, in one PUT. False, and nothing written, when the Lease shows another
        renewal than `mark` (`of` reads it): the member lives. A conflict with others is tried again."""
        namespace = keys.execution_namespace(cluster)
        while True:
            document = await self._port.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=namespace)
            if of(document) != mark:
                return False
            lease: Tree = msgspec.json.decode(document)
            spec = lease.setdefault("spec", {})
            fence = int(spec.get("leaseTransitions") or 0) + 1
            spec |= {"leaseTransitions": fence, "holderIdentity": cluster_orders.HELD_BY_HUB}
            word = Declaration(
                fence, by=whose.by, at=whose.at or stamp(self._clock.now()), why=why[: cluster_orders.NAME_LIMIT]
            )
            notes = lease["metadata"].setdefault("annotations", {})
            notes[cluster_orders.DECLARED] = cluster_orders.write_declaration(word)
            try:
                await self._port.replace(kinds.LEASE, keys.MEMBER_LEASE, lease, namespace=namespace)
            except Conflict:
                continue
            log.warning("%s is declared lost by %s: fence number %d", cluster, whose.by or "somebody", fence)
            return True

    # --- what is exchanged -------------------------------------------------------------------------------------------

    async def ensure(self, kind: Kind, body: Tree, *, namespace: str | None = None) -> bool:
        """Make it unless it is there; answers whether it was made now."""
        try:
            await self._port.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body}, namespace=namespace)
        except AlreadyExists:
            log.debug("%s of %s is there already", kind.kind, namespace or body["metadata"]["name"])
            return False
        return True

    async def label_keys(self, namespace: str, wanted: Iterable[str], *, limit: int) -> None:
        """Node labels by which the member is to tell its nodes apart."""
        tree = msgspec.json.decode(await self._port.get(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, namespace=namespace))
        spec = tree.setdefault("spec", {})
        spec["labelKeys"] = sorted({*(spec.get("labelKeys") or ()), *wanted})[:limit]
        await self._port.replace(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, tree, namespace=namespace)

    async def empty(self, works: Iterable[WorkView]) -> None:
        """The order to remove what is left: only the very Works that were seen."""
        for work in works:
            if not work.deleting:
                await self._gone(kinds.WORK, work.name, namespace=work.namespace, uid=work.uid)

    async def strip(self, works: Iterable[WorkView]) -> None:
        """Let Works of a lost member go. Whoever declared it lost has given the word that is missing."""
        for work in works:
            try:
                tree = msgspec.json.decode(await self._port.get(kinds.WORK, work.name, namespace=work.namespace))
                if tree["metadata"]["uid"] == work.uid and tree["metadata"].get("deletionTimestamp"):
                    tree["metadata"]["finalizers"] = []
                    await self._port.replace(kinds.WORK, work.name, tree, namespace=work.namespace)
            except NotFound:
                continue

    async def unmake(self, cluster: str) -> bool:
        """Remove the place where everything was exchanged, with all in it; whether it is gone. Nothing is removed while a
        quorum read shows a Work there."""
        namespace = keys.execution_namespace(cluster)
        if (await self._port.list(kinds.WORK, namespace=namespace, limit=1)).items:
            return False
        await self._gone(kinds.NAMESPACE, namespace)
        try:
            await self._port.get(kinds.NAMESPACE, namespace)
        except NotFound:
            return True
        return False

    async def _gone(self, kind: Kind, name: str, *, namespace: str | None = None, uid: str = "") -> None:
        try:
            await self._port.delete(kind, name, namespace=namespace, preconditions=Preconditions(uid=uid) if uid else None)
        except (NotFound, Conflict):
            return
