"""Certificates of the webhook server: made once, renewed in time, replaced without a moment in which nobody is trusted."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from pydantic import ValidationError

from controllers.admission import certificates
from controllers.admission.certificates import BrokenRing, Pair, Ring, Step, due, next_due, take
from controllers.admission.settings import DAY, AdmissionSettings, Lifetimes

NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)
LIVES = Lifetimes()
NAMES = ("hooks.federation-system.svc",)


def later(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


def made(*, now: datetime.datetime = NOW, names: tuple[str, ...] = NAMES) -> Ring:
    return take(Step.MAKE, ring=None, now=now, names=names, lives=LIVES)


def trusts(bundle: bytes, shown: Pair, *, now: datetime.datetime, name: str = NAMES[0]) -> bool:
    """What an API server does with what it was told and what it is shown."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(x509.load_pem_x509_certificate(shown.certificate), [])
    except VerificationError:
        return False
    return True


def test_what_is_made_is_trusted_for_the_names_it_is_made_for_and_no_others() -> None:
    ring = made()
    assert trusts(ring.bundle, ring.serving, now=NOW)
    assert not trusts(ring.bundle, ring.serving, now=NOW, name="elsewhere.svc")
    assert not trusts(made().bundle, ring.serving, now=NOW)


def test_an_address_is_named_as_an_address() -> None:
    shown = x509.load_pem_x509_certificate(made(names=("127.0.0.1", "hooks.svc")).serving.certificate)
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert names.get_values_for_type(x509.DNSName) == ["hooks.svc"]


def test_nothing_is_due_for_a_young_ring_and_it_says_when_something_will_be() -> None:
    ring = made()
    assert due(ring, now=NOW, names=NAMES, lives=LIVES) is None
    wait = next_due(ring, now=NOW, lives=LIVES)
    assert wait == pytest.approx(60 * DAY, abs=1)
    assert due(ring, now=later(wait - 60), names=NAMES, lives=LIVES) is None
    assert due(ring, now=later(wait + 60), names=NAMES, lives=LIVES) is Step.RENEW


def test_a_renewal_is_signed_by_the_same_authority() -> None:
    ring = made()
    renewed = take(Step.RENEW, ring=ring, now=later(61 * DAY), names=NAMES, lives=LIVES)
    assert renewed.bundle == ring.bundle
    assert renewed.serving != ring.serving
    assert trusts(ring.bundle, renewed.serving, now=later(140 * DAY))


def test_a_name_that_is_missing_is_added_and_replicas_do_not_take_names_from_each_other() -> None:
    ring = made(names=("a.svc",))
    assert due(ring, now=NOW, names=("b.svc",), lives=LIVES) is Step.RENEW
    both = take(Step.RENEW, ring=ring, now=NOW, names=("b.svc",), lives=LIVES)
    assert due(both, now=NOW, names=("a.svc",), lives=LIVES) is None
    assert due(both, now=NOW, names=("b.svc",), lives=LIVES) is None


def test_a_renewal_by_age_forgets_names_that_nobody_uses() -> None:
    both = take(Step.RENEW, ring=made(names=("a.svc",)), now=NOW, names=("b.svc",), lives=LIVES)
    only = take(Step.RENEW, ring=both, now=later(61 * DAY), names=("b.svc",), lives=LIVES)
    assert due(only, now=later(61 * DAY), names=("a.svc",), lives=LIVES) is Step.RENEW


def test_law_through_ten_years_everybody_trusts_what_anybody_may_still_show() -> None:
    """Hour by hour where something happens: a replica that is an hour behind with what it shows, and an API server that is an
    hour behind with what it trusts, meet without a failure."""
    now, ring = NOW, made()
    shown, told = [ring.serving], [ring.bundle]
    steps: list[Step] = []
    while now < later(10 * 365 * DAY):
        step = due(ring, now=now, names=NAMES, lives=LIVES)
        if step is None:
            now += datetime.timedelta(seconds=min(next_due(ring, now=now, lives=LIVES) + 1, 30 * DAY))
            shown, told = [ring.serving], [ring.bundle]  # long enough for everybody to have followed
            assert trusts(ring.bundle, ring.serving, now=now)
            continue
        ring = take(step, ring=ring, now=now, names=NAMES, lives=LIVES)
        steps.append(step)
        shown.append(ring.serving)
        told.append(ring.bundle)
        assert all(trusts(bundle, pair, now=now) for bundle in told for pair in shown), (step, now)
    assert {Step.RENEW, Step.PREPARE, Step.SWITCH, Step.FORGET} == set(steps)
    assert steps.count(Step.SWITCH) >= 4


def test_a_new_authority_signs_only_after_it_has_been_told_of() -> None:
    ring = made()
    old = later(2.1 * 365 * DAY)
    assert due(ring, now=old, names=NAMES, lives=LIVES) is Step.PREPARE
    ready = take(Step.PREPARE, ring=ring, now=old, names=NAMES, lives=LIVES)
    assert ready.authority == ring.authority and ready.incoming is not None
    assert due(replace(ready, serving=renewed(ready, now=old)), now=old, names=NAMES, lives=LIVES) is None
    after = old + datetime.timedelta(seconds=LIVES.settle)
    assert due(ready, now=after, names=NAMES, lives=LIVES) is Step.SWITCH
    switched = take(Step.SWITCH, ring=ready, now=after, names=NAMES, lives=LIVES)
    assert switched.authority == ready.incoming and switched.trusted == ring.authority.certificate


def renewed(ring: Ring, *, now: datetime.datetime) -> Pair:
    return take(Step.RENEW, ring=ring, now=now, names=NAMES, lives=LIVES).serving


def test_an_authority_that_has_expired_is_replaced_at_once() -> None:
    assert due(made(), now=later(4 * 365 * DAY), names=NAMES, lives=LIVES) is Step.MAKE
    assert due(None, now=NOW, names=NAMES, lives=LIVES) is Step.MAKE


def test_clocks_of_api_servers_may_be_a_little_behind() -> None:
    ring = made()
    assert trusts(ring.bundle, ring.serving, now=later(-240))


@pytest.mark.parametrize("wrong", ["nonsense", "another key", "another authority"])
def test_a_ring_that_does_not_fit_together_is_told(wrong: str) -> None:
    ring, other = made(), made()
    broken = {
        "nonsense": replace(ring, serving=Pair(b"no certificate", b"no key")),
        "another key": replace(ring, serving=Pair(ring.serving.certificate, other.serving.key)),
        "another authority": replace(ring, authority=other.authority),
    }
    with pytest.raises(BrokenRing):
        certificates.checked(broken[wrong])
    assert certificates.checked(ring) == ring


def test_a_key_of_another_kind_is_told() -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with pytest.raises(BrokenRing, match="elliptic curve"):
        certificates.checked(replace(made(), authority=Pair(made().authority.certificate, pem)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "url or service"),
        ({"url": "http://127.0.0.1:1"}, "is not https"),
        ({"url": "nowhere"}, "is not https"),
        ({"url": "https://h", "lifetimes": {"authority": 10, "serving": 9, "settle": 1}}, "at most half"),
        ({"url": "https://h", "lifetimes": {"authority": 60, "serving": 9, "settle": 20}}, "at most a sixth"),
        ({"url": "https://h", "timeout": 30}, "less than or equal to 10"),
        ({"url": "https://h", "surprise": 1}, "surprise"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        AdmissionSettings.model_validate(settings)


def test_names_follow_from_where_the_server_is_reached() -> None:
    assert AdmissionSettings(url="https://10.0.0.1:9443").names() == ("10.0.0.1",)
    assert AdmissionSettings(service="hooks").names()[0] == "hooks.federation-system.svc"
