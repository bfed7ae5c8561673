"""Certificates of the webhook server: an authority of our own, what it signs, and when which is replaced.

The ring goes through these steps, each one write of the Secret that holds it, and every replica follows:

    nothing  --make-->     an authority and a serving certificate
    serving gets old       --renew-->   a new one, signed by the same authority
    the authority gets old --prepare--> another one stands by: both are trusted, the old one signs
    it has stood by long enough for everybody to trust it  --switch--> it signs; the old one stays trusted
    the old one has expired, or nothing it signed is left   --forget--> it is trusted no longer

So whatever a replica shows at any moment is signed by an authority that API servers have been told of long before.
"""

from __future__ import annotations

import datetime
import enum
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controllers.admission.settings import Lifetimes, is_address

BACKDATE: Final = datetime.timedelta(minutes=5)
"""Clocks of API servers may be so far behind."""
OLD: Final = 1 / 3
"""What is left of its life when something is replaced."""
ORGANIZATION: Final = "volcano-federation"

Moment = datetime.datetime


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Ring:
    """What the Secret holds. `trusted`: authorities that signed before and may still be shown by somebody."""

    authority: Pair
    serving: Pair
    incoming: Pair | None = None
    trusted: bytes = b""

    @property
    def bundle(self) -> bytes:
        """What API servers are told to trust: all authorities that sign, signed or will sign."""
        return self.authority.certificate + (self.incoming.certificate if self.incoming else b"") + self.trusted


class Step(enum.StrEnum):
    """What to do with a ring."""

    MAKE = "make"
    RENEW = "renew"
    PREPARE = "prepare"
    SWITCH = "switch"
    FORGET = "forget"


class BrokenRing(ValueError):
    """The Secret holds something that is no ring; says what."""


def due(ring: Ring | None, *, now: Moment, names: Sequence[str], lives: Lifetimes) -> Step | None:
    """The next step that is due; None: nothing is."""
    if ring is None or _left(ring.authority, now=now) <= 0:
        return Step.MAKE
    if ring.incoming is not None and _age(ring.incoming, now=now) >= lives.settle:
        return Step.SWITCH
    if ring.incoming is None and _left(ring.authority, now=now) <= OLD:
        return Step.PREPARE
    if _left(ring.serving, now=now) <= OLD or not set(names) <= set(_names(ring.serving)):
        return Step.RENEW
    if ring.trusted and _age(ring.serving, now=now) >= lives.settle:
        return Step.FORGET
    return None


def next_due(ring: Ring, *, now: Moment, lives: Lifetimes) -> float:
    """Seconds until a step may be due; nothing becomes due earlier by time alone."""
    waits = [_until_old(ring.serving, now=now)]
    waits.append(lives.settle - _age(ring.incoming, now=now) if ring.incoming else _until_old(ring.authority, now=now))
    if ring.trusted:
        waits.append(lives.settle - _age(ring.serving, now=now))
    return max(min(waits), 0.0)


def take(step: Step, *, ring: Ring | None, now: Moment, names: Sequence[str], lives: Lifetimes) -> Ring:
    """The ring after a step. Keys come from the system's entropy, times from `now`."""
    if step is Step.MAKE or ring is None:
        authority = new_authority(now=now, life=lives.authority)
        return Ring(authority, sign(authority, names=names, now=now, life=lives.serving))
    if step is Step.PREPARE:
        return replace(ring, incoming=new_authority(now=now, life=lives.authority))
    if step is Step.FORGET:
        return replace(ring, trusted=b"")
    # Replicas that are reached under different names do not take them from each other; a renewal forgets old ones.
    shown = set(_names(ring.serving))
    everybody = sorted({*names} if step is Step.RENEW and shown >= {*names} else {*names} | shown)
    if step is Step.SWITCH and ring.incoming is not None:
        signed = sign(ring.incoming, names=everybody, now=now, life=lives.serving)
        return Ring(ring.incoming, signed, trusted=ring.authority.certificate)
    return replace(ring, serving=sign(ring.authority, names=everybody, now=now, life=lives.serving))


def new_authority(*, now: Moment, life: float) -> Pair:
    """An authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    subject = _subject(f"{ORGANIZATION}-admission-ca-{serial % 10**8:08}")
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    built = (
        _builder(subject, issuer=subject, key=key, now=now, life=life)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(built, key=key)


def sign(authority: Pair, *, names: Sequence[str], now: Moment, life: float) -> Pair:
    """A serving certificate for these host names and addresses; it never outlives its authority."""
    issuer, signer = _certificate(authority), _key(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    left = (issuer.not_valid_after_utc - now).total_seconds()
    alternatives: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address(name)) if is_address(name) else x509.DNSName(name) for name in names
    ]
    built = (
        _builder(_subject(names[0][:64]), issuer=issuer.subject, key=key, now=now, life=min(life, left))
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pair(built, key=key)


def checked(ring: Ring) -> Ring:
    """The ring, if every part of it can be read and the serving certificate is the authority's; raises BrokenRing."""
    try:
        for pair in (ring.authority, ring.serving, *([ring.incoming] if ring.incoming else [])):
            if _key(pair).public_key() != _certificate(pair).public_key():
                raise BrokenRing("a key does not belong to its certificate")
        if ring.trusted:
            x509.load_pem_x509_certificates(ring.trusted)
        _certificate(ring.serving).verify_directly_issued_by(_certificate(ring.authority))
        _names(ring.serving)
    except BrokenRing:
        raise
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise BrokenRing(f"{type(error).__name__}: {error}") from error
    return ring


# --- reading certificates --------------------------------------------------------------------------------------------
def _left(pair: Pair, *, now: Moment) -> float:
    """The share of its life that is left, 1 to 0 and below."""
    certificate = _certificate(pair)
    begin, end = certificate.not_valid_before_utc + BACKDATE, certificate.not_valid_after_utc
    return (end - now) / max(end - begin, datetime.timedelta(seconds=1))


def _until_old(pair: Pair, *, now: Moment) -> float:
    certificate = _certificate(pair)
    life = certificate.not_valid_after_utc - (certificate.not_valid_before_utc + BACKDATE)
    return (certificate.not_valid_after_utc - OLD * life - now).total_seconds()


def _age(pair: Pair, *, now: Moment) -> float:
    """Seconds since it was made."""
    return (now - (_certificate(pair).not_valid_before_utc + BACKDATE)).total_seconds()


def _names(pair: Pair) -> list[str]:
    extension = _certificate(pair).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*extension.get_values_for_type(x509.DNSName), *map(str, extension.get_values_for_type(x509.IPAddress))]


def _certificate(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def _key(pair: Pair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BrokenRing("a key is not of an elliptic curve")
    return key


# --- making certificates ---------------------------------------------------------------------------------------------
def _subject(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: Moment, life: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + datetime.timedelta(seconds=life))
    )


def _pair(certificate: x509.Certificate, *, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), encoded)
