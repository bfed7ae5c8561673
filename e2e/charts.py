"""The charts as helm renders them, put on real control planes, and the identities they give to our programs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane import build
from e2e.controlplane.api import Api
from e2e.controlplane.cluster import RunningCluster

CHARTS = Path(__file__).parents[1] / "charts"
NAMESPACE = "federation-system"
TOKEN_SECONDS = 24 * 3600

Doc = dict[str, Any]


class HelmFailed(Exception):
    """helm refused; the message is helm's."""


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """What helm prints. Raises HelmFailed. Nothing of the user's own helm configuration is read."""
    with tempfile.TemporaryDirectory() as home:
        given = Path(home) / "values.yaml"
        given.write_text(yaml.safe_dump(dict(values or {})))
        environment = {"HOME": home, "PATH": "/usr/bin:/bin", "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home}
        command = [str(build.helm(report=lambda _: None)), *arguments, "--values", str(given)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    if done.returncode:
        raise HelmFailed(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def render(chart: str, *, values: Mapping[str, Any] | None = None, namespace: str = NAMESPACE) -> list[Doc]:
    """Every object of a chart, hooks among them, in helm's order."""
    text = helm("template", "release", str(CHARTS / chart), "--namespace", namespace, "--kube-version", "1.36.0", values=values)
    return [doc for doc in yaml.safe_load_all(text) if doc]


def is_hook(doc: Doc) -> bool:
    """Whether helm runs it apart from the release."""
    return "helm.sh/hook" in (doc["metadata"].get("annotations") or {})


async def put(cluster: RunningCluster, docs: Iterable[Doc], *, namespace: str = NAMESPACE, dry_run: bool = False) -> None:
    """Apply objects as an administrator, in a namespace that takes nothing less than restricted pods. Raises ApiRefused."""
    async with cluster.api() as api:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        await _apply(api, "/api/v1/namespaces", space, dry_run=False)
        plurals = await _plurals(api)
        for doc in docs:
            plural, namespaced = plurals[doc["apiVersion"], doc["kind"]]
            group = "/api/v1" if doc["apiVersion"] == "v1" else f"/apis/{doc['apiVersion']}"
            where = f"/namespaces/{doc['metadata'].get('namespace', namespace)}" if namespaced else ""
            await _apply(api, f"{group}{where}/{plural}", doc, dry_run=dry_run)


async def _apply(api: Api, collection: str, doc: Doc, *, dry_run: bool) -> None:
    query = "fieldManager=helm&force=true" + ("&dryRun=All&fieldValidation=Strict" if dry_run else "&fieldValidation=Strict")
    path = f"{collection}/{doc['metadata']['name']}?{query}"
    await api.raw("PATCH", path, body=doc, content_type="application/apply-patch+yaml")


async def _plurals(api: Api) -> dict[tuple[str, str], tuple[str, bool]]:
    """What is served: by apiVersion and kind, the plural and whether it lives in namespaces."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    groups = (await api.get("/apis"))["groups"]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    for path in paths:
        listed = await api.get(path)
        for each in listed["resources"]:
            if "/" not in each["name"]:
                found[listed["groupVersion"], each["kind"]] = (each["name"], each["namespaced"])
    return found


async def token(cluster: RunningCluster, account: str, *, namespace: str = NAMESPACE) -> str:
    """A token of a ServiceAccount, as its pods would have one."""
    async with cluster.api() as api:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
        made = await api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
    return str(made["status"]["token"])


def kubeconfig_with(path: Path, *, like: Path, bearer: str) -> Path:
    """A kubeconfig for the same server as another one, with a token instead of its credential."""
    config = yaml.safe_load(like.read_text())
    for user in config["users"]:
        user["user"] = {"token": bearer}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o644)  # programs read it as another user
    return path
