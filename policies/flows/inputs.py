"""What a step reads from its targets: where their Jobs ran, and how much they left.

A target says how much by an output named `bytes` (a quantity), or the step's JobTemplate by its annotation
`volcano-federation.io/reads` with the target's name as the source: `prepare=50Gi`. The Job of the step then gets that
annotation with places in it, which the hub weighs (`policies.reads`): `prepare@east=50Gi`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apis.quantities import InvalidQuantity, parse

BYTES: Final = "bytes"
"""Output of a step that says how much data its Job left."""


@dataclass(frozen=True, slots=True)
class Input:
    """A target: by cluster how many of its Jobs ran there (a Job over several clusters counts in parts), and the bytes that
    they said they left; None: they said nothing."""

    target: str
    jobs: Mapping[str, float] = field(default_factory=dict)
    size: int | None = None


def bytes_of(outputs: Mapping[str, str]) -> int | None:
    """What a Job says it left; None where it says nothing that can be read."""
    try:
        return parse(outputs[BYTES]).value if BYTES in outputs else None
    except InvalidQuantity:
        return None


def reads_with(own: str, inputs: Sequence[Input]) -> str:
    """The setting `reads` of a step's Job: what its template says, with the places of those sources that are targets, and the
    targets that said how much they left."""
    known = {each.target: each for each in inputs}
    found, named = [], set()
    for pair in filter(None, (each.strip() for each in own.split(","))):
        name, equals, amount = pair.partition("=")
        target = known.get(name)
        named.add(name)
        found += _placed(target, amount if equals else "") or [pair] if target is not None else [pair]
    for each in inputs:
        if each.target not in named and each.size:
            found += _placed(each, "")
    return ",".join(found)


def _placed(target: Input, amount: str) -> list[str]:
    """One entry for each cluster that has a share; none where nobody knows how much or where."""
    try:
        size = parse(amount).value if amount else target.size
    except InvalidQuantity:
        return []
    if size is None or not target.jobs:
        return []
    whole = sum(target.jobs.values())
    return [f"{target.target}@{cluster}={round(size * count / whole)}" for cluster, count in sorted(target.jobs.items())]
