"""Whose request for a certificate is approved: the member that the API server says is asking, and nobody else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from federation.joining.judging import Judgement, RequestView, Verdict, judge, project_request
from member_agent.joining import credential
from policies import joining
from policies.members import ClusterView

KEY = credential.new_key()
EAST = ClusterView("", "east", "uid-east", "1")
TOKEN_GROUPS = [joining.JOINERS, f"{joining.JOINERS}:east", "system:bootstrappers", "system:authenticated"]


def ask(
    name: str = "one", *, user: str = "system:bootstrap:abcdef", groups: list[str] = TOKEN_GROUPS, **more: Any
) -> RequestView:
    """A request as the API server shows it, asked by the token of east unless told otherwise."""
    pem = more.pop("pem", credential.signing_request(KEY, cluster="east"))
    decided = more.pop("decided", "")
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": joining.SIGNER,
        "usages": ["client auth", "digital signature"],
        "username": user,
        "groups": groups,
    }
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": more.pop("created", "2026-01-01T00:00:00Z")}
    status = {"conditions": [{"type": decided}]} if decided else {}
    return project_request(json.dumps({"metadata": meta, "spec": {**spec, **more}, "status": status}).encode())


def judged(
    request: RequestView, *others: RequestView, alive: frozenset[str] = frozenset(), cluster: ClusterView = EAST
) -> Judgement:
    return judge(request, clusters={cluster.name: cluster}, others=[request, *others], alive=alive)


def subject(*, names: list[str], organizations: list[str], extension: bool = False) -> bytes:
    """A request of any subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    said = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    said += [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(said))
    if extension:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("hub")]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_token_lets_the_member_in_that_it_was_made_for() -> None:
    assert judged(ask()) == Judgement(Verdict.APPROVE, "cluster east joins")


def test_a_stolen_token_makes_nobody_another_member() -> None:
    groups = list(joining.groups_of("west"))
    found = judged(ask(pem=subject(names=["west"], organizations=groups)))
    assert found.verdict is Verdict.DENY and "CN is west, and must be east" in found.message


@pytest.mark.parametrize(
    ("pem", "says"),
    [
        (subject(names=["east"], organizations=["system:masters"]), "O is system:masters"),
        (subject(names=["east"], organizations=[*joining.groups_of("east"), "system:masters"]), "O is"),
        (subject(names=["east"], organizations=[]), "O is missing"),
        (subject(names=[], organizations=list(joining.groups_of("east"))), "CN is missing"),
        (subject(names=["east", "admin"], organizations=list(joining.groups_of("east"))), "CN is"),
        (subject(names=["east"], organizations=list(joining.groups_of("east")), extension=True), "extensions"),
        (b"nonsense", "cannot be read"),
    ],
)
def test_a_request_for_more_than_a_member_is_denied_and_told_why(pem: bytes, says: str) -> None:
    found = judged(ask(pem=pem))
    assert found.verdict is Verdict.DENY and says in found.message


@pytest.mark.parametrize("usages", [["server auth"], ["client auth", "cert sign"], []])
def test_other_usages_are_denied(usages: list[str]) -> None:
    assert "usages" in judged(ask(usages=usages)).message


def test_a_token_is_good_once() -> None:
    first, second = ask("one"), ask("two", created="2026-01-01T00:00:01Z")
    assert judged(first, second).verdict is Verdict.APPROVE
    assert "used already" in judged(second, first).message
    assert "used already" in judged(second, ask("one", decided="Approved")).message


def test_of_two_requests_at_the_same_moment_one_is_let_in() -> None:
    first, second = ask("one"), ask("two")
    verdicts = [judged(first, second).verdict, judged(second, first).verdict]
    assert sorted(verdicts) == [Verdict.APPROVE, Verdict.DENY]


def test_a_request_that_was_denied_does_not_spend_the_token() -> None:
    assert judged(ask("two"), ask("one", decided="Denied")).verdict is Verdict.APPROVE


def test_nobody_takes_the_place_of_a_member_that_is_alive() -> None:
    assert "unjoin it first" in judged(ask(), alive=frozenset({"east"})).message


def test_a_member_that_is_unknown_or_leaving_is_not_let_in() -> None:
    assert "no Cluster east" in judge(ask(), clusters={}, others=[], alive=frozenset()).message
    leaving = ClusterView("", "east", "uid-east", "1", deleting=True)
    assert "being unjoined" in judged(ask(), cluster=leaving).message


def test_a_member_renews_by_its_own_certificate_while_it_is_alive() -> None:
    groups = [*joining.groups_of("east"), "system:authenticated"]
    found = judged(ask(user="east", groups=groups), alive=frozenset({"east"}))
    assert found == Judgement(Verdict.APPROVE, "cluster east renews its certificate")


def test_nobody_renews_for_another() -> None:
    groups = [*joining.groups_of("west"), "system:authenticated"]
    west = ClusterView("", "west", "uid-west", "1")
    found = judge(ask(user="west", groups=groups), clusters={"east": EAST, "west": west}, others=[], alive=frozenset())
    assert found.verdict is Verdict.DENY and "CN is east, and must be west" in found.message


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        ("kubelet", ["system:nodes"]),
        ("system:bootstrap:abcdef", ["system:bootstrappers", "system:bootstrappers:kubeadm"]),
        ("admin", list(joining.groups_of("east"))),
    ],
)
def test_what_others_ask_of_the_same_signer_is_left_to_others(user: str, groups: list[str]) -> None:
    assert judged(ask(user=user, groups=groups)).verdict is Verdict.LEAVE


def test_a_token_that_names_two_members_lets_neither_in() -> None:
    found = judged(ask(groups=[*TOKEN_GROUPS, f"{joining.JOINERS}:west"]))
    assert found.verdict is Verdict.DENY


def test_what_is_decided_stays_decided_and_other_signers_are_none_of_ours() -> None:
    assert judged(ask(decided="Denied")).verdict is Verdict.LEAVE
    assert judged(ask(signerName="kubernetes.io/kubelet-serving")).verdict is Verdict.LEAVE
