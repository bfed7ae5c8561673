"""Certificates for stories about the channel."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controllers.admission import certificates
from controllers.admission.certificates import Pair
from controllers.channel.settings import AGENTS
from machinery.clock import SystemClock

DAY = 86400.0


class Authority:
    """An authority that keeps what it makes in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.now = SystemClock().now()
        self.pair = certificates.new_authority(now=self.now, life=DAY)
        self.ca = folder / f"{name}-ca.crt"
        self.ca.write_bytes(self.pair.certificate)

    def server(self, name: str = "server", *, names: tuple[str, ...] = ("127.0.0.1", "localhost")) -> tuple[Path, Path]:
        """Certificate and key of a server."""
        return self._kept(name, certificates.sign(self.pair, names=names, now=self.now, life=DAY))

    def client(self, name: str, *, organization: str = AGENTS, life: float = DAY, file: str = "") -> tuple[Path, Path]:
        """Certificate and key of a client; `life` in seconds from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.pair.certificate)
        signer = serialization.load_pem_private_key(self.pair.key, password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        if organization:
            parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        built = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(parts))
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - datetime.timedelta(hours=1))
            .not_valid_after(self.now + datetime.timedelta(seconds=life))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(signer, hashes.SHA256())
        )
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._kept(file or f"{self.name}-{name}", Pair(built.public_bytes(serialization.Encoding.PEM), pem))

    def _kept(self, name: str, pair: Pair) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        return certificate, key
