"""The kubeconfig of a push member: what it may hold, and nothing else (protocol.md 8, Push).

It comes from a Secret that others than the operator of this process may have written. So it may say where the API server is,
whom to believe, and one token or client certificate. What would run a program, read a file of this machine, switch the check of
certificates off or lead somewhere else is refused, by name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

LARGEST: Final = 64 * 1024
"""Bytes of a kubeconfig that are read: certificates take a few thousand."""

_TOP: Final = frozenset({"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context"})
_CLUSTER: Final = frozenset({"server", "certificate-authority-data"})
_USER: Final = frozenset({"token", "client-certificate-data", "client-key-data"})
_CONTEXT: Final = frozenset({"cluster", "user", "namespace"})
_WHY: Final[Mapping[str, str]] = {
    "exec": "it would run a program beside the hub",
    "auth-provider": "it would run code beside the hub",
    "tokenFile": "it would read a file of this machine; give the token itself",
    "client-certificate": "it would read a file of this machine; give client-certificate-data",
    "client-key": "it would read a file of this machine; give client-key-data",
    "certificate-authority": "it would read a file of this machine; give certificate-authority-data",
    "insecure-skip-tls-verify": "the member would not be known to be the member",
    "proxy-url": "it would lead the hub's requests somewhere else; set HTTPS_PROXY for this process",
    "tls-server-name": "the certificate must be that of the server it names",
    "username": "passwords are no credential here; give a token or a client certificate",
    "password": "passwords are no credential here; give a token or a client certificate",
    "as": "it would act as somebody else",
    "as-groups": "it would act as somebody else",
    "as-uid": "it would act as somebody else",
    "as-user-extra": "it would act as somebody else",
}
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class RefusedKubeconfig(ValueError):
    """The kubeconfig of a push member holds what it may not, or lacks what it must hold; names the field and says why."""


@dataclass(frozen=True, slots=True)
class PushAccess:
    """The way to a push member. Certificates and key as PEM; either `token` or both of `certificate` and `key`."""

    server: str
    authority: str
    token: str = ""
    certificate: str = ""
    key: str = ""

    def kubeconfig(self) -> str:
        """A kubeconfig made anew from what was accepted: nothing else of the given one gets any further."""
        if self.token:
            user: dict[str, str] = {"token": self.token}
        else:
            user = {"client-certificate-data": _encoded(self.certificate), "client-key-data": _encoded(self.key)}
        cluster = {"server": self.server, "certificate-authority-data": _encoded(self.authority)}
        tree = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "member",
            "clusters": [{"name": "member", "cluster": cluster}],
            "users": [{"name": "member", "user": user}],
            "contexts": [{"name": "member", "context": {"cluster": "member", "user": "member"}}],
        }
        return yaml.safe_dump(tree)


def read(text: bytes, *, where: str) -> PushAccess:
    """The way that a kubeconfig describes; raises RefusedKubeconfig. `where` names it for people."""
    if len(text) > LARGEST:
        raise RefusedKubeconfig(f"{where}: {len(text)} bytes, a kubeconfig of a push member has at most {LARGEST}")
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # What the parser says may quote the credential.
        raise RefusedKubeconfig(f"{where}: it is no YAML") from error
    if not isinstance(tree, dict):
        raise RefusedKubeconfig(f"{where}: it is no kubeconfig")
    _only(tree, _TOP, where=where)
    if tree.get("preferences"):
        raise RefusedKubeconfig(f"{where}: preferences must be empty")
    cluster_name, cluster = _one(tree, "clusters", "cluster", where=where)
    user_name, user = _one(tree, "users", "user", where=where)
    context_name, context = _one(tree, "contexts", "context", where=where)
    if user.get("insecure-skip-tls-verify") is False or cluster.get("insecure-skip-tls-verify") is False:
        cluster = {name: value for name, value in cluster.items() if name != "insecure-skip-tls-verify"}
    _only(cluster, _CLUSTER, where=f"{where}: cluster")
    _only(user, _USER, where=f"{where}: user")
    _only(context, _CONTEXT, where=f"{where}: context")
    if tree.get("current-context", context_name) != context_name:
        raise RefusedKubeconfig(f"{where}: current-context names a context that is not there")
    if (context.get("cluster"), context.get("user")) != (cluster_name, user_name):
        raise RefusedKubeconfig(f"{where}: the context names another cluster or user than is there")
    authority = _pem(cluster.get("certificate-authority-data"), "CERTIFICATE", where=f"{where}: certificate-authority-data")
    return _with_credential(_server(cluster.get("server"), where=where), authority, user, where=where)


def _with_credential(server: str, authority: str, user: Mapping[str, Any], *, where: str) -> PushAccess:
    token = user.get("token")
    pair = [name for name in ("client-certificate-data", "client-key-data") if user.get(name)]
    if token and pair:
        raise RefusedKubeconfig(f"{where}: user: a token and a client certificate; one of them must go")
    if token:
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise RefusedKubeconfig(f"{where}: user: token: it is no token")
        return PushAccess(server, authority, token=token)
    if len(pair) != 2:
        raise RefusedKubeconfig(f"{where}: user: a token, or both of client-certificate-data and client-key-data, is needed")
    certificate = _pem(user["client-certificate-data"], "CERTIFICATE", where=f"{where}: client-certificate-data")
    key = _pem(user["client-key-data"], "PRIVATE KEY", where=f"{where}: client-key-data")
    return PushAccess(server, authority, certificate=certificate, key=key)


def _server(value: object, *, where: str) -> str:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        named = parts.hostname and parts.port is not None or parts.hostname
    except ValueError:
        named = None
    if not isinstance(value, str) or parts.scheme != "https" or not named:
        raise RefusedKubeconfig(f"{where}: cluster: server: it must be https://host[:port]")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise RefusedKubeconfig(f"{where}: cluster: server: it may hold host, port and path only")
    return value


def _one(tree: Mapping[str, Any], plural: str, singular: str, *, where: str) -> tuple[str, dict[str, Any]]:
    listed = tree.get(plural)
    if not isinstance(listed, list) or len(listed) != 1:
        count = len(listed) if isinstance(listed, list) else 0
        raise RefusedKubeconfig(f"{where}: {plural}: there are {count}, exactly one is allowed")
    entry = listed[0]
    body = entry.get(singular) if isinstance(entry, dict) else None
    if not isinstance(body, dict) or not isinstance(entry.get("name"), str):
        raise RefusedKubeconfig(f"{where}: {plural}: it has no name, or no {singular}")
    _only(entry, frozenset({"name", singular}), where=f"{where}: {plural}")
    return entry["name"], body


def _only(tree: Mapping[str, Any], allowed: frozenset[str], *, where: str) -> None:
    for name in tree:
        if name not in allowed:
            why = _WHY.get(str(name), f"only {', '.join(sorted(allowed))} are allowed")
            raise RefusedKubeconfig(f"{where}: {str(name)[:40]} is refused: {why}")


def _pem(value: object, label: str, *, where: str) -> str:
    try:
        text = base64.b64decode(value if isinstance(value, str) else "", validate=False).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if not re.search(rf"-----BEGIN [A-Z ]*{label}-----", text):
        raise RefusedKubeconfig(f"{where}: it must be a {label.lower()} in PEM, as base64")
    return text


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
