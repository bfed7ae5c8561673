"""Filters and scores of other packages beside those that come along: a registry that is filled once, when the program starts.

A rule is a function of one view, `policies.filters.Question`. A filter answers a Verdict: a code ("" is yes), a sentence, and
the events that could change it. A score answers a number from 0 to 100. Neither sees a client, a clock or chance, and neither
raises to say no; one that raises all the same says no, or 0, and holds up nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from policies.verdicts import Verdict, Wake

T = TypeVar("T")

FILTER_ENTRY_POINTS: Final = "volcano_federation.filters"
SCORE_ENTRY_POINTS: Final = "volcano_federation.scores"
FAILED: Final = "FilterFailed"
"""Code of a cluster of which a filter of another package gave no answer."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_FAULTS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Registry(Mapping[str, T], Generic[T]):
    """Rules by name, built in or added; in the order in which they came."""

    def __init__(self, built_in: Mapping[str, T]) -> None:
        self._rules = dict(built_in)
        self._built_in = frozenset(built_in)

    def __getitem__(self, name: str) -> T:
        return self._rules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, name: str, rule: T) -> None:
        """One more; ValueError for a name that is taken, or is none."""
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a rule: lower case letters, digits and hyphens, at most 40")
        if name in self._rules:
            raise ValueError(f"a rule {name} is there already")
        self._rules[name] = rule

    def remove(self, name: str) -> None:
        """One that was added; KeyError for any other."""
        if name in self._built_in:
            raise KeyError(name)
        del self._rules[name]


def guarded_filter(name: str, rule: Callable[[Any], Any]) -> Callable[[Any], Verdict]:
    """The filter of another package: whatever it does, a Verdict comes out."""

    def judged(question: Any) -> Verdict:
        try:
            found = rule(question)
        except _FAULTS as error:
            return Verdict(FAILED, f"filter {name} failed: {type(error).__name__}: {error}"[:200], (Wake.CLUSTER, Wake.JOB))
        if isinstance(found, Verdict):
            return found
        return Verdict(FAILED, f"filter {name} answered {type(found).__name__} and no Verdict", (Wake.CLUSTER, Wake.JOB))

    return judged


def guarded_score(name: str, rule: Callable[[Any], Any]) -> Callable[[Any], int]:
    """The score of another package: whatever it does, a number from 0 to 100 comes out."""

    def scored(question: Any) -> int:
        try:
            return max(0, min(100, round(float(rule(question)))))
        except (*_FAULTS, OverflowError):
            return 0

    return scored
