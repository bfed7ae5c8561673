"""Required terms over other pods, as limits on rows (kube-scheduler's filters InterPodAffinity and PodTopologySpread).

A pod that is on its way out counts until it is gone, also for spreading.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from member_agent.grouping import AtMost, Company, Even, Group, Together
from member_agent.layout import UNBOUNDED, Mask
from member_agent.scheduling.surroundings import Surroundings
from member_agent.topology import Counts
from policies.neighbours import Neighbours, Spread
from policies.shapes import PodShape

AWAY, APART, BESIDE, SPREAD = (
    "kept away by anti-affinity of pods there",
    "ruled out by anti-affinity",
    "ruled out by pod affinity",
    "ruled out by topology spread",
)


def company(shape: PodShape, around: Surroundings, *, affinity: bool, spread: bool) -> Company | None:
    """What holds for the shape now; None where nobody says anything."""
    shut: list[tuple[str, Mask]] = []
    groups: list[Group] = []
    alone = False
    if affinity:
        for label, book in around.keeping_away(shape):
            shut.append((AWAY, around.layout.topology(label).by_row(book.by_domain(label) > 0)))
    asks = shape.neighbours
    if asks is not None and affinity:
        alone = _apart(shape, asks, around, shut, groups)
        groups += _beside(shape, asks, around, shut)
    if asks is not None and spread:
        groups += _spread(shape, asks, around, shut)
    if not (shut or groups or alone):
        return None
    return Company(tuple(shut), alone=alone, groups=tuple(groups))


def _apart(shape: PodShape, asks: Neighbours, around: Surroundings, shut: list[tuple[str, Mask]], groups: list[Group]) -> bool:
    """Whether pods of the shape keep apart from one another by node."""
    alone = False
    for term in asks.apart:
        topology = around.layout.topology(term.topology)
        shut.append((APART, topology.by_row(around.members(term.crowd).by_domain(term.topology) > 0)))
        if term.crowd not in shape.seen:
            continue
        if topology.single:
            alone = True
            continue
        left = np.ones(topology.size + 1, dtype=np.int64)
        left[topology.size] = UNBOUNDED
        groups.append(AtMost(term.topology, topology, left))
    return alone


def _beside(shape: PodShape, asks: Neighbours, around: Surroundings, shut: list[tuple[str, Mask]]) -> Iterator[Group]:
    if not asks.beside:
        return
    layout, crowd = around.layout, asks.beside[0].crowd
    labels = tuple(dict.fromkeys(each.topology for each in asks.beside))
    counts = {label: around.members(crowd).by_domain(label) for label in labels}
    if any(count.any() for count in counts.values()) or crowd not in shape.seen:
        for label, count in counts.items():
            shut.append((BESIDE, layout.topology(label).by_row(count == 0)))
        return
    # The first pod of a group that wants its own kind may start anywhere; the others follow it.
    for label in labels:
        topology = layout.topology(label)
        shut.append((BESIDE, topology.of_row == topology.size))
    yield Together(" and ".join(labels), layout.topology_of(labels))


def _spread(shape: PodShape, asks: Neighbours, around: Surroundings, shut: list[tuple[str, Mask]]) -> Iterator[Group]:
    hard = [each for each in asks.spreads if each.hard]
    if not hard:
        return
    labelled = np.ones(len(around.layout.names), dtype=np.bool_)
    for each in hard:
        topology = around.layout.topology(each.topology)
        labelled &= topology.of_row != topology.size
    for each in hard:
        topology = around.layout.topology(each.topology)
        counts, counted = spread_counts(shape, each, around, labelled=labelled)
        enough = int(counted.sum()) >= each.least_domains
        itself = each.crowd in shape.seen
        even = Even(each.topology, topology, counts, counted, each.skew)
        fewest = even.fewest if enough else 0
        over = counts + int(itself) - fewest > each.skew
        over[topology.size] = True
        shut.append((SPREAD, topology.by_row(over)))
        if itself:
            yield even if enough else AtMost(each.topology, topology, np.maximum(each.skew - counts, 0))


def spread_counts(shape: PodShape, spread: Spread, around: Surroundings, *, labelled: Mask) -> tuple[Counts, Mask]:
    """Pods of the crowd by domain, and the domains that count: those of nodes that have all labels and, as the constraint says,
    that the pod itself could run on."""
    layout = around.layout
    topology, eligible = layout.topology(spread.topology), labelled
    if spread.honours_selector and (shape.node_selector or shape.node_affinity):
        eligible = eligible & layout.selected(shape)
    if spread.honours_taints:
        eligible = eligible & layout.tolerated(shape)
    book = around.members(spread.crowd)
    if eligible.all():
        return book.by_domain(spread.topology), topology.any(eligible)
    return topology.sums(np.where(eligible, book.by_row(), 0)), topology.any(eligible)
