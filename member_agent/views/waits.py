"""Why a PodGroup waits, as its condition carries it: reasons that the field knows, own words before the sentence."""

from __future__ import annotations

import re
from typing import Final

from member_agent.views.groups import GroupCondition

NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_OF_TASK: Final = "NotEnoughPodsOfTask"
READY: Final = "tasks ready"
"""Reasons of conditions of PodGroups (reference/volcano.md 2.1)."""

KNOWN: Final = frozenset({NOT_ENOUGH_RESOURCES, NOT_ENOUGH_TASKS, NOT_ENOUGH_OF_TASK})
_OWN: Final = re.compile(r"([A-Z][A-Za-z]+): (.+)", re.DOTALL)


def composed(code: str, sentence: str) -> tuple[str, str]:
    """Reason and message of the condition. A word of our own stands before the sentence: whoever knows only the reasons of the
    field is told that there is not enough."""
    return (code, sentence) if code in KNOWN else (NOT_ENOUGH_RESOURCES, f"{code}: {sentence}")


def read(condition: GroupCondition) -> tuple[str, str]:
    """The word and the sentence."""
    own = _OWN.fullmatch(condition.message) if condition.reason in KNOWN else None
    return (own[1], own[2]) if own is not None else (condition.reason, condition.message)
