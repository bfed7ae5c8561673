"""Whom a certificate names, and which authorities are believed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from controllers.channel.tls import BadCertificates, Peer, ServerTls, client_context, peer_of, pin, pinned
from tests.federation.channel.certs import Authority

UNTIL = {"notAfter": "Jan  1 00:00:00 2030 GMT"}


def subject(*pairs: tuple[str, str]) -> dict[str, object]:
    return {**UNTIL, "subject": tuple((pair,) for pair in pairs)}


def test_a_certificate_names_one_member() -> None:
    whole = subject(("organizationName", "o"), ("commonName", "east"))
    assert peer_of(whole) == Peer("east", ("o",), 1893456000.0)
    assert peer_of(subject(("commonName", "east"), ("commonName", "west"))) is None
    assert peer_of(subject(("commonName", ""))) is None
    assert peer_of(subject()) is None
    assert peer_of({}) is None and peer_of(None) is None


def test_only_pinned_authorities_are_kept(tmp_path: Path) -> None:
    one, two = Authority(tmp_path, "one"), Authority(tmp_path, "two")
    bundle = one.pair.certificate + two.pair.certificate
    right = pin(x509.load_pem_x509_certificate(two.pair.certificate))
    assert pinned(bundle, pins=(right,), where="ca") == two.pair.certificate.decode()
    assert pinned(bundle, pins=(), where="ca").count("BEGIN") == 2
    with pytest.raises(BadCertificates, match="ca x: none of its 1 authorities has a pinned key"):
        pinned(one.pair.certificate, pins=(right,), where="ca x")
    with pytest.raises(BadCertificates, match="ca x"):
        pinned(b"nonsense", pins=(), where="ca x")


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    certificate, key = authority.server()
    with pytest.raises(BadCertificates, match="none.crt"):
        client_context(ca=authority.ca, pins=(), certificate=tmp_path / "none.crt", key=key)
    tls = ServerTls(certificate=certificate, key=key, demand=True)
    assert tls.load(authority.ca.read_text())
    assert not tls.load(authority.ca.read_text())
    certificate.write_bytes(b"half")
    with pytest.raises(BadCertificates, match="server.crt"):
        tls.load(authority.ca.read_text())
    other = authority.server("other")
    certificate.write_bytes(other[0].read_bytes())
    with pytest.raises(BadCertificates):  # the key of another certificate
        tls.load("")
    key.write_bytes(other[1].read_bytes())
    assert tls.load("")
