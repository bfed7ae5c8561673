"""TLS of the channel: contexts that follow their files, authorities pinned by hash, and who a certificate says it is."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

PROTOCOLS: Final = ("http/1.1",)


class BadCertificates(ValueError):
    """Files that cannot be used; says which and why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a verified certificate names; `until`: seconds since the epoch when it expires."""

    name: str
    organizations: tuple[str, ...]
    until: float


def peer_of(certificate: Mapping[str, Any] | None) -> Peer | None:
    """From `SSLSocket.getpeercert()`. None: nothing was shown, or it has not exactly one common name."""
    if not certificate:
        return None
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    if len(names) != 1 or not names[0]:
        return None
    organizations = tuple(value for key, value in pairs if key == "organizationName")
    return Peer(names[0], organizations, float(ssl.cert_time_to_seconds(certificate["notAfter"])))


def pin(certificate: x509.Certificate) -> str:
    """`sha256:<hex>` of the public key (SubjectPublicKeyInfo, DER), as kubeadm's --discovery-token-ca-cert-hash."""
    key = certificate.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(key).hexdigest()}"


def pinned(bundle: bytes, *, pins: Sequence[str], where: str) -> str:
    """The authorities of a PEM bundle that are pinned (all without pins); BadCertificates when none is left."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise BadCertificates(f"{where}: {error}") from error
    kept = [each for each in found if not pins or pin(each) in pins]
    if not kept:
        raise BadCertificates(f"{where}: none of its {len(found)} authorities has a pinned key")
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in kept)


def client_context(*, ca: Path, pins: Sequence[str], certificate: Path, key: Path) -> ssl.SSLContext:
    """For an agent that dials: the hub's name is checked, and only pinned authorities are believed. BadCertificates."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=pinned(ca.read_bytes(), pins=pins, where=f"ca {ca}"))
        context.load_cert_chain(certificate, key)
    except OSError as error:  # of SSL too
        raise BadCertificates(f"{certificate}, {key}, {ca}: {error}") from error
    return context


class ServerTls:
    """A server's context whose certificate and trust may be replaced while it runs: the next connection sees the new ones.

    `demand`: no connection without a certificate that is trusted; otherwise one may be shown, and must then be trusted.
    Sessions are never resumed, so that no ticket outlives the trust it was given under.
    """

    def __init__(self, *, certificate: Path, key: Path, demand: bool) -> None:
        self._certificate = certificate
        self._key = key
        self._demand = demand
        self._seen: tuple[bytes, bytes, str] | None = None
        self._current: ssl.SSLContext | None = None
        self.context = self._empty()
        self.context.sni_callback = self._choose

    def load(self, trust: str) -> bool:
        """Read the files, with these authorities (PEM, "": none) to trust; whether anything changed. BadCertificates, and what
        was shown is shown on."""
        try:
            seen = (self._certificate.read_bytes(), self._key.read_bytes(), trust)
            if seen == self._seen:
                return False
            context = self._empty()
            context.load_cert_chain(self._certificate, self._key)
            if trust:
                context.load_verify_locations(cadata=trust)
            if self._current is None:
                self.context.load_cert_chain(self._certificate, self._key)
        except OSError as error:  # of SSL too
            raise BadCertificates(f"{self._certificate}, {self._key}: {error}") from error
        self._seen, self._current = seen, context
        return True

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED if self._demand else ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.set_alpn_protocols([*PROTOCOLS])
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current
