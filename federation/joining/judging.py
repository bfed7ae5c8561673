"""Whether a request for a certificate is approved, from what the API server vouches for. Pure.

Nothing that the requester wrote is believed: the user and groups come from the API server, and the subject in the request must
be the member that these name.
"""

from __future__ import annotations

import base64
import binascii
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from policies import joining
from policies.members import ClusterView

REASON_DENIED: Final = "FederationDenied"
REASON_APPROVED: Final = "FederationApproved"


class Verdict(enum.StrEnum):
    """What is done with a request."""

    APPROVE = "Approved"
    DENY = "Denied"
    LEAVE = "Left"
    """It is none of ours, or it is decided already."""


@dataclass(frozen=True, slots=True)
class RequestView:
    """A CertificateSigningRequest. `user` and `groups`: who made it, as the API server says; `decided`: Approved, Denied or
    Failed."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    user: str
    groups: tuple[str, ...]
    signer: str
    usages: frozenset[str]
    pem: bytes
    decided: str = ""
    issued: bool = False

    @property
    def spent(self) -> str | None:
        """The id of the token that this request has used up: it was approved and signed."""
        return joining.token_of(self.user) if self.decided == Verdict.APPROVE and self.issued else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is done with a request, and what is said of it."""

    verdict: Verdict
    message: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    request: str = ""
    signer_name: str = ""
    username: str = ""
    groups: tuple[str, ...] = ()
    usages: tuple[str, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()
    certificate: str = ""


class _Request(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Request).decode


def project_request(document: bytes) -> RequestView:
    """A request as it is judged."""
    found = _decode(document)
    meta, spec = found.metadata, found.spec
    try:
        pem = base64.b64decode(spec.request, validate=True)
    except binascii.Error:
        pem = b""
    return RequestView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        user=spec.username,
        groups=spec.groups,
        signer=spec.signer_name,
        usages=frozenset(spec.usages),
        pem=pem,
        decided=next((each.type for each in found.status.conditions), ""),
        issued=bool(found.status.certificate),
    )


def judge(
    request: RequestView, *, clusters: Mapping[str, ClusterView], others: Sequence[RequestView], alive: frozenset[str]
) -> Judgement:
    """Judge one request. `others`: all requests there are; `alive`: members whose Lease somebody renews."""
    if request.decided or request.signer != joining.SIGNER:
        return Judgement(Verdict.LEAVE)
    token = joining.token_of(request.user)
    joiner = joining.cluster_of(request.groups, prefix=joining.JOINERS) if token is not None else None
    holder = joining.cluster_of(request.groups, prefix=joining.AGENTS)
    if joiner is not None:
        return _joins(request, joiner, clusters=clusters, others=others, alive=alive)
    if holder is not None and request.user == holder:
        wrong = _known(holder, clusters) or _wrong(request, holder)
        return _denied(wrong) if wrong else Judgement(Verdict.APPROVE, f"cluster {holder} renews its certificate")
    if token is not None and joining.JOINERS in request.groups:
        return _denied("the token names no cluster, or more than one")
    return Judgement(Verdict.LEAVE)


def _joins(
    request: RequestView,
    cluster: str,
    *,
    clusters: Mapping[str, ClusterView],
    others: Sequence[RequestView],
    alive: frozenset[str],
) -> Judgement:
    wrong = _known(cluster, clusters) or _wrong(request, cluster)
    if not wrong and _spent(request, others):
        wrong = "the token was used already: it is good once. fedctl cluster join makes another"
    if not wrong and cluster in alive:
        wrong = f"cluster {cluster} has an agent that renews its Lease: unjoin it first, or give the new cluster another name"
    return _denied(wrong) if wrong else Judgement(Verdict.APPROVE, f"cluster {cluster} joins")


def _known(cluster: str, clusters: Mapping[str, ClusterView]) -> str:
    view = clusters.get(cluster)
    if view is None:
        return f"there is no Cluster {cluster}: fedctl cluster join makes it"
    return f"Cluster {cluster} is being unjoined" if view.deleting else ""


def _spent(request: RequestView, others: Sequence[RequestView]) -> bool:
    """Whether another request of the same token was approved, or came first."""
    rivals = [each for each in others if each.user == request.user and each.uid != request.uid]
    return any(
        each.decided == Verdict.APPROVE or not each.decided and (each.created, each.name) < (request.created, request.name)
        for each in rivals
    )


def _wrong(request: RequestView, cluster: str) -> str:
    """What in the request is not as it must be; empty when nothing is."""
    try:
        asked = x509.load_pem_x509_csr(request.pem)
        sound = asked.is_signature_valid
    except ValueError:
        return "the request cannot be read"
    if not sound:
        return "the request is not signed by the key that it shows"
    names = [str(each.value) for each in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [cluster]:
        return f"CN is {', '.join(names) or 'missing'}, and must be {cluster}"
    organizations = {str(each.value) for each in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    wanted = set(joining.groups_of(cluster))
    if organizations != wanted:
        return f"O is {', '.join(sorted(organizations)) or 'missing'}, and must be {', '.join(sorted(wanted))}"
    if list(asked.extensions):
        return "it asks for extensions (other names, usages), and must ask for none"
    if "client auth" not in request.usages or not request.usages <= joining.USAGES:
        return f"usages are {', '.join(sorted(request.usages)) or 'missing'}, and must be client auth and digital signature"
    return ""


def _denied(message: str) -> Judgement:
    return Judgement(Verdict.DENY, message)
