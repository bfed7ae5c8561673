"""Keys, requests and kubeconfigs of a member. Pure but for making keys."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apis import kinds
from policies import joining

KEY, CERTIFICATE, KUBECONFIG = "tls.key", "tls.crt", "kubeconfig"
"""What the Secret holds; `next.key` is the key that a renewal asks with."""
NEXT_KEY: Final = "next.key"
CA: Final = "ca.crt"
RENEW_AT: Final = 2 / 3
"""Of its life, after which a certificate is renewed: a third is left to notice a renewal that fails."""

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hub:
    """Where the hub is. `authority`: PEM of what signs its serving certificate."""

    server: str
    authority: bytes


def new_key() -> bytes:
    """A private key, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def digest(key: bytes) -> str:
    """Hexadecimal SHA-256 of the public key."""
    public = serialization.load_pem_private_key(key, password=None).public_key()
    raw = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(raw).hexdigest()


def signing_request(key: bytes, *, cluster: str) -> bytes:
    """A PKCS #10 request for the certificate of one member, PEM. ValueError when the key is none of ours."""
    private = serialization.load_pem_private_key(key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError("the stored key is not an elliptic curve key")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in joining.groups_of(cluster)]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, cluster)])
    built = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(private, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM)


def kubeconfig(hub: Hub, *, cluster: str, certificate: bytes, key: bytes) -> str:
    """A self-contained kubeconfig for the hub by a client certificate."""
    user = {"client-certificate-data": _inline(certificate), "client-key-data": _inline(key)}
    return _config(hub, cluster=cluster, user=user)


def token_kubeconfig(hub: Hub, *, cluster: str, token: str) -> str:
    """The same by a bearer token."""
    return _config(hub, cluster=cluster, user={"token": token})


def _config(hub: Hub, *, cluster: str, user: Mapping[str, str]) -> str:
    server = {"server": hub.server, "certificate-authority-data": _inline(hub.authority)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": server}],
            "users": [{"name": cluster, "user": dict(user)}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": cluster}}],
            "current-context": "hub",
        },
        sort_keys=False,
    )


def hub_of(text: str) -> Hub:
    """Where a kubeconfig of ours leads. ValueError when it is none."""
    try:
        server = yaml.safe_load(text)["clusters"][0]["cluster"]
        return Hub(str(server["server"]), base64.b64decode(server["certificate-authority-data"]))
    except (KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise ValueError(f"the stored kubeconfig cannot be read: {error}") from None


def renewal_due(certificate: bytes) -> datetime.datetime:
    """When a certificate is to be renewed. ValueError when it cannot be read."""
    found = x509.load_pem_x509_certificate(certificate)
    return found.not_valid_before_utc + (found.not_valid_after_utc - found.not_valid_before_utc) * RENEW_AT


def expired(certificate: bytes, *, now: datetime.datetime) -> bool:
    """Whether it is good no longer."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc <= now


def secret(name: str, *, namespace: str, parts: Mapping[str, bytes], version: str = "") -> Doc:
    """The Secret that holds a credential; `version` of the one that it replaces."""
    meta = {"name": name, "namespace": namespace, **({"resourceVersion": version} if version else {})}
    data = {part: _inline(value) for part, value in sorted(parts.items())}
    return {
        "apiVersion": kinds.SECRET.api_version,
        "kind": kinds.SECRET.kind,
        "metadata": meta,
        "type": "Opaque",
        "data": data,
    }


def parts_of(tree: Mapping[str, Any]) -> dict[str, bytes]:
    """What a Secret holds."""
    return {part: base64.b64decode(value) for part, value in (tree.get("data") or {}).items()}


def _inline(data: bytes) -> str:
    return base64.b64encode(data).decode()
