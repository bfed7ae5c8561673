"""A light door to the hub: one connection of the standard library, for commands that ask a few times and are done.

The library behind the other door takes a second to import, which is longer than most commands take. This one does what a
kubeconfig with a certificate, a token or a password asks for; exec plug-ins, auth providers and proxies are the other one's.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import yaml

from apis.kinds import Kind
from machinery import errors, wire
from machinery.port import Body, Document, Page, PatchType, Preconditions, Propagation

TIMEOUT: Final = 10.0
"""Seconds for one answer."""
AGENT: Final = "fedctl"
DEFAULT_PATH: Final = Path.home() / ".kube" / "config"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadKubeconfig(ValueError):
    """A kubeconfig that cannot be used; says which, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context of a kubeconfig: its cluster and user as they are written, and its namespace."""

    path: Path
    context: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for but what this door does."""
        return not (self.user.keys() & {"exec", "auth-provider"} or self.cluster.get("proxy-url"))


def choose(path: Path | None, context: str | None) -> Chosen:
    """Read a kubeconfig (None: where kubectl looks). BadKubeconfig when it is missing, broken, or has no such context."""
    where = _first(path) if path is not None else DEFAULT_PATH
    try:
        config = yaml.load(where.read_text(), Loader=_LOADER) or {}
    except FileNotFoundError:
        raise BadKubeconfig(f"{where}: no such kubeconfig; say --kubeconfig or set KUBECONFIG") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{where}: not a kubeconfig: {error}") from None
    if not isinstance(config, dict):
        raise BadKubeconfig(f"{where}: not a kubeconfig")
    name = context or config.get("current-context") or ""
    if not name:
        raise BadKubeconfig(f"{where}: no current context; say --context, one of {_names(config, 'contexts')}")
    found = _named(config, "contexts", name)
    if found is None:
        raise BadKubeconfig(f"{where}: no context {name}; there are {_names(config, 'contexts')}")
    cluster, user = _named(config, "clusters", found.get("cluster")), _named(config, "users", found.get("user"))
    if cluster is None or "server" not in cluster:
        raise BadKubeconfig(f"{where}: context {name} names the cluster {found.get('cluster')!r}, which has no server")
    return Chosen(where, name, cluster, user or {}, found.get("namespace") or "default")


def _first(path: Path) -> Path:
    """KUBECONFIG may list several files; the first that is there counts."""
    parts = [Path(part) for part in str(path).split(os.pathsep) if part]
    return next((part for part in parts if part.exists()), parts[0] if parts else path)


def _named(config: Mapping[str, Any], plural: str, name: object) -> Mapping[str, Any] | None:
    for each in config.get(plural) or ():
        if isinstance(each, dict) and each.get("name") == name:
            found: Mapping[str, Any] = each.get(plural.removesuffix("s")) or {}
            return found
    return None


def _names(config: Mapping[str, Any], plural: str) -> str:
    return ", ".join(str(each.get("name")) for each in config.get(plural) or () if isinstance(each, dict)) or "none"


class LightPort:
    """See `machinery.port.Port`, watches apart. Calls take their time in the thread that makes them."""

    def __init__(self, chosen: Chosen) -> None:
        """BadKubeconfig when credentials cannot be read."""
        parts = urlsplit(str(chosen.cluster["server"]))
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise BadKubeconfig(f"{chosen.path}: {chosen.cluster['server']!r} is no server")
        self._prefix = parts.path.rstrip("/")
        self._where = f"{parts.scheme}://{parts.netloc}"
        self._headers = {"Accept": "application/json", "User-Agent": AGENT, **_authorization(chosen)}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = _tls(chosen)
            self._connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=TIMEOUT, context=context)
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT)

    async def close(self) -> None:
        """See `Port`."""
        self._connection.close()

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        """See `Port`."""
        return self._ask("GET", kind.path(namespace=namespace, name=name))

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """See `Port`."""
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
        }
        path = kind.path(namespace=namespace)
        return wire.read_page(self._ask("GET", path, query=query), request=f"GET {path}")

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        """See `Port`."""
        query = {"dryRun": "All" if dry_run else ""}
        return self._ask("POST", kind.path(namespace=namespace), query=query, body=wire.encode(body))

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        """See `Port`."""
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        return self._ask("PUT", path, body=wire.encode(body))

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        """See `Port`."""
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        return self._ask("PATCH", path, query=query, body=wire.encode(body), content=type.value)

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """See `Port`."""
        body = wire.delete_options(preconditions=preconditions, propagation=propagation, grace_seconds=grace_seconds)
        self._ask("DELETE", kind.path(namespace=namespace, name=name), body=body)

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        """See `Port`."""
        return self._ask(method, path, body=wire.encode(body) if body is not None else None)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content: str = "application/json",
    ) -> bytes:
        chosen = {name: value for name, value in (query or {}).items() if value}
        target = self._prefix + quote(path, safe="/:@!$&'()*+,;=~?") + (f"?{urlencode(chosen)}" if chosen else "")
        headers = {**self._headers, **({"Content-Type": content} if body is not None else {})}
        request = f"{method} {path}"
        try:
            self._connection.request(method, target, body=body, headers=headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise errors.Unreachable(f"{self._where}: {_plainly(error)}", request=request) from error
        if answer.status >= 300:
            raise wire.read_error(data, code=answer.status, request=request, retry_after=answer.headers.get("Retry-After"))
        return data


def _plainly(error: Exception) -> str:
    """What kept a connection from being made, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:.0f} s"
    return str(error) or type(error).__name__


def _tls(chosen: Chosen) -> ssl.SSLContext:
    cluster, user = chosen.cluster, chosen.user
    try:
        authority = _data(cluster, "certificate-authority", chosen.path)
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = _data(user, "client-certificate", chosen.path), _data(user, "client-key", chosen.path)
        if certificate and key:
            with contextlib.ExitStack() as stack:  # the standard library reads them from files alone
                paths = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
                for file, data in zip(paths, (certificate, key), strict=True):
                    file.write(data)
                    file.flush()
                context.load_cert_chain(paths[0].name, paths[1].name)
    except (OSError, ValueError) as error:
        raise BadKubeconfig(f"{chosen.path}: context {chosen.context}: certificates cannot be used: {error}") from None
    return context


def _data(holder: Mapping[str, Any], name: str, path: Path) -> bytes:
    if holder.get(f"{name}-data"):
        return base64.b64decode(holder[f"{name}-data"])
    return (path.parent / str(holder[name])).read_bytes() if holder.get(name) else b""


def _authorization(chosen: Chosen) -> dict[str, str]:
    user = chosen.user
    if user.get("tokenFile"):
        try:
            token = (chosen.path.parent / str(user["tokenFile"])).read_text().strip()
        except OSError as error:
            raise BadKubeconfig(f"{chosen.path}: context {chosen.context}: {error}") from None
        return {"Authorization": f"Bearer {token}"}
    if user.get("token"):
        return {"Authorization": f"Bearer {user['token']}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}
