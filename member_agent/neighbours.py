"""Who sits where: pods by their labels and nodes, and what they ask of the pods around them. Kept by deltas.

Scheduling asks it about *crowds*, pods that somebody's terms speak of: how many sit on which node, who keeps them away, who
likes them. A crowd is counted from the moment that a pod which waits or runs speaks of it, until none does.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from machinery.informer import Change
from member_agent.inventory import Held
from member_agent.views import PodView
from member_agent.views.labels import NUMBERING
from member_agent.views.namespaces import NamespaceView
from policies.neighbours import Crowd, Labels, Neighbours, PodTerm
from policies.shapes import PodShape, Pool

Place = Mapping[str, int]
"""Amounts by node: pods, or weights."""

MARKS_KEPT: Final = 1 << 16
"""Pods whose crowds are remembered, by shape and labels."""

HARD_WEIGHT: Final = 1
"""What required affinity of a pod that runs weighs for newcomers that it speaks of (kube-scheduler's default)."""


@dataclass(frozen=True, slots=True)
class Around:
    """A frozen look: pods of each crowd by node; by crowd and topology label, the nodes of pods that keep it away, and of
    those that would rather have it near (or, below zero, far)."""

    members: Mapping[Crowd, Place] = field(default_factory=dict)
    keeping_away: Mapping[Crowd, Mapping[str, Place]] = field(default_factory=dict)
    liking: Mapping[Crowd, Mapping[str, Place]] = field(default_factory=dict)


NOBODY: Final = Around()


def likes(neighbours: Neighbours) -> Iterator[tuple[PodTerm, int]]:
    """What a pod that runs adds to the scores of newcomers."""
    yield from neighbours.prefers
    for term in neighbours.beside:
        yield term, HARD_WEIGHT


class _Leaf:
    """Amounts by node that are copied before they change once somebody has looked at them."""

    __slots__ = ("place", "_looked_at")

    def __init__(self) -> None:
        self.place: dict[str, int] = {}
        self._looked_at = False

    def look(self) -> Place:
        self._looked_at = True
        return self.place

    def add(self, node: str, amount: int) -> None:
        if self._looked_at:
            self.place, self._looked_at = dict(self.place), False
        after = self.place.get(node, 0) + amount
        if after:
            self.place[node] = after
        else:
            self.place.pop(node, None)


class Neighbourhood:
    """A listener of the inventory, of namespaces, and of pods that wait."""

    def __init__(self, held: Callable[[], Iterable[Held]]) -> None:
        """`held`: everything that holds room, for the rare case that all of it must be looked at."""
        self.version = 0
        """Grows when crowds come and go: `seen` may answer otherwise then."""
        self._held = held
        self._reads_numbers = False
        self._classes: dict[str, dict[Labels, dict[str, int]]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._speakers: Counter[Crowd] = Counter()
        self._waiting: Counter[PodShape] = Counter()
        self._members: dict[Crowd, _Leaf] = {}
        self._anchored: dict[tuple[str, str], dict[Crowd, None]] = {}
        self._loose: dict[Crowd, None] = {}
        self._order: dict[Crowd, int] = {}
        self._met = 0
        self._away: dict[Crowd, dict[str, _Leaf]] = {}
        self._liking: dict[Crowd, dict[str, _Leaf]] = {}
        self._frozen: Around | None = NOBODY
        self._pool = Pool()
        self._marks: dict[tuple[PodShape, str, Labels, Labels], PodShape] = {}
        self._marked_at = 0
        self._marked_pods: dict[str, tuple[PodView, PodView]] = {}
        self._crowds: dict[Crowd, Crowd] = {}

    # --- deltas ------------------------------------------------------------------------------------------------------

    def took(self, uid: str, held: Held) -> None:
        """A pod took its room."""
        self._account(held, 1)

    def gave_back(self, uid: str, held: Held) -> None:
        """A pod gave its room back."""
        self._marked_pods.pop(uid, None)
        self._account(held, -1)

    def waits(self, pod: PodView) -> None:
        """A pod waits: whoever it speaks of is counted."""
        shape = pod.shape
        if shape.neighbours is not None:
            self._waiting[shape] += 1
            if self._waiting[shape] == 1:
                self._speak(shape.neighbours, 1)

    def waits_no_more(self, pod: PodView) -> None:
        """It does not any more."""
        shape = pod.shape
        self._marked_pods.pop(pod.uid, None)
        if shape.neighbours is not None:
            self._waiting[shape] -= 1
            if not self._waiting[shape]:
                del self._waiting[shape]
                self._speak(shape.neighbours, -1)

    def namespace_changed(self, change: Change[NamespaceView]) -> bool:
        """A namespace came, went or got other labels; whether that changes who belongs to a crowd."""
        name = change.key[1]
        before = self._namespaces.get(name, {})
        if change.new is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = change.new.labels
        concerned = [crowd for crowd in self._members if crowd.reads_namespaces]
        if not concerned or before == self._namespaces.get(name, {}):
            return False
        for crowd in concerned:
            self._members[crowd] = self._counted(crowd)
        self._changed()
        return True

    def _account(self, held: Held, sign: int) -> None:
        namespace, labels = held.gang[0], held.labels
        if self._reads_numbers:
            labels += held.own_labels
        self._seat(namespace, labels, held.node, sign)
        for crowd in self.seen(namespace, held.labels, held.own_labels):
            self._members[crowd].add(held.node, sign)
            self._frozen = None
        asks = held.shape.neighbours
        if asks is not None:
            self._speak(asks, sign)
            for term in asks.apart:
                self._note(self._away, term, held.node, sign)
            for term, weight in likes(asks):
                self._note(self._liking, term, held.node, sign * weight)

    def _seat(self, namespace: str, labels: Labels, node: str, sign: int) -> None:
        classes = self._classes.setdefault(namespace, {})
        nodes = classes.setdefault(labels, {})
        after = nodes.get(node, 0) + sign
        if after:
            nodes[node] = after
            return
        nodes.pop(node, None)
        if not nodes:
            del classes[labels]
        if not classes:
            del self._classes[namespace]

    def _note(self, books: dict[Crowd, dict[str, _Leaf]], term: PodTerm, node: str, amount: int) -> None:
        by_label = books.setdefault(term.crowd, {})
        leaf = by_label.get(term.topology)
        if leaf is None:
            leaf = by_label[term.topology] = _Leaf()
        leaf.add(node, amount)
        if not leaf.place:
            del by_label[term.topology]
        if not by_label:
            del books[term.crowd]
        self._frozen = None

    # --- crowds ------------------------------------------------------------------------------------------------------

    def _speak(self, asks: Neighbours, sign: int) -> None:
        for crowd in asks.crowds:
            self._speakers[crowd] += sign
            if sign > 0 and self._speakers[crowd] == 1:
                self._meet(crowd)
            elif not self._speakers[crowd]:
                self._part(crowd)

    def _meet(self, crowd: Crowd) -> None:
        if not self._reads_numbers and _reads(crowd, NUMBERING):
            self._reads_numbers = True
            self._classes.clear()
            for held in self._held():
                self._seat(held.gang[0], held.labels + held.own_labels, held.node, 1)
        for index in self._anchors(crowd):
            index[crowd] = None
        self._met += 1
        self._order[crowd] = self._met
        self._members[crowd] = self._counted(crowd)
        self._crowds[crowd] = crowd
        self._changed()

    def _part(self, crowd: Crowd) -> None:
        for index in self._anchors(crowd):
            index.pop(crowd, None)
        for pair in _pairs(crowd):
            if not self._anchored.get(pair, True):
                del self._anchored[pair]
        del self._speakers[crowd], self._members[crowd], self._order[crowd], self._crowds[crowd]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._frozen = None

    def _anchors(self, crowd: Crowd) -> list[dict[Crowd, None]]:
        """Where the crowd is looked for: under each label of which its pods must have one, else among the loose ones."""
        pairs = _pairs(crowd)
        return [self._anchored.setdefault(pair, {}) for pair in pairs] if pairs else [self._loose]

    def _counted(self, crowd: Crowd) -> _Leaf:
        leaf = _Leaf()
        for namespace in self._spaces(crowd):
            of_namespace = self._namespaces.get(namespace, {})
            for labels, nodes in self._classes.get(namespace, {}).items():
                if crowd.has(namespace, dict(labels), of_namespace=of_namespace):
                    for node, count in nodes.items():
                        leaf.add(node, count)
        return leaf

    def _spaces(self, crowd: Crowd) -> Iterable[str]:
        """Namespaces in which its pods may be."""
        return tuple(self._classes) if crowd.reads_namespaces else crowd.selectors[0].spaces

    # --- reading -----------------------------------------------------------------------------------------------------

    def seen(self, namespace: str, labels: Labels, own: Labels = ()) -> tuple[Crowd, ...]:
        """The crowds to which a pod of these labels belongs, in the order in which they were met."""
        if not self._members:
            return ()
        found = dict(self._loose)
        for pair in (*labels, *own):
            found.update(self._anchored.get(pair, {}))
        if not found:
            return ()
        mapping, of_namespace = dict((*labels, *own)), self._namespaces.get(namespace, {})
        belongs = [each for each in found if each.has(namespace, mapping, of_namespace=of_namespace)]
        return tuple(sorted(belongs, key=self._order.__getitem__))

    def counted_as(self, pod: PodView) -> PodShape:
        """The shape of a pod with the crowds in which it counts; equal ones are one object."""
        if not self._members:
            return pod.shape
        if self._marked_at != self.version:
            self._marks.clear()
            self._marked_at = self.version
        own = pod.own_labels if self._reads_numbers else ()
        key = (pod.shape, pod.namespace, pod.labels, own)
        known = self._marks.get(key)
        if known is None:
            if len(self._marks) >= MARKS_KEPT:
                self._marks.clear()
            crowds = self.seen(pod.namespace, pod.labels, own)
            asks = self._shared(pod.shape.neighbours)
            shape = pod.shape if crowds == pod.shape.seen else dataclasses.replace(pod.shape, seen=crowds, neighbours=asks)
            known = self._marks[key] = self._pool.shape(shape)
        return known

    def _shared(self, asks: Neighbours | None) -> Neighbours | None:
        """The same with the crowds that are counted here: comparing equal ones would go through all that they say."""
        if asks is None:
            return None

        def term(each: PodTerm) -> PodTerm:
            return PodTerm(self._crowds.get(each.crowd, each.crowd), each.topology)

        return Neighbours(
            beside=tuple(term(each) for each in asks.beside),
            apart=tuple(term(each) for each in asks.apart),
            prefers=tuple((term(each), weight) for each, weight in asks.prefers),
            spreads=tuple(dataclasses.replace(each, crowd=self._crowds.get(each.crowd, each.crowd)) for each in asks.spreads),
        )

    def marked(self, pods: tuple[PodView, ...]) -> tuple[PodView, ...]:
        """The pods with shapes that say in which crowds they count."""
        if not self._members or not pods:
            return pods
        found: list[PodView] = []
        last, shape = pods[0], self.counted_as(pods[0])
        for pod in pods:
            # Pods of one template follow each other: most have the shape and the labels of the one before.
            if not self._alike(pod, last):
                last, shape = pod, self.counted_as(pod)
            found.append(pod if shape is pod.shape else self._with(pod, shape))
        return tuple(found)

    def _alike(self, one: PodView, other: PodView) -> bool:
        if one.shape is not other.shape or one.labels is not other.labels or one.namespace != other.namespace:
            return False
        return not self._reads_numbers or one.own_labels is other.own_labels

    def _with(self, pod: PodView, shape: PodShape) -> PodView:
        known = self._marked_pods.get(pod.uid)
        if known is None or known[0] is not pod or known[1].shape is not shape:
            if len(self._marked_pods) >= MARKS_KEPT:
                self._marked_pods.clear()
            known = self._marked_pods[pod.uid] = (pod, with_shape(pod, shape))
        return known[1]

    def freeze(self) -> Around:
        """How it is now; the same object until something changes."""
        if self._frozen is None:
            self._frozen = Around(
                members={crowd: leaf.look() for crowd, leaf in self._members.items()},
                keeping_away=_look(self._away),
                liking=_look(self._liking),
            )
        return self._frozen


_FIELDS: Final = tuple(each.name for each in dataclasses.fields(PodView))
_SHAPE: Final = _FIELDS.index("shape")
_values: Final = operator.attrgetter(*_FIELDS)


def with_shape(pod: PodView, shape: PodShape) -> PodView:
    """The pod with another shape, a third of the price of `dataclasses.replace`."""
    values: list[Any] = list(_values(pod))
    values[_SHAPE] = shape
    return PodView(*values)


def _look(books: Mapping[Crowd, Mapping[str, _Leaf]]) -> Mapping[Crowd, Mapping[str, Place]]:
    return {crowd: {label: leaf.look() for label, leaf in by_label.items()} for crowd, by_label in books.items()}


def _pairs(crowd: Crowd) -> tuple[tuple[str, str], ...]:
    """Labels of which every pod of the crowd has at least one; none where no requirement says so."""
    listed = [each for selector in crowd.selectors for each in selector.labels or () if each.operator == "In"]
    fewest = min(listed, key=lambda each: len(each.values), default=None)
    return tuple((fewest.key, value) for value in fewest.values) if fewest is not None else ()


def _reads(crowd: Crowd, names: frozenset[str]) -> bool:
    return any(each.key in names for selector in crowd.selectors for each in selector.labels or ())
