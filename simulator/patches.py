"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902) on documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer

from machinery import errors


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, maps merge, anything else replaces. Both stay as they are."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """RFC 6902 on a document of the caller's own, which is changed; Invalid (422) when an operation does not hold."""
    try:
        patch = jsonpatch.JsonPatch([dict(operation) for operation in operations])
        patched: dict[str, Any] = patch.apply(target, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise errors.from_status(
            code=422,
            reason="Invalid",
            message=f"the server rejected our request due to an error in our request: {error}",
            request="",
        ) from error
    return patched
