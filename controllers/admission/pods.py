"""The rules of a pod that our scheduler places (reference/volcano.md 1.4): disruption budgets, and the gate before its queue.

Pods of other schedulers are nobody's business here: every function passes them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from copy import deepcopy
from typing import Any, Final

from apis.keys import QUEUE_GATE
from controllers.admission.documents import Manifest, listing, mapping, notes_of
from controllers.admission.problems import Problem
from controllers.admission.resource_groups import ResourceGroup, fill, group_of

MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
GATE: Final = QUEUE_GATE
_PERCENT: Final = re.compile(r"([0-9]{1,9})%")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


def validate_pod(pod: Manifest, *, schedulers: Collection[str]) -> list[Problem]:
    """Everything that keeps a new pod of ours from being taken."""
    if _spec(pod).get("schedulerName") not in schedulers:
        return []
    notes = notes_of(pod)
    found = [problem for key in (MIN_AVAILABLE, MAX_UNAVAILABLE) if key in notes for problem in _budget(notes[key], key=key)]
    if MIN_AVAILABLE in notes and MAX_UNAVAILABLE in notes:
        text = f"not allow configure multiple annotations {MIN_AVAILABLE} and {MAX_UNAVAILABLE} at the same time"
        found.append(Problem("metadata.annotations", text))
    return found


def default_pod(
    pod: Manifest,
    *,
    schedulers: Collection[str],
    groups: tuple[ResourceGroup, ...] = (),
    gates: bool = False,
    namespace: str = "",
) -> dict[str, Any]:
    """The pod completed: by the first resource group it belongs to, and with the gate it asks for where `gates` are on.

    `namespace` is that of the request, for pods that do not carry it yet. What the pod says itself stays.
    """
    filled: dict[str, Any] = deepcopy(dict(pod))
    group = group_of(pod, groups=groups, namespace=namespace)
    if group is not None:
        filled["spec"] = fill(_spec(filled), group=group)
    wants = gates and notes_of(pod).get(GATE) == "true" and _spec(filled).get("schedulerName") in schedulers
    present = [each for each in listing(_spec(filled).get("schedulingGates")) if isinstance(each, dict)]
    if wants and all(each.get("name") != GATE for each in present):
        filled["spec"] = {**_spec(filled), "schedulingGates": [*present, {"name": GATE}]}
    return filled


def _budget(text: str, *, key: str) -> list[Problem]:
    field = f"metadata.annotations[{key}]"
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        if 1 <= int(percent[1]) <= 99:
            return []
        return [Problem(field, f"{text!r} must be a valid percentage which between 1% ~ 99%")]
    if _WHOLE.fullmatch(text) is not None and int(text) > 0:
        return []
    return [Problem(field, f"{text!r} must be a positive integer, or a percentage which between 1% ~ 99%")]


def _spec(pod: Manifest) -> dict[str, Any]:
    return dict(mapping(pod.get("spec")))
