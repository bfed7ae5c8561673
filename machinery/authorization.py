"""What somebody may do, by the API server's own authorisers (SubjectAccessReview)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from apis.kinds import Kind
from machinery.port import Port

PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server knows them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is to be done: a verb on objects of a kind, on one where `name` is given, in a namespace where it has one."""

    verb: str
    kind: Kind
    name: str = ""
    namespace: str = ""

    @property
    def document(self) -> dict[str, str]:
        """The `resourceAttributes` of a review."""
        kind = self.kind
        found = {"verb": self.verb, "group": kind.group, "version": kind.version, "resource": kind.plural}
        if kind.namespaced:
            found["namespace"] = self.namespace
        return {**found, "name": self.name} if self.name else found


async def allowed(port: Port, subject: Subject, attributes: Attributes) -> bool:
    """Whether the authorisers allow it; raises ApiError when they cannot be asked."""
    spec = {"user": subject.name, "groups": [*subject.groups], "resourceAttributes": attributes.document}
    if subject.uid:
        spec["uid"] = subject.uid
    if subject.extra:
        spec["extra"] = {name: [*values] for name, values in subject.extra.items()}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = orjson.loads(await port.request("POST", PATH, body=body)).get("status") or {}
    return bool(status.get("allowed")) and not status.get("denied")
