"""Image references: reading, changing one component, writing (reference/karmada.md 2.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from policies.overrides.views import Fault, ImageChange

_DIGEST: Final = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}")


@dataclass(frozen=True, slots=True)
class Image:
    """`registry/repository:tag@digest`; what is not there is ""."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        text = f"{self.registry}/{self.repository}" if self.registry else self.repository
        return text + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Image:
    """Read a reference. The first segment is a registry only if it has a dot or colon, or is localhost."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    registry = head if slash and ("." in head or ":" in head or head == "localhost") else ""
    name = tail if registry else rest
    repository, _, tag = name.partition(":")
    return Image(registry, repository, tag, digest)


def changed(text: str, change: ImageChange) -> str:
    """The reference after a change; raises Fault where nothing would be left to pull."""
    image, value = parse(text), change.value or ""
    match change.component, change.operator:
        case "Registry", operator:
            image = replace(image, registry=_changed_text(image.registry, operator, value))
        case "Repository", operator:
            image = replace(image, repository=_changed_text(image.repository, operator, value))
        case "Tag", "replace":
            digest = _DIGEST.fullmatch(value) is not None
            image = replace(image, tag="" if digest else value, digest=value if digest else "")
        case "Tag", "remove":
            image = replace(image, tag="", digest="")
        case "Tag", _:
            image = _tag_extended(image, value)
    if not image.repository:
        raise Fault(f"image {text!r} would have no repository")
    return str(image)


def _changed_text(text: str, operator: str, value: str) -> str:
    return {"add": text + value, "replace": value}.get(operator, "")


def _tag_extended(image: Image, value: str) -> Image:
    if image.digest and not image.tag:
        return replace(image, digest=image.digest + value)
    return replace(image, tag=image.tag + value)
