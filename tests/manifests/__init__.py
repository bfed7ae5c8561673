"""Manifests shared by the tests of the models, of the rules and of a real API server."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from apis.kinds import Kind
from apis.served import BY_KIND, SERVED

FOLDER = Path(__file__).parent

_POD = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m"}}}],
    }
}
GOOD_JOB: dict[str, Any] = {
    "queue": "default",
    "tasks": [{"name": "a", "replicas": 2, "template": _POD}, {"name": "b", "replicas": 1, "template": _POD}],
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A manifest that must be refused, the field the answer names, and a fragment of its text."""

    wrong: str
    field: str
    says: str
    manifest: dict[str, Any]
    by_schema: bool

    @property
    def kind(self) -> Kind:
        return kind_of(self.manifest)

    def __str__(self) -> str:
        return f"{self.manifest['kind']}: {self.wrong}"


def kind_of(manifest: dict[str, Any]) -> Kind:
    """The served kind of a manifest."""
    return next(k for k in BY_KIND if k.kind == manifest["kind"] and k.api_version == manifest["apiVersion"])


def served() -> list[dict[str, Any]]:
    """Manifests that are served as they were written."""
    return [
        document for path in sorted((FOLDER / "served").glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
    ]


def refused() -> list[Refusal]:
    """Manifests that are refused."""
    jobs = yaml.safe_load((FOLDER / "refused" / "jobs.yaml").read_text())
    others = yaml.safe_load((FOLDER / "refused" / "others.yaml").read_text())
    return [_refusal(entry, manifest=_job(entry)) for entry in jobs] + [
        _refusal(entry, manifest=_other(entry)) for entry in others
    ]


def _refusal(entry: dict[str, Any], *, manifest: dict[str, Any]) -> Refusal:
    return Refusal(entry["wrong"], entry["field"], entry["says"], manifest, entry.get("by") != "rules")


def _manifest(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "bad", "namespace": "default"} if kind.namespaced else {"name": "bad"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def _job(entry: dict[str, Any]) -> dict[str, Any]:
    spec = deepcopy(GOOD_JOB) | entry.get("spec", {})
    for task in spec["tasks"]:
        task.setdefault("template", deepcopy(_POD))
    if "task" in entry:
        spec["tasks"][0] |= entry["task"]
    if "template" in entry:
        spec["tasks"][0]["template"] = {"spec": entry["template"]}
    return _manifest(next(s.kind for s in SERVED if s.kind.name == "jobs.batch.volcano.sh"), spec)


def _other(entry: dict[str, Any]) -> dict[str, Any]:
    kind = next(s.kind for s in SERVED if s.kind.kind == entry["kind"])
    selectors = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}]
    spec = entry.get("spec") if "placement" not in entry else {"resourceSelectors": selectors, "placement": entry["placement"]}
    manifest = _manifest(kind, spec or {})
    manifest["metadata"]["name"] = entry.get("name", "bad")
    return manifest
