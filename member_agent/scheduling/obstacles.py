"""Pods on other nodes that keep a pod off one: by anti-affinity of either side, or by topology spread, over a domain that is
wider than a node. Whoever opens a node finds them not on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from member_agent.room import Layout, Mask
from member_agent.scheduling.candidates import Candidates, level_of
from member_agent.scheduling.plugins.protocol import Victim
from policies.neighbours import PodTerm
from policies.shapes import PodShape


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Candidates of one domain that are in the way there, in their order, and the rows of the domain."""

    pods: tuple[Victim, ...]
    rows: Mask


def obstacles(among: Candidates, shape: PodShape, layout: Layout) -> Iterator[Obstacle]:
    """Domains with candidates that are in the way of the shape, the cheapest to clear first."""
    found: dict[tuple[str, int], list[Victim]] = {}
    wide: dict[str, bool] = {}
    for victim in among:
        for term in _between(shape, victim.pod.shape):
            if wide.setdefault(term.topology, not layout.topology(term.topology).single):
                topology = layout.topology(term.topology)
                domain = int(topology.of_row[victim.row])
                if domain != topology.size:
                    listed = found.setdefault((term.topology, domain), [])
                    if not listed or listed[-1] is not victim:
                        listed.append(victim)

    def price(at: tuple[str, int]) -> tuple[int, int, int]:
        listed = found[at]
        return max(map(level_of, listed)), len(listed), among.rank(listed[-1])

    for label, domain in sorted(found, key=price):
        yield Obstacle(tuple(found[label, domain]), layout.topology(label).of_row == domain)


def _between(shape: PodShape, other: PodShape) -> Iterator[PodTerm]:
    """Terms of either that concern the other: where it is, the shape is kept out."""
    asks, theirs = shape.neighbours, other.neighbours
    if asks is not None:
        yield from (term for term in asks.apart if term.crowd in other.seen)
        yield from (PodTerm(each.crowd, each.topology) for each in asks.spreads if each.hard and each.crowd in other.seen)
    if theirs is not None:
        yield from (term for term in theirs.apart if term.crowd in shape.seen)
