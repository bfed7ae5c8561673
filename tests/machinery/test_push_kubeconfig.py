"""What the kubeconfig of a push member may hold, and that everything else is refused by name."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from machinery.push_kubeconfig import LARGEST, PushAccess, RefusedKubeconfig, read

Tree = dict[str, Any]


def pem(label: str) -> str:
    return base64.b64encode(f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n".encode()).decode()


CERTIFICATE = {"client-certificate-data": pem("CERTIFICATE"), "client-key-data": pem("EC PRIVATE KEY")}


def config(*, cluster: Tree | None = None, user: Tree | None = None, context: Tree | None = None, **top: Any) -> bytes:
    """A good one with these fields set; None takes one away."""

    def merged(base: Tree, more: Tree | None) -> Tree:
        return {name: value for name, value in {**base, **(more or {})}.items() if value is not None}

    server = {"server": "https://10.0.0.7:6443", "certificate-authority-data": pem("CERTIFICATE")}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": merged(server, cluster)}],
        "users": [{"name": "u", "user": merged({"token": "sesame"}, user)}],
        "contexts": [{"name": "x", "context": merged({"cluster": "c", "user": "u"}, context)}],
        **top,
    }
    return yaml.safe_dump(tree).encode()


def why(text: bytes) -> str:
    with pytest.raises(RefusedKubeconfig) as refused:
        read(text, where="west")
    return str(refused.value)


def test_a_token_or_a_certificate_opens_the_way() -> None:
    access = read(config(), where="west")
    assert (access.server, access.token, access.certificate) == ("https://10.0.0.7:6443", "sesame", "")
    access = read(config(user={"token": None, **CERTIFICATE}), where="west")
    assert access.token == ""
    assert "BEGIN EC PRIVATE KEY" in access.key
    assert read(config(cluster={"insecure-skip-tls-verify": False}), where="west").token == "sesame"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"user": {"token": None, "exec": {"command": "/bin/sh"}}}, "exec is refused: it would run a program beside the hub"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider is refused"),
        ({"user": {"token": None, "tokenFile": "/etc/shadow"}}, "tokenFile is refused: it would read a file of this machine"),
        ({"user": {"token": None, "client-certificate": "/a", "client-key": "/b"}}, "client-certificate is refused"),
        ({"user": {"username": "admin", "password": "1"}}, "passwords are no credential here"),
        ({"user": {"as": "system:admin"}}, "as is refused"),
        ({"cluster": {"certificate-authority": "/ca.pem"}}, "certificate-authority is refused"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "insecure-skip-tls-verify is refused"),
        ({"cluster": {"proxy-url": "http://evil"}}, "proxy-url is refused"),
        ({"cluster": {"tls-server-name": "other"}}, "tls-server-name is refused"),
        ({"cluster": {"certificate-authority-data": None}}, "certificate-authority-data: it must be a certificate in PEM"),
        ({"cluster": {"server": "http://10.0.0.7"}}, "it must be https"),
        ({"cluster": {"server": "https://me:secret@10.0.0.7"}}, "host, port and path only"),
        ({"cluster": {"server": "https://10.0.0.7:99999"}}, "it must be https"),
        ({"cluster": {"server": 7}}, "it must be https"),
        ({"user": {"token": None}}, "a token, or both of client-certificate-data and client-key-data"),
        ({"user": CERTIFICATE}, "one of them must go"),
        ({"user": {"token": "two words"}}, "it is no token"),
        ({"user": {"token": None, **CERTIFICATE, "client-key-data": "!!"}}, "client-key-data"),
        ({"context": {"cluster": "other"}}, "another cluster or user"),
        ({"context": {"extensions": []}}, "extensions is refused"),
        ({"current-context": "y"}, "current-context names a context that is not there"),
        ({"extensions": [{"name": "x"}]}, "extensions is refused"),
        ({"users": []}, "users: there are 0, exactly one is allowed"),
        ({"clusters": "many"}, "clusters: there are 0"),
    ],
)
def test_everything_else_is_refused_by_name(given: Tree, named: str) -> None:
    assert named in why(config(**given))


def test_a_second_entry_hides_nothing() -> None:
    entry = {"name": "v", "user": {"exec": {"command": "sh"}}}
    assert "there are 2, exactly one is allowed" in why(config(users=[{"name": "u", "user": {"token": "t"}}, entry]))


@pytest.mark.parametrize("text", [b"", b"- 1", b"{", b"\xff\xfe\x00", b"a: &a [*a]", b"x" * (LARGEST + 1)])
def test_what_is_no_kubeconfig_is_refused_without_being_quoted(text: bytes) -> None:
    assert "xxxx" not in why(text)
    assert why(text).startswith("west: ")


def test_a_refusal_quotes_no_credential() -> None:
    assert "sesame" not in why(config(user={"token": "sesame open"}))
    assert "sesame" not in why(b"users: [{token: sesame")


def test_what_is_used_is_made_anew_and_says_the_same() -> None:
    for text in (config(), config(user={"token": None, **CERTIFICATE}, context={"namespace": "x"})):
        access = read(text, where="west")
        assert read(access.kubeconfig().encode(), where="west") == access
        assert "namespace" not in access.kubeconfig()


anything = st.recursive(
    st.none() | st.booleans() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
fields = st.sampled_from(["exec", "tokenFile", "token", "as", "client-key", "x"])


@given(anything)
def test_nonsense_is_an_answer_and_no_crash(tree: Any) -> None:
    text = yaml.safe_dump(tree).encode()
    try:
        assert isinstance(read(text, where="west"), PushAccess)
    except RefusedKubeconfig as refused:
        assert str(refused)


@given(st.dictionaries(fields, st.text() | st.dictionaries(st.text(), st.text())))
def test_no_user_with_more_than_it_may_hold_gets_through(user: Tree) -> None:
    try:
        access = read(config(user=user), where="west")
    except RefusedKubeconfig:
        return
    assert set(user) <= {"token"}
    assert access.token == user.get("token", "sesame")
