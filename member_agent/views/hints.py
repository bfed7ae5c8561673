"""Annotations that plugins of the scheduler read, as pods and PodGroups carry them: those alone are kept, equal ones once."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from member_agent.views.meta import Meta

Hints = tuple[tuple[str, str], ...]
"""Annotations by name, in order of names."""

TASK_PRIORITY: Final = "volcano.sh/task-priority"
STRATEGY_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
TASK_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER: Final = "volcano.sh/task-topology-task-order"

OF_PODS: Final = (STRATEGY_TYPE, STRATEGY_WEIGHT, TASK_PRIORITY)
OF_GROUPS: Final = (TASK_AFFINITY, TASK_ANTI_AFFINITY, TASK_ORDER)

KEPT: Final = 4096
"""Different hints that are shared; older ones are forgotten and no longer shared."""


def hints_of(meta: Meta, names: tuple[str, ...]) -> Hints:
    """The named annotations that are there."""
    given = meta.annotations
    if not given or given.keys().isdisjoint(names):
        return ()
    return _shared(tuple((name, given[name]) for name in names if name in given))


@lru_cache(maxsize=KEPT)
def _shared(hints: Hints) -> Hints:
    """The one object equal to `hints`."""
    return hints


def hint(hints: Hints, name: str) -> str:
    """The annotation, or ""."""
    return next((text for key, text in hints if key == name), "")
