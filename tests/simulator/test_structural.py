"""Schemas judge a value only by the rules of its type."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from simulator import structural


def job(cpu: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [container]}}}]}
    return {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": "a", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("cpu", [1, "1", "100m"])
def test_a_quantity_is_a_number_or_a_text(cpu: Any) -> None:
    assert structural.validators()[kinds.JOB](job(cpu), None) == []


@pytest.mark.parametrize("cpu", ["much", "1" * 300, True, [], None])
def test_anything_else_is_refused_by_field(cpu: Any) -> None:
    (cause,) = structural.validators()[kinds.JOB](job(cpu), None)
    assert cause.field == "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]"
