"""Which clusters a divided or duplicated object goes to: spread constraints (reference/karmada.md 3.5).

Without constraints, and for static weights, all candidates. By cluster alone, as upstream does it. By region, zone, provider or
label, all alike: of all sets that hold every bound and have the room, the one whose clusters come first in order. Upstream
knows regions only, and does not look at their room.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies.division import Strategy
from policies.members import ClusterView
from policies.placements import SpreadRule

STEPS: Final = 10_000
"""Clusters that one search tries to take or leave: with a few bounds it needs about one for each cluster. One that needs more
is given up, because a round must go on."""

CLUSTER: Final = "cluster"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster that passed the filters. `available` are replicas it has room for and those it runs; `groups` are the values it
    has for each rule, by `SpreadRule.by`. `tier` is that of its overflow affinity."""

    name: str
    available: int
    score: float = 0.0
    tier: int = 0
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, float, int, str]:
        """Better ones sort first."""
        return (self.tier, -self.score, -self.available, self.name)


@dataclass(frozen=True, slots=True)
class Selection:
    """Clusters in order, or none and why."""

    clusters: tuple[str, ...] = ()
    text: str = ""


def groups_of(cluster: ClusterView, rules: Sequence[SpreadRule]) -> dict[str, tuple[str, ...]]:
    """The groups that a cluster belongs to, by rule: a cluster with several zones belongs to all of them."""
    found: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        if rule.label:
            found[rule.by] = (cluster.labels[rule.by],) if rule.by in cluster.labels else ()
        elif rule.by != CLUSTER:
            found[rule.by] = tuple(value for value in cluster.properties.get(rule.by, ()) if value)
    return found


def select(
    candidates: Sequence[Candidate], rules: Sequence[SpreadRule], *, strategy: Strategy | None, replicas: int
) -> Selection:
    """The clusters among which `replicas` are divided. Copies (Duplicated) need no room together."""
    ordered = sorted(candidates, key=lambda each: each.order)
    if not ordered:
        return Selection(text="no cluster passed the filters")
    if not rules or strategy is Strategy.STATIC:
        return Selection(tuple(each.name for each in ordered))
    needed = 0 if strategy is Strategy.DUPLICATED else max(replicas, 0)
    clusters = next((rule for rule in rules if rule.by == CLUSTER and not rule.label), SpreadRule(CLUSTER))
    others = [rule for rule in rules if rule.label or rule.by != CLUSTER]
    if not others:
        return _by_cluster(ordered, clusters, needed=needed)
    return _by_groups(ordered, clusters, others, needed=needed)


def _by_cluster(ordered: Sequence[Candidate], rule: SpreadRule, *, needed: int) -> Selection:
    """The first ones; while room is short, from the last of them upward, each makes way for the roomiest of the rest."""
    if len(ordered) < rule.least:
        return Selection(text=f"{len(ordered)} clusters fit, at least {rule.least} are needed")
    most = min(len(ordered), rule.most or len(ordered))
    chosen, rest = list(ordered[:most]), list(ordered[most:])
    for at in range(most - 1, -1, -1):
        if sum(each.available for each in chosen) >= needed or not rest:
            break
        largest = max(range(len(rest)), key=lambda index: (rest[index].available, -index))
        if rest[largest].available > chosen[at].available:
            chosen[at], rest[largest] = rest[largest], chosen[at]
    room = sum(each.available for each in chosen)
    if room < needed:
        return Selection(text=f"{most} clusters have room for {room} of {needed} replicas")
    return Selection(tuple(each.name for each in sorted(chosen, key=lambda each: each.order)))


def _by_groups(ordered: Sequence[Candidate], clusters: SpreadRule, rules: Sequence[SpreadRule], *, needed: int) -> Selection:
    able = [each for each in ordered if all(each.groups.get(rule.by) for rule in rules)]
    if not able:
        return Selection(text=f"no cluster that fits has a {' and a '.join(rule.by for rule in rules)}")
    search = _Search(able, clusters, rules, needed=needed)
    found = search.run()
    if found:
        return Selection(tuple(each.name for each in found))
    if search.steps > STEPS:
        return Selection(text=f"no choice among {len(able)} clusters was found that holds all spread constraints")
    bounds = ", ".join(f"{rule.by} {rule.least} to {rule.most or 'any'}" for rule in (clusters, *rules))
    room = f" with room for {needed} replicas" if needed else ""
    return Selection(text=f"no choice among {len(able)} clusters holds all spread constraints ({bounds}){room}")


class _Search:
    """Takes or leaves one cluster after the other, taking first; turns back as soon as a bound cannot be held any more."""

    def __init__(
        self, candidates: Sequence[Candidate], clusters: SpreadRule, rules: Sequence[SpreadRule], *, needed: int
    ) -> None:
        self._all = candidates
        self._clusters = clusters
        self._rules = rules
        self._needed = needed
        self._chosen: list[Candidate] = []
        self._room = 0
        self._have: dict[str, Counter[str]] = {rule.by: Counter() for rule in rules}
        self._reach = _reaches(candidates, rules)
        self._widest = {rule.by: max(len(each.groups[rule.by]) for each in candidates) for rule in rules}
        self._best: dict[tuple[int, int], int] = {}
        self.steps = 0

    def run(self) -> list[Candidate]:
        """The first set in order; empty where there is none, or none within STEPS."""
        # By hand instead of by recursion: a thousand clusters would be a thousand frames.
        taken: list[bool] = []
        while True:
            self.steps += 1
            if self.steps > STEPS:
                return []
            if self._possible(at=len(taken)):
                if len(taken) == len(self._all):
                    return self._chosen
                self._take(self._all[len(taken)])
                taken.append(True)
                continue
            while taken and not taken[-1]:
                taken.pop()
            if not taken:
                return []
            self._leave()
            taken[-1] = False

    def _take(self, candidate: Candidate) -> None:
        self._chosen.append(candidate)
        self._room += candidate.available
        for by, have in self._have.items():
            have.update(candidate.groups[by])

    def _leave(self) -> None:
        candidate = self._chosen.pop()
        self._room -= candidate.available
        for by, have in self._have.items():
            have.subtract(candidate.groups[by])
            for value in candidate.groups[by]:
                if not have[value]:
                    del have[value]

    def _possible(self, *, at: int) -> bool:
        """Whether clusters from `at` on could complete the choice."""
        left, count = len(self._all) - at, len(self._chosen)
        slots = min(left, self._clusters.most - count) if self._clusters.most else left
        if slots < 0 or count + slots < max(1, self._clusters.least):
            return False
        if not all(self._rule_possible(rule, at=at, slots=slots) for rule in self._rules):
            return False
        return self._room >= self._needed or self._room + self._best_room(at, slots) >= self._needed

    def _rule_possible(self, rule: SpreadRule, *, at: int, slots: int) -> bool:
        have = self._have[rule.by]
        if rule.most and len(have) > rule.most:
            return False
        missing = rule.least - len(have)
        if missing <= 0:
            return True
        return missing <= slots * self._widest[rule.by] and len(have.keys() | self._reach[at][rule.by]) >= rule.least

    def _best_room(self, at: int, slots: int) -> int:
        """Room of the roomiest `slots` clusters from `at` on."""
        known = self._best.get((at, slots))
        if known is None:
            known = sum(heapq.nlargest(slots, (each.available for each in self._all[at:])))
            self._best[at, slots] = known
        return known


def _reaches(candidates: Sequence[Candidate], rules: Sequence[SpreadRule]) -> list[dict[str, frozenset[str]]]:
    """For every place in the order, the groups of the clusters from there on."""
    reach = [{rule.by: frozenset[str]() for rule in rules}]
    for each in reversed(candidates):
        after = reach[-1]
        new = {by: there if there.issuperset(each.groups[by]) else there.union(each.groups[by]) for by, there in after.items()}
        reach.append(new if new != after else after)
    return reach[::-1]
