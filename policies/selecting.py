"""Which objects a policy's resource selectors mean, and how exactly (reference/karmada.md 1.3, 2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from policies.placements import Selector

EXACT, LABELS, KIND_ONLY, NOT_AT_ALL = 3, 2, 1, 0
"""Implicit priority of a selector: exact name, label selector, kind alone."""

RESERVED: Final = ("karmada-system", "karmada-cluster", "federation-system")
RESERVED_PREFIXES: Final = ("karmada-es-", "kube-")


@dataclass(frozen=True, slots=True)
class Template:
    """An object as selectors see it. `labels` None: not known, so that a label selector does not select it."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] | None = field(default_factory=dict)


def template_of(manifest: Mapping[str, Any]) -> Template:
    """A manifest as selectors see it."""
    meta = manifest.get("metadata") or {}
    return Template(
        api_version=manifest.get("apiVersion", ""),
        kind=manifest.get("kind", ""),
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        labels=meta.get("labels") or {},
    )


def rank(selector: Selector, template: Template) -> int:
    """How exactly a selector selects an object: EXACT (labels are not looked at then), LABELS, KIND_ONLY, or NOT_AT_ALL."""
    if (selector.api_version, selector.kind) != (template.api_version, template.kind):
        return NOT_AT_ALL
    if selector.namespace not in ("", template.namespace):
        return NOT_AT_ALL
    if selector.name:
        return EXACT if selector.name == template.name else NOT_AT_ALL
    if selector.labels is None:
        return KIND_ONLY
    known = template.labels is not None and selector.labels.matches(template.labels)
    return LABELS if known else NOT_AT_ALL


def best(selectors: Iterable[Selector], template: Template) -> int:
    """The most exact of them."""
    return max((rank(each, template) for each in selectors), default=NOT_AT_ALL)


def reserved(namespace: str) -> bool:
    """Whether objects of a namespace are never sent to members."""
    return namespace in RESERVED or namespace.startswith(RESERVED_PREFIXES)
