"""Certificates and keys of one control plane: an authority per cluster, so that nothing of one is valid at another."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.controlplane.render import Identity

LIFE = datetime.timedelta(days=30)
BACKDATE = datetime.timedelta(hours=1)

Key = ec.EllipticCurvePrivateKey


def _pem_key(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(common_name: str, *, organizations: tuple[str, ...] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """A certificate authority, kept as ca.crt and ca.key in its folder; made when they are not there."""

    def __init__(self, folder: Path, *, name: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if not key.exists():
            self._key = ec.generate_private_key(ec.SECP256R1())
            subject = _name(f"{name}-ca")
            usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
            built = (
                self._builder(subject, issuer=subject, public=self._key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
                .add_extension(usage, critical=True)
                .sign(self._key, hashes.SHA256())
            )
            certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
            _write_secret(key, _pem_key(self._key))
        loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{key} is not an elliptic curve key")
        self._key = loaded
        self.pem = certificate.read_bytes()
        self._issuer = x509.load_pem_x509_certificate(self.pem).subject

    @staticmethod
    def _builder(subject: x509.Name, *, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATE)
            .not_valid_after(now + LIFE)
        )

    def client(self, user: str, *, groups: tuple[str, ...] = ()) -> Identity:
        """A client certificate: the API server takes the common name as user and the organizations as groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(_name(user, organizations=groups), issuer=self._issuer, public=key.public_key())
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(self.pem, certificate.public_bytes(serialization.Encoding.PEM), _pem_key(key))

    def server(self, *, names: tuple[str, ...], addresses: tuple[str, ...]) -> Identity:
        """A serving certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = (
            self._builder(_name(names[0]), issuer=self._issuer, public=key.public_key())
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(self.pem, certificate.public_bytes(serialization.Encoding.PEM), _pem_key(key))


def _write_secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)


def write(identity: Identity, *, folder: Path, name: str) -> None:
    """`<name>.crt` and `<name>.key`."""
    (folder / f"{name}.crt").write_bytes(identity.certificate)
    _write_secret(folder / f"{name}.key", identity.key)


def write_service_account_key(folder: Path) -> None:
    """The key that signs service-account tokens."""
    _write_secret(folder / "service-accounts.key", _pem_key(ec.generate_private_key(ec.SECP256R1())))
