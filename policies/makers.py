"""What Jobs are made from, as policies see it: labels and marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from policies import claims
from policies.claims import Claim
from policies.views import Meta


@dataclass(frozen=True, slots=True)
class MakerView:
    """A JobFlow, JobTemplate or CronJob."""

    namespace: str
    name: str
    uid: str
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    claim: Claim | None = None
    deleting: bool = False


class _Head(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


_head = msgspec.json.Decoder(_Head)


def project_maker(document: bytes) -> MakerView:
    """Of any object what its policy goes by."""
    meta = _head.decode(document).metadata
    labels, notes = meta.labels or {}, meta.annotations or {}
    return MakerView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        labels=labels,
        claim=claims.claim_of(labels, notes),
        deleting=meta.deletion_timestamp is not None,
    )
