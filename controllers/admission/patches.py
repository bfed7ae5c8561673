"""JSON patches (RFC 6902): what a mutating webhook answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch

from apis.meta import Resource

Operations = list[dict[str, Any]]


def between(before: Mapping[str, Any], *, after: Mapping[str, Any]) -> Operations:
    """The operations that make `after` of `before`; none when they are the same."""
    operations: Operations = jsonpatch.make_patch(before, after).patch
    return operations


def of_models(before: Resource, *, after: Resource) -> Operations:
    """The same for objects as models: what the models only read differently is no difference."""
    return between(before.to_json(), after=after.to_json())
