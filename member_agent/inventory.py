"""Nodes and what pods hold on them, kept by deltas: the one picture of this cluster's resources.

Scheduling plans on it, works answer NoRoom from it, reporting publishes it. Informers of nodes and pods feed it; pods that
were just bound and are not seen yet are `assumed` until their own event says the same. Foreign pods count as used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.answers import Kept
from member_agent.room import HOSTNAME, Amounts, Layout, NodeClass, Room, berth
from member_agent.views import NodeView, PodView
from policies.neighbours import Labels
from policies.shapes import PodShape

FIRST_COLUMNS = ("cpu", "memory", "pods", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Held:
    """What one pod holds: the node and the shape; `owner` is the UID of the pod's controller, `task` its task there; `gang` is
    its namespace and PodGroup."""

    node: str
    shape: PodShape
    owner: str
    task: str
    gang: tuple[str, str] = ("", "")
    labels: Labels = ()
    own_labels: Labels = ()
    claims: tuple[str, ...] = ()


def held_by(pod: PodView, *, node: str) -> Held:
    """What a pod holds on a node."""
    return Held(node, pod.shape, pod.owner, pod.task, (pod.namespace, pod.group), pod.labels, pod.own_labels, pod.claims)


class Listener(Protocol):
    """Who wants to know what pods take and give back."""

    def took(self, uid: str, held: Held) -> None:
        """A pod took its room."""
        ...

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod gave its room back."""
        ...


class Inventory:
    """Rows of nodes and what is used on them. `version` grows with every change of room, `layout_version` when nodes change."""

    def __init__(self) -> None:
        self.version = 0
        self.layout_version = 0
        self.nodes: dict[str, NodeView] = {}
        self._columns: dict[str, int] = {name: index for index, name in enumerate(FIRST_COLUMNS)}
        self._held: dict[str, Held] = {}
        self._assumed: dict[str, Held] = {}
        self._on: dict[str, set[str]] = {}
        self._row_of: dict[str, int] = {}
        self._room: Room | None = None
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell `listener` from now on."""
        self._listeners.append(listener)

    # --- deltas ------------------------------------------------------------------------------------------------------

    def node_changed(self, change: Change[NodeView]) -> None:
        """A node came, changed or went. Heart-beats change nothing."""
        old, new = self.nodes.get(change.key[1]), change.new
        if new is None:
            self.nodes.pop(change.key[1], None)
        else:
            self.nodes[new.name] = new
        if old is None or new is None or _differs(old, new):
            self._room = self._with_node(old, new) if old is not None and new is not None else None
            self.version += 1
            self.layout_version += 1
        elif old.images != new.images:
            self._images_changed(new)

    def _with_node(self, old: NodeView, new: NodeView) -> Room | None:
        """The room with one node changed: readiness and taints come and go while a thousand others stay. None where it must be
        built anew."""
        room, row = self._room, self._row_of.get(new.name)
        if room is None or row is None or _host(old) != _host(new) or not new.allocatable.keys() <= self._columns.keys():
            return None
        cordoned = room.layout.cordoned - old.cordoned + new.cordoned
        layout = room.layout.with_node(row, _kind(new), usable=new.ready and not new.cordoned, cordoned=cordoned)
        if old.images != new.images:
            layout = layout.with_images(row, new.images)
        allocatable = room.allocatable
        if old.allocatable != new.allocatable:
            allocatable = allocatable.copy()  # copies of the room still see the node as it was
            for name, amount in (new.allocatable - old.allocatable).items():
                allocatable[row, self._columns[name]] += amount
                room.free[row, self._columns[name]] += amount
        kept = Kept(len(layout.names))
        return Room(layout, room.free, allocatable, taken=room.taken, ending=room.ending, kept=kept)

    def _images_changed(self, node: NodeView) -> None:
        """An image was pulled or dropped: scores of this row may be others, room is what it was."""
        room, row = self._room, self._row_of.get(node.name)
        if room is None or row is None:
            return
        room.layout = room.layout.with_images(row, node.images)
        if room.kept is not None:
            room.kept.touch(row)

    def pod_changed(self, change: Change[PodView]) -> None:
        """A pod was bound, ended or went."""
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._drop(change.old.uid)
            return
        if pod.ended:
            self._drop(pod.uid)
        elif pod.node:
            self._assumed.pop(pod.uid, None)
            self._hold(pod.uid, held_by(pod, node=pod.node))

    def assume(self, pod: PodView, *, node: str) -> None:
        """A binding was decided: its room is taken from now on."""
        held = held_by(pod, node=node)
        self._assumed[pod.uid] = held
        self._hold(pod.uid, held)

    def forget(self, uid: str) -> None:
        """The assumed binding failed: its room is free again."""
        if self._assumed.pop(uid, None) is not None:
            self._drop(uid)

    def reserve(self, uid: str, held: Held) -> None:
        """Room for a pod that is not there yet, under a name of its own."""
        self._hold(uid, held)

    def unreserve(self, uid: str) -> None:
        """It is free again."""
        self._drop(uid)

    def assumed(self, uid: str) -> bool:
        """Whether a binding of this pod is on its way."""
        return uid in self._assumed

    def holds(self, uid: str) -> bool:
        """Whether the pod, bound or assumed, has its room."""
        return uid in self._held

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def room(self) -> Room:
        """The present room; copy it before taking from it."""
        if self._room is None:
            self._room = self._build()
        return self._room

    def on(self, node: str) -> Iterator[tuple[str, Held]]:
        """UID of every pod that is held on a node, and what it holds, by UID."""
        return ((uid, self._held[uid]) for uid in sorted(self._on.get(node, ())))

    def pods_on(self, node: str) -> int:
        """Pods held on a node."""
        return len(self._on.get(node, ()))

    def used(self) -> ResourceVector:
        """What all held pods ask for together."""
        amounts: dict[str, int] = {}
        for held in self._held.values():
            for name, amount in held.shape.requests.items():
                amounts[name] = amounts.get(name, 0) + amount
        return ResourceVector(amounts)

    def held(self) -> Mapping[str, Held]:
        """Pod UID to what it holds."""
        return self._held

    def row_of(self, node: str) -> int | None:
        """The row of a node in the present room."""
        return self._row_of.get(node)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _hold(self, uid: str, held: Held) -> None:
        if self._held.get(uid) == held:
            return
        self._drop(uid, assumed=False)
        self._held[uid] = held
        self._on.setdefault(held.node, set()).add(uid)
        self._account(held, 1)
        for listener in self._listeners:
            listener.took(uid, held)

    def _drop(self, uid: str, *, assumed: bool = True) -> None:
        if assumed:
            self._assumed.pop(uid, None)
        held = self._held.pop(uid, None)
        if held is None:
            return
        on = self._on[held.node]
        on.discard(uid)
        if not on:
            del self._on[held.node]
        self._account(held, -1)
        for listener in self._listeners:
            listener.gave_back(uid, held)

    def _account(self, held: Held, sign: int) -> None:
        self.version += 1
        room = self._room
        row = self._row_of.get(held.node)
        if room is None or row is None:
            return
        if any(name not in self._columns for name in held.shape.requests):
            self._room = None  # a resource nobody has named before: the table needs another column
            return
        if room.kept is not None:
            room.kept.touch(row)
        for name, amount in held.shape.requests.items():
            room.free[row, self._columns[name]] -= sign * amount
            if held.gang[1] and room.ending is not None:
                room.ending[row, self._columns[name]] += sign * amount
        if held.shape.one_per_node:
            rows = room.taken.setdefault(berth(held.shape), {})
            rows[row] = rows.get(row, 0) + sign
            if rows[row] <= 0:
                del rows[row]
                if not rows:
                    del room.taken[berth(held.shape)]

    def _build(self) -> Room:
        names = tuple(sorted(self.nodes))
        self._row_of = {name: row for row, name in enumerate(names)}
        self._columns = dict(self._columns)
        self._add_columns(self.nodes[name].allocatable for name in names)
        self._add_columns(held.shape.requests for held in self._held.values())
        allocatable = self._table(names)
        layout = self._layout(names)
        room = Room(
            layout=layout,
            free=allocatable.copy(),
            allocatable=allocatable,
            ending=np.zeros_like(allocatable),
            kept=Kept(len(names)),
        )
        self._room = room
        for held in self._held.values():
            self._account_built(room, held)
        return room

    def _account_built(self, room: Room, held: Held) -> None:
        row = self._row_of.get(held.node)
        if row is None:
            return
        for name, amount in held.shape.requests.items():
            room.free[row, self._columns[name]] -= amount
            if held.gang[1] and room.ending is not None:
                room.ending[row, self._columns[name]] += amount
        if held.shape.one_per_node:
            rows = room.taken.setdefault(berth(held.shape), {})
            rows[row] = rows.get(row, 0) + 1

    def _add_columns(self, vectors: Iterable[ResourceVector]) -> None:
        for vector in vectors:
            for name in vector:
                self._columns.setdefault(name, len(self._columns))

    def _table(self, names: tuple[str, ...]) -> Amounts:
        table = np.zeros((len(names), len(self._columns)), dtype=np.int64)
        for row, name in enumerate(names):
            for resource, amount in self.nodes[name].allocatable.items():
                table[row, self._columns[resource]] = amount
        return table

    def _layout(self, names: tuple[str, ...]) -> Layout:
        classes: dict[NodeClass, int] = {}
        class_of = np.zeros(len(names), dtype=np.int32)
        usable = np.zeros(len(names), dtype=np.bool_)
        for row, name in enumerate(names):
            node = self.nodes[name]
            class_of[row] = classes.setdefault(_kind(node), len(classes))
            usable[row] = node.ready and not node.cordoned
        hosts = tuple(_host(self.nodes[name]) for name in names)
        return Layout(
            names=names,
            hosts=hosts,
            columns=self._columns,
            classes=tuple(classes),
            class_of=class_of,
            usable=usable,
            images=tuple(self.nodes[name].images for name in names),
            cordoned=sum(self.nodes[name].cordoned for name in names),
        )


def _kind(node: NodeView) -> NodeClass:
    return NodeClass(tuple(sorted((key, value) for key, value in node.labels.items() if key != HOSTNAME)), node.taints)


def _host(node: NodeView) -> str:
    return node.labels.get(HOSTNAME, node.name)


def _differs(old: NodeView, new: NodeView) -> bool:
    """Whether anything that decides about room has changed."""
    return (old.labels, old.taints, old.cordoned, old.ready, old.allocatable) != (
        new.labels,
        new.taints,
        new.cordoned,
        new.ready,
        new.allocatable,
    )
