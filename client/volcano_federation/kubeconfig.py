"""Where the hub is and who we are there: from a kubeconfig, or from the ServiceAccount of the pod that this runs in."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from volcano_federation.errors import BadKubeconfig

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Place:
    """One hub as one user sees it. `tls` None: plain http. One of `token`, `token_file`, `password` (user and password), or a
    `helper` (the `exec` of a kubeconfig) that is asked for a token; none of them where the certificate in `tls` says it."""

    server: str
    namespace: str = "default"
    tls: ssl.SSLContext | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    password: tuple[str, str] | None = field(default=None, repr=False)
    helper: Mapping[str, Any] | None = None

    async def authorization(self) -> str:
        """The header's value, "" for none. A file is read, and a helper asked, each time: tokens are rotated. BadKubeconfig
        when that fails."""
        if self.helper is not None:
            return f"Bearer {await _ask(self.helper)}"
        if self.token_file is not None:
            try:
                return f"Bearer {self.token_file.read_text().strip()}"
            except OSError as error:
                raise BadKubeconfig(str(error), about=str(self.token_file)) from error
        if self.token:
            return f"Bearer {self.token}"
        if self.password is not None:
            return "Basic " + base64.b64encode(":".join(self.password).encode()).decode()
        return ""


def read(path: str | os.PathLike[str] | None = None, *, context: str | None = None, namespace: str | None = None) -> Place:
    """A context of a kubeconfig; path None: what KUBECONFIG names, else ~/.kube/config. BadKubeconfig says what is wrong."""
    where = _where(path)
    try:
        config = yaml.safe_load(where.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadKubeconfig(f"it cannot be read: {error}", about=str(where)) from error
    if not isinstance(config, dict):
        raise BadKubeconfig("it is no kubeconfig", about=str(where))
    name = context or str(config.get("current-context") or "")
    chosen = _named(config, "contexts", name)
    if chosen is None:
        there = ", ".join(str(each.get("name")) for each in config.get("contexts") or ()) or "none"
        raise BadKubeconfig(f"there is no context {name!r}; there are: {there}", about=str(where))
    cluster, user = _named(config, "clusters", chosen.get("cluster")), _named(config, "users", chosen.get("user")) or {}
    server = str((cluster or {}).get("server") or "")
    if cluster is None or not server.startswith(("https://", "http://")):
        raise BadKubeconfig(f"context {name!r} has no server", about=str(where))
    if user.get("auth-provider"):
        raise BadKubeconfig("auth-provider is not read; use exec, which replaced it", about=str(where))
    return Place(
        server=server.rstrip("/"),
        namespace=namespace or str(chosen.get("namespace") or "default"),
        tls=_tls(cluster, user, where) if server.startswith("https:") else None,
        token=str(user.get("token") or ""),
        token_file=where.parent / str(user["tokenFile"]) if user.get("tokenFile") else None,
        password=(str(user["username"]), str(user.get("password") or "")) if user.get("username") else None,
        helper=user.get("exec"),
    )


def in_cluster(environment: Mapping[str, str] | None = None, *, folder: Path = SERVICE_ACCOUNT) -> Place:
    """The API server of the cluster that this pod runs in, by its ServiceAccount. BadKubeconfig outside of pods."""
    known = os.environ if environment is None else environment
    try:
        host, port = known["KUBERNETES_SERVICE_HOST"], known["KUBERNETES_SERVICE_PORT"]
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text().strip()
    except (KeyError, OSError) as error:
        raise BadKubeconfig(f"this is no pod with a ServiceAccount: {error}", about=str(folder)) from error
    shown = f"[{host}]" if ":" in host else host
    return Place(server=f"https://{shown}:{port}", namespace=namespace, tls=tls, token_file=folder / "token")


def _where(path: str | os.PathLike[str] | None) -> Path:
    """KUBECONFIG may list several files; the first that is there counts."""
    if path is not None:
        return Path(path).expanduser()
    listed = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return next((each for each in listed if each.exists()), listed[0] if listed else Path.home() / ".kube" / "config")


def _named(config: Mapping[str, Any], plural: str, name: object) -> dict[str, Any] | None:
    for each in config.get(plural) or ():
        if isinstance(each, dict) and each.get("name") == name:
            found: dict[str, Any] = each.get(plural.removesuffix("s")) or {}
            return found
    return None


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], where: Path) -> ssl.SSLContext:
    try:
        authority = _data(cluster, "certificate-authority", where)
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        certificate, key = _data(user, "client-certificate", where), _data(user, "client-key", where)
        if certificate and key:
            with contextlib.ExitStack() as stack:  # the standard library reads them from files alone
                files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
                for file, data in zip(files, (certificate, key), strict=True):
                    file.write(data)
                    file.flush()
                tls.load_cert_chain(files[0].name, files[1].name)
    except (OSError, ValueError) as error:
        raise BadKubeconfig(f"its certificates cannot be used: {error}", about=str(where)) from error
    return tls


def _data(holder: Mapping[str, Any], name: str, where: Path) -> bytes:
    if holder.get(f"{name}-data"):
        return base64.b64decode(holder[f"{name}-data"])
    return (where.parent / str(holder[name])).read_bytes() if holder.get(name) else b""


async def _ask(helper: Mapping[str, Any]) -> str:
    """The token that a credential helper prints; certificates from helpers are not taken."""
    command = str(helper.get("command") or "")
    version = str(helper.get("apiVersion") or _EXEC[0])
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    extra = {str(each["name"]): str(each["value"]) for each in helper.get("env") or ()}
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    words = [str(each) for each in helper.get("args") or ()]
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(command, *words, env=environment, stdout=pipe, stderr=pipe)
        out, said = await process.communicate()
        if process.returncode:
            raise BadKubeconfig(f"it ended with {process.returncode}: {said.decode(errors='replace').strip()}", about=command)
        token = json.loads(out)["status"]["token"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadKubeconfig(f"it gives no token: {error}", about=command) from error
    return str(token)
