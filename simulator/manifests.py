"""Manifests in, a line of text out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from apis import kinds
from apis.kinds import Kind

Doc = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS = {(kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


def read(manifest: str | bytes | Doc | Iterable[Doc]) -> list[Doc]:
    """The documents of a manifest: YAML text, one document, or several."""
    if isinstance(manifest, str | bytes):
        return [doc for doc in yaml.load_all(manifest, Loader=_LOADER) if doc]
    return [manifest] if isinstance(manifest, dict) else list(manifest)


def kind_of(doc: Doc) -> Kind:
    """The kind a document names; ValueError for one that is not served."""
    found = _KINDS.get((doc.get("apiVersion", ""), doc.get("kind", "")))
    if found is None:
        raise ValueError(f"no such kind: {doc.get('apiVersion')} {doc.get('kind')}")
    return found


def summary(doc: Doc) -> str:
    """Kind, name, phase and conditions."""
    metadata, status = doc["metadata"], doc.get("status") or {}
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    state = status.get("state")
    phase = status.get("phase") or (state.get("phase") if isinstance(state, dict) else state) or ""
    conditions = [
        f"{c.get('type')}={c.get('status')}" + (f"({c['reason']})" if c.get("reason") else "")
        for c in status.get("conditions") or ()
        if isinstance(c, dict) and c.get("type")
    ]
    words = [doc["kind"], where + metadata["name"], phase, *conditions]
    if metadata.get("deletionTimestamp"):
        words.append(f"deleting {metadata.get('finalizers') or ''}")
    return " ".join(word for word in words if word)
