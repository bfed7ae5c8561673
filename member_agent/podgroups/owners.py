"""Owners of pods: what is remembered of those that can be scaled to nothing, and reading any of them by reference.

An owner may be of any kind, known here or not: Argo Workflows, Flink and Spark objects are found by discovery. Only
ReplicaSets and StatefulSets are watched, and only where some pod of ours belongs to one.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from apis import keys, kinds
from apis.kinds import Kind
from machinery import discovery, errors
from machinery.port import Document, Port
from member_agent.views.meta import Meta, Wire

log = logging.getLogger(__name__)

Manifest = Mapping[str, Any]

KNOWN: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.api_version, kind.kind): kind for kind in vars(kinds).values() if isinstance(kind, Kind)
}
WATCHED: Final = (kinds.REPLICA_SET, kinds.STATEFUL_SET)
TEMPLATED: Final = frozenset(
    {kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET, kinds.BATCH_JOB, kinds.REPLICATION_CONTROLLER}
)
"""Kinds whose `spec.template` is the template of their pods."""
NOT_INHERITED: Final = (f"{keys.GROUP}/", "kubectl.kubernetes.io/", "deployment.kubernetes.io/")
"""Annotations that speak of the owner itself, or by which the hub would speak."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The controlling owner of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def is_job(self) -> bool:
        """A Volcano Job: its pods have a controller that makes their group."""
        return (self.api_version.partition("/")[0], self.kind) == (kinds.JOB.group, kinds.JOB.kind)

    def owner(self) -> dict[str, Any]:
        """The owner reference by which a group goes with its owner. Nobody waits for the group to be gone first."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


def controller_of(pod: Manifest) -> Reference | None:
    """The controlling owner, None for a bare pod."""
    for each in pod["metadata"].get("ownerReferences") or []:
        if each.get("controller"):
            return Reference(each["apiVersion"], each["kind"], each["name"], each["uid"])
    return None


def itself(pod: Manifest) -> Reference:
    """A pod as the owner of its group."""
    meta = pod["metadata"]
    return Reference(kinds.POD.api_version, kinds.POD.kind, meta["name"], meta["uid"])


# --- owners that are watched -----------------------------------------------------------------------------------------


class _Spec(Wire, frozen=True):
    replicas: int | None = None
    template: msgspec.Raw = msgspec.Raw(b"null")


class _Owner(Wire, frozen=True):
    metadata: Meta
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class OwnerView:
    """A ReplicaSet or StatefulSet. `digest` names what its group is made from: its annotations and its template."""

    namespace: str
    name: str
    uid: str
    version: str
    replicas: int
    digest: str


_owner = msgspec.json.Decoder(_Owner).decode


def project_owner(document: Document) -> OwnerView:
    """A ReplicaSet or StatefulSet as this role keeps it."""
    owner = _owner(document)
    meta = owner.metadata
    told = orjson.dumps(inheritable(meta.annotations or {}), option=orjson.OPT_SORT_KEYS)
    return OwnerView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        replicas=1 if owner.spec.replicas is None else owner.spec.replicas,
        digest=hashlib.blake2b(told + bytes(owner.spec.template), digest_size=8).hexdigest(),
    )


def inheritable(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations of an owner that its group may take over."""
    return {name: text for name, text in annotations.items() if not name.startswith(NOT_INHERITED)}


# --- reading any owner -----------------------------------------------------------------------------------------------


class Owners:
    """Reads owners through one port. Which kinds are served is asked once per kind that is."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._kinds: dict[tuple[str, str], Kind] = dict(KNOWN)

    async def kind_of(self, reference: Reference) -> Kind | None:
        """Where the API server serves this kind; None where it does not."""
        wanted = (reference.api_version, reference.kind)
        if wanted not in self._kinds:
            found = await discovery.find(self._port, api_version=reference.api_version, kind=reference.kind)
            if found is None:
                return None
            self._kinds[wanted] = found
        return self._kinds[wanted]

    async def read(self, reference: Reference, *, namespace: str) -> Document | None:
        """The owner, None where it cannot be read: its kind is not served or closed to us, or it has gone."""
        try:
            kind = await self.kind_of(reference)
            if kind is None:
                return None
            document = await self._port.get(kind, reference.name, namespace=namespace if kind.namespaced else None)
        except errors.NotFound:
            return None
        except errors.Forbidden as error:
            log.warning("%s %s/%s cannot be read, its pods speak for it: %s", reference.kind, namespace, reference.name, error)
            return None
        return document if orjson.loads(document)["metadata"]["uid"] == reference.uid else None
