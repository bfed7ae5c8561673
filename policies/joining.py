"""How a member joins: the token that is good for one name and one use, and what a request for a certificate must say. Pure.

A token is a bootstrap token of Kubernetes. Its groups name the member it was made for, so that the API server itself vouches
for whom a request speaks; nothing in the request has to be believed.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apis import keys, kinds

SIGNER: Final = "kubernetes.io/kube-apiserver-client"
"""Signs certificates that the hub's API server takes for its clients."""
AGENTS: Final = "volcano-federation:agents"
"""Organization of every agent's certificate; with a colon and the member's name, of one."""
JOINERS: Final = "system:bootstrappers:volcano-federation"
"""Group of every token by which members join; with a colon and the member's name, of one."""
BOOTSTRAP_USER: Final = "system:bootstrap:"
TOKEN_NAMESPACE: Final = "kube-system"
TOKEN_PREFIX: Final = "bootstrap-token-"
USAGES: Final = frozenset({"client auth", "digital signature", "key encipherment"})
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
CLUSTER_LABEL: Final = f"{keys.GROUP}/cluster"

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Token:
    """A bootstrap token. `str()` of it is secret."""

    id: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}"


def groups_of(cluster: str) -> tuple[str, str]:
    """Organizations of a member's certificate: those of all agents, and its own, on which its rights hang."""
    return AGENTS, f"{AGENTS}:{cluster}"


def token_secret(token: Token, *, cluster: str, expires: datetime.datetime) -> Doc:
    """The Secret that makes a token good for joining as one member, until it is used or expires."""
    plain = {
        "token-id": token.id,
        "token-secret": token.secret,
        "expiration": expires.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": f"{JOINERS},{JOINERS}:{cluster}",
        "description": f"for one use: cluster {cluster} joins the federation",
    }
    return {
        "apiVersion": kinds.SECRET.api_version,
        "kind": kinds.SECRET.kind,
        "metadata": {
            "name": TOKEN_PREFIX + token.id,
            "namespace": TOKEN_NAMESPACE,
            "labels": {CLUSTER_LABEL: cluster},
        },
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in plain.items()},
    }


def token_of(user: str) -> str | None:
    """The id of the token by which a user of the API server came, if it was one."""
    return user.removeprefix(BOOTSTRAP_USER) if user.startswith(BOOTSTRAP_USER) else None


def cluster_of(groups: Iterable[str], *, prefix: str) -> str | None:
    """The member that a group names: of a token with JOINERS, of a certificate with AGENTS. None unless exactly one is
    named."""
    named = {each.removeprefix(f"{prefix}:") for each in groups if each.startswith(f"{prefix}:")}
    return named.pop() if len(named) == 1 else None


def request_name(cluster: str, *, digest: str) -> str:
    """Name of the CertificateSigningRequest for one key: replicas that share the key make the same request."""
    return f"volcano-federation-{cluster}-{digest[:16]}"


def request(name: str, *, pem: bytes, cluster: str, seconds: int) -> Doc:
    """A CertificateSigningRequest."""
    return {
        "apiVersion": kinds.SIGNING_REQUEST.api_version,
        "kind": kinds.SIGNING_REQUEST.kind,
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: cluster}},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": SIGNER,
            "usages": ["client auth", "digital signature"],
            "expirationSeconds": seconds,
        },
    }


def condition(document: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    """The condition of a request, if it has it."""
    for each in (document.get("status") or {}).get("conditions") or ():
        if each.get("type") == type:
            found: Mapping[str, Any] = each
            return found
    return None
