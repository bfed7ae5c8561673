"""Builders of pods that ask something of the pods around them, and an oracle that looks at pods one by one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from member_agent.layout import HOSTNAME
from member_agent.scheduling.decisions import Plan
from member_agent.views import NodeView, PodView
from policies.neighbours import Crowd, Neighbours, PodSelector, PodTerm, Spread
from policies.selectors import Requirement
from policies.shapes import PodShape
from tests.member_agent.scheduling.build import Made, gang
from tests.member_agent.test_room import node, shape

ZONE = "zone"
Labels = Mapping[str, str]


def machine(name: str, *, cpu: int, zone: str, **more: Any) -> NodeView:
    """A node in a zone; "-": without the label."""
    return node(name, cpu=cpu, **(more if zone == "-" else more | {ZONE: zone}))


def crowd(app: str, *, spaces: Sequence[str] = ("ns",)) -> Crowd:
    return Crowd((PodSelector(tuple(spaces), None, (Requirement("app", "In", (app,)),)),))


def apart(app: str, *, by: str = HOSTNAME) -> Neighbours:
    return Neighbours(apart=(PodTerm(crowd(app), by),))


def beside(app: str, *, by: str = ZONE) -> Neighbours:
    return Neighbours(beside=(PodTerm(crowd(app), by),))


def prefers(app: str, weight: int, *, by: str = ZONE) -> Neighbours:
    return Neighbours(prefers=((PodTerm(crowd(app), by), weight),))


def spread(app: str, *, by: str = ZONE, skew: int = 1, **more: bool | int) -> Neighbours:
    return Neighbours(spreads=(Spread(crowd(app), by, skew, **more),))  # type: ignore[arg-type]


def asking(asks: Neighbours | None, *, cpu: int = 1) -> PodShape:
    return dataclasses.replace(shape(cpu), neighbours=asks)


def app(name: str, made: Made, *, of: str | None = None) -> Made:
    """The gang with pods that carry the label app."""
    labels = (("app", of or name),)
    return dataclasses.replace(made, pods=tuple(dataclasses.replace(pod, labels=labels) for pod in made.pods))


def crew(
    name: str, asks: Neighbours | None = None, *, pods: int = 1, cpu: int = 1, of: str | None = None, **more: object
) -> Made:
    """A gang of pods with the label app (its own name, unless `of` says otherwise) that ask something of others."""
    return app(name, gang(name, pods=pods, cpu=cpu, shape=asking(asks, cpu=cpu), **more), of=of)  # type: ignore[arg-type]


# --- the oracle ------------------------------------------------------------------------------------------------------

Seat = tuple[PodView, str]


def seats(machines: Sequence[NodeView], gangs: Iterable[Made], found: Plan | None = None) -> list[Seat]:
    """Every pod that has a node, with the node; those that a plan binds last."""
    sitting = [(pod, pod.node) for each in gangs for pod in each.pods if pod.node]
    return sitting + ([(binding.pod, binding.node) for binding in found.bindings] if found is not None else [])


def faults(machines: Sequence[NodeView], sitting: Sequence[Seat], *, newcomers: frozenset[str]) -> list[str]:
    """What is wrong with who sits where, by looking at every pair of pods; only what newcomers have to do with."""
    labels_of = {each.name: each.labels for each in machines}
    said = []
    for pod, seat in sitting:
        asks = pod.shape.neighbours or Neighbours()
        others = [(other, labels_of[where]) for other, where in sitting if other.uid != pod.uid]
        here = labels_of[seat]
        for term in asks.apart:
            near = [other for other, there in others if _same(here, there, term.topology) and _belongs(other, term.crowd)]
            concerned = [other.uid for other in near if {other.uid, pod.uid} & newcomers]
            said += [f"{pod.name} keeps away from {uid} by {term.topology}" for uid in concerned]
        for term in asks.beside if pod.uid in newcomers else ():
            if not any(_same(here, there, term.topology) and _belongs(other, term.crowd) for other, there in others):
                alone = not any(_belongs(other, term.crowd) for other, _ in others) and _belongs(pod, term.crowd)
                said += [] if alone and term.topology in here else [f"{pod.name} sits beside nobody by {term.topology}"]
        for constraint in asks.spreads if pod.uid in newcomers else ():
            said += _uneven(pod, seat, constraint, sitting, machines)
        for port in pod.shape.ports if pod.uid in newcomers else ():
            clash = [other for other, where in sitting if where == seat and other.uid != pod.uid]
            said += [f"{pod.name}: port {port.port}" for other in clash for theirs in other.shape.ports if port.clashes(theirs)]
    return said


def _uneven(pod: PodView, node: str, rule: Spread, sitting: Sequence[Seat], machines: Sequence[NodeView]) -> list[str]:
    if not rule.hard or pod.shape.neighbours is None:
        return []
    needed = {each.topology for each in pod.shape.neighbours.spreads if each.hard}
    domain_of = {each.name: each.labels[rule.topology] for each in machines if needed <= each.labels.keys()}
    if node not in domain_of:
        return [f"{pod.name} sits on a node without {needed}"]
    counts = Counter(dict.fromkeys(domain_of.values(), 0))
    counts.update(domain_of[where] for other, where in sitting if _belongs(other, rule.crowd) and where in domain_of)
    fewest = min(counts.values()) if len(counts) >= rule.least_domains else 0
    mine = domain_of[node]
    return [f"{pod.name} makes {mine} uneven: {dict(counts)}"] if counts[mine] - fewest > rule.skew else []


def _same(here: Labels, there: Labels, label: str) -> bool:
    return label in here and here.get(label) == there.get(label)


def _belongs(pod: PodView, to: Crowd) -> bool:
    return to.has(pod.namespace, dict((*pod.labels, *pod.own_labels)), of_namespace={})
