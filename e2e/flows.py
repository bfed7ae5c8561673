"""Small flows for end-to-end tests, and the policy that keeps a namespace on chosen members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def template(name: str, *, pods: int = 2, command: str = "sleep 1", cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A JobTemplate of one gang."""
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    task = {"name": "t", "replicas": pods, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name},
        "spec": {"minAvailable": pods, "tasks": [task], **spec},
    }


def job(name: str, **spec: Any) -> dict[str, Any]:
    """A Job of one gang; the arguments are those of `template`, further ones replace fields of the spec."""
    made = template(name, **spec)
    return {**made, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}


def flow(name: str, steps: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A JobFlow: step to the steps it waits for."""
    flows = [{"name": step, "dependsOn": {"targets": list(targets)}} for step, targets in steps.items()]
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name},
        "spec": {"flows": flows},
    }


DIAMOND: Mapping[str, Sequence[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["a"], "e": ["b", "c", "d"]}
"""Fan-out and fan-in, five gangs."""


def diamond(name: str = "diamond") -> list[dict[str, Any]]:
    """Templates and flow of DIAMOND."""
    return [*(template(step) for step in DIAMOND), flow(name, DIAMOND)]


def on(*clusters: str) -> dict[str, Any]:
    """Jobs of the namespace run on these members."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "chosen"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}],
            "placement": {"clusterAffinity": {"clusterNames": list(clusters)}},
        },
    }


def text(*documents: dict[str, Any]) -> str:
    """As a manifest."""
    return yaml.safe_dump_all(documents)
