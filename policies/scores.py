"""Scores: 0..100 per rule for a cluster that passed the filters, weighed by the profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.extending import Registry
from policies.filters import Question

Score = Callable[[Question], int]


def balance(question: Question) -> int:
    """How much of what is free stays free, in the scarcest resource the Job asks for."""
    if question.room is None:
        return 0
    free = question.room.free
    shares = [float(amount) / float(max(free.get(name), 1)) for name, amount in question.gang.requests.items() if amount > 0]
    return _bounded(100 * (1 - max(shares, default=0.0)))


def packing(question: Question) -> int:
    """How little of what is free stays free, in the scarcest resource the Job asks for: large holes are kept for large Jobs."""
    return 100 - balance(question) if question.room is not None else 0


def stability(question: Question) -> int:
    """100 for a cluster where starts have not timed out lately."""
    return _bounded(100 * (1 - question.penalty))


def _bounded(value: float) -> int:
    return max(0, min(100, round(value)))


SCORES: Final[Registry[Score]] = Registry({"balance": balance, "packing": packing, "stability": stability})
"""All scores that judge one cluster, by the name that profiles use; those of other packages are added when the hub starts."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """Smaller is better: the policy's own clusters before its overflow, the whole Job fits before only its minimum, a sure fit
    before an unsure one, then score and name."""

    tier: int
    partial: bool
    unsure: bool
    minus_total: int
    cluster: str


def weigh(question: Question, *, weights: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Each rule's score, and their weighted mean less the penalty's share, rounded: room never outweighs late starts."""
    scores = {name: SCORES[name](question) for name in sorted(weights)}
    mean = sum(scores[name] * weight for name, weight in weights.items()) / (sum(weights.values()) or 1)
    return scores, round(mean * (1 - question.penalty))
