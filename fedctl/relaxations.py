"""`--relax`: changes that a Job is planned with, as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

FORMS: Final = (
    "resume",
    "profile=NAME",
    "queue=NAME",
    "min-available=N",
    "replicas=N",
    "replicas=TASK:N",
    "any-node",
    "tolerate-node=KEY:EFFECT",
    "any-cluster",
    "tolerate=KEY:EFFECT",
    "no-spread",
    "divide",
)
"""Everything that may be written."""

_PLAIN: Final = {
    "resume": "Resume",
    "any-node": "AnyNode",
    "any-cluster": "AnyCluster",
    "no-spread": "NoSpread",
    "divide": "Divide",
}
_NAMED: Final = {
    "profile": "Profile",
    "queue": "Queue",
    "tolerate-node": "TolerateNode",
    "tolerate": "TolerateCluster",
}
_COUNTED: Final = {"min-available": "MinAvailable", "replicas": "Replicas"}


class BadRelaxation(ValueError):
    """A text that is no relaxation; says which there are."""


def relaxations(texts: Iterable[str]) -> list[dict[str, Any]]:
    """`spec.relax` of a review; raises BadRelaxation."""
    return [_one(text) for text in texts]


def _one(text: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    if name in _PLAIN and not equals:
        return {"change": _PLAIN[name]}
    if name in _NAMED and value:
        return {"change": _NAMED[name], "to": value}
    if name in _COUNTED and value:
        task, _, count = value.rpartition(":")
        if count.isascii() and count.isdigit() and not (task and name != "replicas"):
            return {"change": _COUNTED[name], "count": int(count), **({"task": task} if task else {})}
    raise BadRelaxation(f"{text!r} is no relaxation; there are {', '.join(FORMS)}")
