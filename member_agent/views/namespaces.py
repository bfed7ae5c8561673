"""Namespaces as the agent keeps them: their labels, which terms of pods select by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from machinery.port import Document
from member_agent.views.meta import Meta, Wire


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    namespace: str = ""


class _Namespace(Wire, frozen=True):
    metadata: Meta


_namespace = msgspec.json.Decoder(_Namespace).decode


def project_namespace(document: Document) -> NamespaceView:
    """A namespace as the agent keeps it."""
    meta = _namespace(document).metadata
    return NamespaceView(meta.name, meta.uid, meta.resource_version, meta.labels or {})
