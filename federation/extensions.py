"""Filters and scores that are installed beside the hub, by entry point (docs/concepts/placement-rules.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from machinery.extensions import entry_points
from policies import extending, filters, scores

log = logging.getLogger(__name__)


class Unusable(Exception):
    """An installed rule cannot be used, or settings name one that is not installed; the message says which and why."""


class Found(Protocol):
    """An entry point."""

    @property
    def name(self) -> str:
        """By which settings and profiles name the rule."""
        ...

    def load(self) -> object:
        """The rule."""
        ...


def install(filter_points: Iterable[Found] | None = None, score_points: Iterable[Found] | None = None) -> None:
    """Add what is installed, once, before the hub starts. Raises Unusable."""
    for each in entry_points(extending.FILTER_ENTRY_POINTS) if filter_points is None else filter_points:
        filters.FILTERS.add(each.name, extending.guarded_filter(each.name, _loaded(each)))
    for each in entry_points(extending.SCORE_ENTRY_POINTS) if score_points is None else score_points:
        scores.SCORES.add(each.name, extending.guarded_score(each.name, _loaded(each)))


def _loaded(found: Found) -> Callable[..., object]:
    try:
        rule = found.load()
    except (ImportError, AttributeError) as error:
        raise Unusable(f"rule {found.name} cannot be loaded: {error}") from error
    if not callable(rule):
        raise Unusable(f"rule {found.name} is no function but {type(rule).__name__}")
    log.info("placement rule %s is installed", found.name)
    return rule


def check(names: Iterable[str]) -> None:
    """Whether all filters that settings name are there; raises Unusable."""
    missing = [name for name in names if name not in filters.FILTERS]
    if missing:
        raise Unusable(f"no filter {', '.join(missing)} is installed; there are {', '.join(filters.FILTERS)}")
