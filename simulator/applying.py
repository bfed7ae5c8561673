"""Server-side apply on an `ApiServer`: ownership, conflicts, removal of what a manager stops applying."""

from __future__ import annotations

import orjson

from apis.kinds import Kind
from machinery.errors import FieldCause
from simulator import fields, schemas
from simulator.server import ApiServer
from simulator.store import Doc, Stored


def apply(
    server: ApiServer,
    *,
    kind: Kind,
    name: str,
    applied: Doc,
    namespace: str | None,
    subresource: str | None,
    manager: str,
    force: bool,
) -> Stored:
    """Server-side apply; creates what is not there."""
    if not manager:
        server.refuse("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch")
    server.check_type(kind, applied, required=True)
    applied.setdefault("metadata", {}).setdefault("name", name)
    writer = (manager, "Apply", subresource or "")
    keys_of = server.keys_of(kind)
    old = server.collection(kind).get(namespace or "", name)
    if old is None:
        if subresource is not None:
            return server.read(kind, name, namespace=namespace)
        mine = frozenset(fields.leaves(_applied_part(kind, applied, None), keys_of))
        return server.create(kind, applied, namespace=namespace, owned={writer: mine})
    mine_now = fields.leaves(_applied_part(kind, applied, subresource), keys_of)
    live = fields.leaves(old.doc, keys_of)
    owned = old.owned if old.owned is not None else {("before-first-apply", "Update", ""): frozenset(live)}
    clash = [] if force else fields.conflicts(live, mine_now, owned, writer=writer)
    if clash:
        text = f"Apply failed with {len(clash)} conflict{'s'[: len(clash) > 1]}: " + ", ".join(map(str, clash))
        causes = tuple(FieldCause("." + ".".join(c.path), f'conflict with "{c.manager}"') for c in clash)
        raise server.failure(409, "Conflict", text, causes=causes)
    after, gone = fields.after_apply(owned, mine_now, live, writer=writer)
    current: Doc = orjson.loads(old.raw)
    reduced = fields.remove(current, gone, keys_of) or {}
    merged: Doc = fields.merge(reduced, _applied_part(kind, applied, subresource), keys_of)
    if version := applied["metadata"].get("resourceVersion"):
        merged["metadata"]["resourceVersion"] = version
    return server.update(old, merged, subresource=subresource, owned=after, conditional=False)


def _applied_part(kind: Kind, applied: Doc, subresource: str | None) -> Doc:
    if subresource == "status":
        return {"status": applied.get("status") or {}, "metadata": {}}
    if schemas.traits(kind).status:
        return {name: value for name, value in applied.items() if name != "status"}
    return applied
