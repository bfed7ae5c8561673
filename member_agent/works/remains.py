"""Which pods of a run may still be running, whatever became of their objects (protocol.md 2, A4).

A pod is gone when (i) its kubelet reported its end, or (ii) its object went and its node stayed Ready for K after, or (iii)
its node shows another boot ID or the out-of-service taint, or a person deleted the Node object. A node that is merely not
known here was not deleted for all we know: it must be asked for by quorum. Times are boot-clock seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from machinery.informer import Change
from member_agent.views import NodeView, PodView


class Trace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that may run on a node, as it is written on the local Job. `boot`: the node's boot ID at that time."""

    pod: str
    node: str
    boot: str = ""


_traces = msgspec.json.Decoder(dict[str, Trace]).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def read(annotation: str) -> dict[str, Trace]:
    """Traces by pod UID from the annotation; unreadable text is a bug of ours or of a person, and raises."""
    return _traces(annotation) if annotation else {}


def write(traces: Mapping[str, Trace]) -> str:
    """The annotation."""
    return _encode(dict(traces)).decode()


@dataclass(frozen=True, slots=True)
class Left:
    """What may still run: names for the condition, whether a node is to blame, which nodes nobody knows here, and when to look
    again without an event."""

    pods: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    again: float | None = None


ASK_AGAIN = 5.0
"""Seconds after which a node that the API server has and no watch has shown is asked for again."""

DELETED_KEPT = 4096
"""Names of deleted nodes remembered; one that is forgotten is asked for."""


class Remains:
    """Facts about pods of runs and their nodes, gathered from informers by one process."""

    def __init__(self, *, kubelet: float) -> None:
        self._kubelet = kubelet
        self._nodes: dict[str, NodeView] = {}
        self._deleted: dict[str, None] = {}
        self._found_at: dict[str, float] = {}
        self._ready_since: dict[str, float] = {}
        self._present: dict[str, dict[str, PodView]] = {}
        self._confirmed: dict[str, set[str]] = {}
        self._vanished: dict[str, dict[str, Trace]] = {}
        self._absent_since: dict[str, float] = {}

    def node_changed(self, change: Change[NodeView], *, now: float) -> bool:
        """Fold in; whether it can change an answer."""
        name, new = change.key[1], change.new
        old = self._nodes.get(name)
        if new is None:
            self._nodes.pop(name, None)
            self._ready_since.pop(name, None)
            self.node_absent(name)
            return True
        self._nodes[name] = new
        self._deleted.pop(name, None)
        self._found_at.pop(name, None)
        if not new.ready:
            self._ready_since.pop(name, None)
        elif old is None or not old.ready or old.boot_id != new.boot_id:
            self._ready_since[name] = now
        before = (old.ready, old.boot_id, old.out_of_service) if old else None
        return before != (new.ready, new.boot_id, new.out_of_service)

    def node_absent(self, name: str) -> None:
        """The Node object was deleted: its deletion was seen, or the API server says so when asked."""
        self._found_at.pop(name, None)
        self._deleted[name] = None
        while len(self._deleted) > DELETED_KEPT:
            del self._deleted[next(iter(self._deleted))]

    def node_found(self, name: str, *, now: float) -> None:
        """The API server has a node that was not seen yet: its watch will show it."""
        self._found_at[name] = now

    def pod_changed(self, change: Change[PodView], *, now: float) -> None:
        """Fold in; only pods of runs are remembered."""
        pod = change.new or change.old
        if pod is None or not pod.run or not pod.owner:
            return
        if change.new is not None:
            self._present.setdefault(pod.owner, {})[pod.uid] = pod
            if pod.confirmed:
                self._confirmed.setdefault(pod.owner, set()).add(pod.uid)
            return
        self._present.get(pod.owner, {}).pop(pod.uid, None)
        if pod.node and pod.uid not in self._confirmed.get(pod.owner, ()):
            self._absent_since[pod.uid] = now
            self._vanished.setdefault(pod.owner, {})[pod.uid] = self.trace(pod)

    def forget(self, owner: str) -> None:
        """The Job is gone for good."""
        gone = {*self._confirmed.pop(owner, ()), *self._vanished.pop(owner, {}), *self._present.pop(owner, {})}
        for uid in gone:
            self._absent_since.pop(uid, None)

    def trace(self, pod: PodView) -> Trace:
        """Where a pod may run."""
        node = self._nodes.get(pod.node)
        return Trace(pod.name, pod.node, node.boot_id if node else "")

    def traces(self, owner: str, *, recorded: Mapping[str, Trace], listed: Iterable[PodView] = ()) -> dict[str, Trace]:
        """Everything of a run that may run somewhere, by pod UID: what is recorded, present, listed, or vanished lately."""
        found = {**self._vanished.get(owner, {})}
        for pod in (*self._present.get(owner, {}).values(), *listed):
            if pod.node and not pod.confirmed:
                found[pod.uid] = self.trace(pod)
        found |= recorded
        confirmed = self._confirmed.get(owner, set())
        return {uid: found[uid] for uid in sorted(found) if uid not in confirmed}

    def present(self, owner: str) -> tuple[PodView, ...]:
        """Pods of the run that the API server still has, by name."""
        return tuple(sorted(self._present.get(owner, {}).values(), key=lambda pod: pod.name))

    def endangered(self, owner: str, *, recorded: Mapping[str, Trace]) -> dict[str, Trace]:
        """Traces on nodes that are not Ready and are not recorded yet (A4: first noted on the local Job)."""
        return {
            uid: trace
            for uid, trace in self.traces(owner, recorded={}).items()
            if uid not in recorded and (node := self._nodes.get(trace.node)) is not None and not node.ready
        }

    def owners_on(self, node: str) -> list[str]:
        """Jobs with pods on a node, in order."""
        return sorted(
            owner
            for owner, pods in self._present.items()
            if any(pod.node == node and not pod.confirmed for pod in pods.values())
        )

    def left(self, owner: str, *, traces: Mapping[str, Trace], now: float) -> Left:
        """What may still run. Pods that were never bound count only while their object is there."""
        present = self._present.get(owner, {})
        pods = {pod.name for pod in present.values() if not pod.node and not pod.ended}
        unreachable: set[str] = set()
        unknown: set[str] = set()
        again: list[float] = []
        for uid, trace in traces.items():
            verdict = self._look(uid, trace, present.get(uid), now=now)
            if verdict is None:
                continue
            pods.add(trace.pod)
            node = self._nodes.get(trace.node)
            if node is None and verdict == 0:
                unknown.add(trace.node)
            elif node is not None and not node.ready:
                unreachable.add(trace.node)
            if verdict > 0:
                again.append(verdict)
        return Left(tuple(sorted(pods)), tuple(sorted(unreachable)), tuple(sorted(unknown)), min(again, default=None))

    def _look(self, uid: str, trace: Trace, pod: PodView | None, *, now: float) -> float | None:
        """None: gone. Otherwise it may run; a positive number says when to look again, 0 that an event will tell, or an answer
        about a node that is not known."""
        if pod is not None and pod.confirmed:
            return None
        node = self._nodes.get(trace.node)
        if node is None:
            if trace.node in self._deleted:
                return None
            return max(self._found_at.get(trace.node, float("-inf")) + ASK_AGAIN - now, 0.0)
        if node.out_of_service or (trace.boot and node.boot_id and node.boot_id != trace.boot):
            return None
        if pod is not None:
            return 0.0
        absent = self._absent_since.setdefault(uid, now)
        ready = self._ready_since.get(trace.node)
        if ready is None:
            return 0.0
        wait = max(absent, ready) + self._kubelet - now
        return wait if wait > 0 else None
