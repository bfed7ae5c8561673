"""Preferences over other pods, as scores of rows (kube-scheduler's InterPodAffinity and PodTopologySpread)."""

from __future__ import annotations

import math

import numpy as np

from member_agent.layout import HOSTNAME, Mask, Scores
from member_agent.scheduling.companions import spread_counts
from member_agent.scheduling.surroundings import Surroundings
from policies.shapes import PodShape

BEST = 100.0


def affinity_scores(shape: PodShape, around: Surroundings, rows: Mask) -> Scores | None:
    """0..100 by row: weights of what the shape would rather be near to, and of pods that would rather be near it, less those of
    keeping away. None where the rows are all alike."""
    asks = shape.neighbours
    books = [(term.topology, around.members(term.crowd), weight) for term, weight in (asks.prefers if asks is not None else ())]
    books += [(label, book, 1) for label, book in around.liking(shape)]
    if not books or not rows.any():
        return None
    found = np.zeros(len(rows), dtype=np.int64)
    for label, book, weight in books:
        found += weight * around.layout.topology(label).by_row(book.by_domain(label))
    least, most = int(found[rows].min()), int(found[rows].max())
    return BEST * (found - least) / (most - least) if most > least else None


def spread_scores(shape: PodShape, around: Surroundings, rows: Mask) -> Scores | None:
    """0..100 by row: emptier domains of the constraints that are no must; 0 for nodes without one of the labels. A constraint
    over many domains weighs more (by the logarithm of their number)."""
    soft = [each for each in shape.neighbours.spreads if not each.hard] if shape.neighbours is not None else []
    if not soft:
        return None
    layout = around.layout
    labelled = np.ones(len(rows), dtype=np.bool_)
    for each in soft:
        topology = layout.topology(each.topology)
        labelled &= topology.of_row != topology.size
    able = rows & labelled
    if not able.any():
        return None
    found = np.zeros(len(rows))
    for each in soft:
        topology = layout.topology(each.topology)
        counts, _ = spread_counts(shape, each, around, labelled=labelled)
        domains = int(able.sum()) if each.topology == HOSTNAME else int(topology.any(able).sum())
        found += counts[topology.of_row] * math.log(domains + 2) + (each.skew - 1)
    least, most = float(found[able].min()), float(found[able].max())
    scores = BEST * (most + least - found) / most if most > 0 else np.full(len(rows), BEST)
    return np.where(labelled, scores, 0.0)


def changes_itself(shape: PodShape) -> bool:
    """Whether every pod of the shape changes what the next one of it would rather have."""
    asks = shape.neighbours
    if asks is None:
        return False
    own = {*(term.crowd for term, _ in asks.prefers), *(each.crowd for each in asks.spreads if not each.hard)}
    return any(crowd in own for crowd in shape.seen)
