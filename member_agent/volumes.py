"""Claims and volumes of the cluster, and what they ask of the nodes of pods. Kept by deltas.

A volume that was promised to a claim is taken from then on, until the claim is bound or the promise is withdrawn.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from machinery.informer import Change, Key
from member_agent.inventory import Held
from member_agent.neighbours import with_shape
from member_agent.views import PodView
from member_agent.views.meta import Named
from member_agent.views.volumes import NO_PROVISIONER, AttachLimits, ClaimView, StorageClassView, VolumeView
from policies.selectors import NODE_NAME, Requirement
from policies.shapes import PodShape
from policies.volumes import SINGLE_POD, Attachment, Offer, Reach, VolumeNeeds, Wanted, reaches

K = TypeVar("K")
V = TypeVar("V", bound=Named)


@dataclass(frozen=True, slots=True)
class Storage:
    """A frozen look: volumes to have, the smallest first; limits by node and driver; what is attached to each node."""

    offers: tuple[Offer, ...] = ()
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    attached: Mapping[str, frozenset[Attachment]] = field(default_factory=dict)


NONE: Final = Storage()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is done for one claim before its pod is bound: it gets `volume`, or (where that is "") one is made on the node."""

    claim: ClaimView
    volume: str = ""
    version: str = ""
    """Of the volume."""
    first: bool = False
    """The node of this pod is where it is made; other pods that use the claim only wait."""


class Volumes:
    """A listener of the inventory and of four kinds of objects. Until it was told that these are watched it says nothing."""

    def __init__(self) -> None:
        self.watched = False
        self.version = 0
        self._claims: dict[Key, ClaimView] = {}
        self._volumes: dict[str, VolumeView] = {}
        self._classes: dict[str, StorageClassView] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._users: dict[Key, dict[str, str]] = {}
        """By claim: UIDs of pods that hold room and use it, with their nodes."""
        self._waiting: Counter[Key] = Counter()
        """By claim: pods without a node that use it."""
        self._chosen: dict[Key, int] = {}
        """Claims for which a volume is being made, with the bindings that wait for it."""
        self._promised: dict[str, Key] = {}
        self._coming: dict[Key, str] = {}
        """By claim: the volume that names it."""
        self._frozen: Storage | None = None
        self._shapes: dict[tuple[PodShape, VolumeNeeds], PodShape] = {}

    # --- deltas ------------------------------------------------------------------------------------------------------

    def claim_changed(self, change: Change[ClaimView]) -> None:
        """A claim came, changed or went."""
        self._changed(self._claims, change.key, change.new)
        if change.new is None or change.new.bound:
            self._chosen.pop(change.key, None)
            for name in [name for name, key in self._promised.items() if key == change.key]:
                del self._promised[name]

    def volume_changed(self, change: Change[VolumeView]) -> None:
        """A volume came, changed or went."""
        self._changed(self._volumes, change.key[1], change.new)
        if change.new is None:
            self._promised.pop(change.key[1], None)
        for view in (change.old, change.new):
            if view is not None and self._coming.get(view.claim[:2]) in (None, view.name):
                self._coming.pop(view.claim[:2], None)
        if change.new is not None and change.new.claim[1]:
            self._coming[change.new.claim[:2]] = change.new.name

    def class_changed(self, change: Change[StorageClassView]) -> None:
        """A storage class came, changed or went."""
        self._changed(self._classes, change.key[1], change.new)

    def limits_changed(self, change: Change[AttachLimits]) -> None:
        """A CSINode came, changed or went."""
        if change.new is None or not change.new.counts:
            self._limits.pop(change.key[1], None)
        else:
            self._limits[change.key[1]] = dict(change.new.counts)
        self._touch()

    def waits(self, pod: PodView, *, times: int = 1) -> None:
        """A pod waits for a node, or with -1 no longer."""
        for name in pod.claims:
            key = (pod.namespace, name)
            self._waiting[key] += times
            if not self._waiting[key]:
                del self._waiting[key]

    def took(self, uid: str, held: Held) -> None:
        """A pod took its room, and with it its claims."""
        for name in held.claims:
            self._users.setdefault((held.gang[0], name), {})[uid] = held.node
            self._touch()

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod gave its room back."""
        for name in held.claims:
            users = self._users.get((held.gang[0], name), {})
            users.pop(uid, None)
            if not users:
                self._users.pop((held.gang[0], name), None)
            self._touch()

    def _changed(self, store: dict[K, V], key: K, new: V | None) -> None:
        if new is None:
            store.pop(key, None)
        else:
            store[key] = new
        self._touch()

    def _touch(self) -> None:
        self.version += 1
        self._frozen = None

    # --- what pods need ----------------------------------------------------------------------------------------------

    def marked(self, pods: tuple[PodView, ...]) -> tuple[PodView, ...]:
        """The pods with shapes that say what their volumes need; pods that need the same have one shape."""
        if not self.watched or not any(pod.claims for pod in pods):
            return pods
        return tuple(self._marked(pod) if pod.claims else pod for pod in pods)

    def _marked(self, pod: PodView) -> PodView:
        needs = self.needs_of(pod)
        key = (pod.shape, needs)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= SHAPES_KEPT:
                self._shapes.clear()
            shape = self._shapes[key] = dataclasses.replace(pod.shape, volumes=needs)
        return with_shape(pod, shape)

    def needs_of(self, pod: PodView, *, begun: bool = False) -> VolumeNeeds:
        """What the claims of a pod ask, in the order in which the pod names them. `begun`: what was promised to them already is
        no reason to wait."""
        reached: list[Reach] = []
        zones: list[Reach] = []
        wanted: list[Wanted] = []
        attached: list[Attachment] = []
        single: list[str] = []
        for name in pod.claims:
            claim = self._claims.get((pod.namespace, name))
            problem = self._problem(claim, pod, name, begun=begun)
            if problem or claim is None:
                return VolumeNeeds(problem=problem)
            if SINGLE_POD in claim.modes:
                single.append(f"{pod.namespace}/{name}")
            if claim.bound:
                volume = self._volumes[claim.volume]
                reached += [volume.reach] if volume.reach else []
                zones += volume.zones
                attached += [(volume.driver, volume.handle)] if volume.driver else []
                continue
            wanted.append(self._wanted(claim))
            if claim.selected_node:
                reached.append(((Requirement(NODE_NAME, "In", (claim.selected_node,)),),))
        return VolumeNeeds(tuple(reached), tuple(zones), tuple(wanted), tuple(attached), tuple(single))

    def _problem(self, claim: ClaimView | None, pod: PodView, name: str, *, begun: bool) -> str:
        if claim is None:
            return f"claim {name} does not exist"
        if claim.deleting or claim.lost:
            return f"claim {name} {'is being deleted' if claim.deleting else 'has lost its volume'}"
        others = self._users.get((pod.namespace, name), {}).keys() - {pod.uid}
        if SINGLE_POD in claim.modes and others:
            return f"claim {name} is for one pod and another one uses it"
        if claim.bound:
            return "" if claim.volume in self._volumes else f"volume {claim.volume} of claim {name} does not exist"
        key = (pod.namespace, name)
        if key in self._coming and not begun:
            return f"claim {name} is being bound to volume {self._coming[key]}"
        if (key in self._chosen or key in self._promised.values()) and not begun:
            return f"claim {name} is being bound for another pod"
        if self._waits(claim):
            return ""
        return f"claim {name} is not bound yet"

    def _waits(self, claim: ClaimView) -> bool:
        """Whether it is bound for its first consumer; a claim that names its volume is bound by others."""
        found = self._classes.get(claim.storage_class)
        return found is not None and found.waits and not claim.volume

    def _wanted(self, claim: ClaimView) -> Wanted:
        found = self._classes[claim.storage_class]
        makes = found.provisioner not in ("", NO_PROVISIONER)
        return Wanted(
            storage_class=claim.storage_class,
            size=claim.size,
            modes=claim.modes,
            block=claim.block,
            labels=claim.labels,
            made=found.reach if makes and not claim.labels else None,
            driver=found.provisioner if makes else "",
            claim=f"{claim.namespace}/{claim.name}" if self._shared((claim.namespace, claim.name)) else "",
        )

    def _shared(self, key: Key) -> bool:
        return self._waiting[key] + len(self._users.get(key, ())) > 1

    # --- looking and promising ---------------------------------------------------------------------------------------

    def freeze(self) -> Storage:
        """How it is now; the same object until something changes."""
        if not self.watched:
            return NONE
        if self._frozen is None:
            free = sorted(self._free(), key=lambda each: (each.size, each.name))
            self._frozen = Storage(tuple(_offer(each) for each in free), dict(self._limits), self._attached())
        return self._frozen

    def _free(self) -> Iterable[VolumeView]:
        for volume in self._volumes.values():
            available = volume.phase in ("", "Pending", "Available") and not volume.deleting
            if available and not volume.claim[1] and volume.name not in self._promised:
                yield volume

    def _attached(self) -> dict[str, frozenset[Attachment]]:
        found: dict[str, set[Attachment]] = {}
        for key, users in self._users.items():
            claim = self._claims.get(key)
            volume = self._volumes.get(claim.volume) if claim is not None and claim.bound else None
            if volume is not None and volume.driver:
                for node in users.values():
                    found.setdefault(node, set()).add((volume.driver, volume.handle))
        return {node: frozenset(each) for node, each in found.items()}

    def assign(self, pod: PodView, *, labels: Mapping[str, str]) -> tuple[Assignment, ...] | str:
        """Promise volumes to the claims of a pod that goes to a node of these labels (its name among them); a sentence where
        there are none left."""
        if not self.watched or not pod.claims:
            return ()
        needs = self.needs_of(pod, begun=True)
        if needs.problem:
            return needs.problem
        found: list[Assignment] = []
        for name in pod.claims:
            claim = self._claims[pod.namespace, name]
            assigned = None if claim.bound else self._assign(claim, labels)
            if isinstance(assigned, str):
                self.withdraw(found)
                return assigned
            found += [assigned] if assigned is not None else []
        return tuple(found)

    def _assign(self, claim: ClaimView, labels: Mapping[str, str]) -> Assignment | str | None:
        """None where a pod before this one has seen to it."""
        key = (claim.namespace, claim.name)
        if key in self._chosen:
            self._chosen[key] += 1
            return Assignment(claim)
        name = self._coming.get(key) or next((volume for volume, owner in self._promised.items() if owner == key), None)
        if name is not None:
            given = self._volumes.get(name)
            return (
                None if given is not None and reaches(given.reach, labels) else f"volume {name} of claim {key[1]} is elsewhere"
            )
        wanted = self._wanted(claim)
        free = sorted(self._free(), key=lambda each: (each.size, each.name))
        volume = next((each for each in free if _offer(each).fits(wanted) and reaches(each.reach, labels)), None)
        if volume is not None:
            self._promised[volume.name] = key
            self._touch()
            return Assignment(claim, volume.name, volume.version)
        if wanted.made is None or not reaches(wanted.made, labels):
            return f"no volume is left for claim {claim.name}"
        self._chosen[key] = 1
        return Assignment(claim, first=True)

    def withdraw(self, assignments: Iterable[Assignment]) -> None:
        """What was promised is for others again."""
        for each in assignments:
            key = (each.claim.namespace, each.claim.name)
            if self._promised.pop(each.volume, None) is not None:
                self._touch()
            if not each.volume and key in self._chosen:
                self._chosen[key] -= 1
                if not self._chosen[key]:
                    del self._chosen[key]

    def astray(self, pod: PodView, *, labels: Mapping[str, str]) -> str:
        """The first claim whose volume a node of these labels does not reach, or ""."""
        for name in pod.claims:
            volume = self._volumes.get(self._claims[pod.namespace, name].volume)
            if volume is not None and not all(reaches(each, labels) for each in (volume.reach, *volume.zones)):
                return name
        return ""

    def settled(self, pod: PodView) -> bool:
        """Whether all claims of the pod are bound."""
        found = [self._claims.get((pod.namespace, name)) for name in pod.claims]
        return all(claim is not None and claim.bound for claim in found)


SHAPES_KEPT: Final = 4096
"""Shapes of pods with volumes that are shared; then sharing starts anew."""


def _offer(volume: VolumeView) -> Offer:
    return Offer(volume.name, volume.storage_class, volume.size, volume.modes, volume.block, volume.labels, volume.reach)
