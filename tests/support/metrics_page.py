"""docs/operations/metrics.md as tests read it: what is listed there, and what programs show that is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "metrics.md"
ROW = re.compile(r"^\| `([a-z0-9_]+)` \| ([a-z, ]+) \| ([\w, …-]+) \| (.+) \|$", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Listed:
    """A row of the page; `type` in the page's words."""

    type: str
    labels: frozenset[str]


def listed() -> dict[str, Listed]:
    """Every metric of the page by its name, those of API servers included."""
    return {
        name: Listed(kind, frozenset(re.findall(r"\w+", labels))) for name, kind, labels, _ in ROW.findall(PAGE.read_text())
    }


def unlisted(registry: CollectorRegistry) -> list[str]:
    """What a program shows otherwise than the page says."""
    page, found = listed(), []
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        row = page.get(name)
        if row is None:
            found.append(f"{name} is not listed")
            continue
        kind = {"unknown": "counter, untyped"}.get(family.type, family.type)
        labels = frozenset[str]().union(*(sample.labels for sample in family.samples)) - {"le"}
        if kind != row.type or (family.samples and labels != row.labels):
            found.append(f"{name} is a {kind} by {sorted(labels)}, and listed as {row.type} by {sorted(row.labels)}")
    return found
