"""Looking into documents as somebody wrote them: what has another shape than it should have is empty, never an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]


def mapping(value: object) -> Manifest:
    """The object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def listing(value: object) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def string(value: object) -> str | None:
    """The text, or None."""
    return value if isinstance(value, str) else None


def notes_of(document: Manifest | None) -> dict[str, str]:
    """Annotations whose values are texts."""
    notes = mapping(mapping((document or {}).get("metadata")).get("annotations"))
    return {str(key): value for key, value in notes.items() if isinstance(value, str)}


def namespace(document: Manifest) -> str:
    """The namespace an object says it is in, "" for none."""
    return string(mapping(document.get("metadata")).get("namespace")) or ""
