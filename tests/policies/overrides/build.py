"""Builders of override policies and of objects that they change."""

from __future__ import annotations

from typing import Any

import msgspec

from policies.overrides import OverrideView, project_override

JOB_SELECTOR = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}


def policy(
    name: str = "o", *, namespace: str = "default", select: Any = None, on: Any = None, **overriders: Any
) -> OverrideView:
    """A policy of one rule; `on` is its target cluster, the overriders are given by their names in JSON."""
    rule = {"overriders": overriders} | ({"targetCluster": on} if on is not None else {})
    return read(name, namespace=namespace, spec={"overrideRules": [rule]} | ({"resourceSelectors": [select]} if select else {}))


def read(name: str, *, namespace: str = "default", spec: dict[str, Any]) -> OverrideView:
    document = {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, "spec": spec}
    return project_override(msgspec.json.encode(document))


def container(name: str, image: str = "nginx:1", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **more}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)} | ({"initContainers": list(init)} if init else {})}


def job(**more: Any) -> dict[str, Any]:
    """A Volcano Job of a master, with an init container, and two workers."""
    master = {
        "name": "master",
        "replicas": 1,
        "template": pod(container("main", "docker.io/ml/train:v1", args=["--a"]), init=(container("fetch", "ml/fetch"),)),
    }
    worker = {
        "name": "worker",
        "replicas": 2,
        "template": pod(container("main", "ml/train:v1"), container("log", "log@sha256:" + 64 * "a")),
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "labels": {"team": "ml"}},
        "spec": {"queue": "research", "minAvailable": 3, "tasks": [master, worker], **more},
    }


def images(manifest: Any) -> list[str]:
    """Every image of a Job, init containers first."""
    return [
        each["image"]
        for task in manifest["spec"]["tasks"]
        for field in ("initContainers", "containers")
        for each in task["template"]["spec"].get(field, [])
    ]
