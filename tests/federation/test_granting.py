"""Kubernetes lets nobody grant what they have not: what the hub gives to members it has itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from federation.clusters import rights

RULES = Path(__file__).parents[2] / "charts" / "federation" / "files" / "hub-rules.yaml"


def expanded(rules: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Group, resource and verb of each right."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from ((group, resource, verb) for verb in rule["verbs"])


def test_the_hub_has_every_right_that_it_gives_to_a_member() -> None:
    given = [rule for _, body, _ in rights.manifests("east", uid="u") for rule in body.get("rules", ())]
    assert given
    assert sorted(set(expanded(given)) - set(expanded(yaml.safe_load(RULES.read_text())))) == []
