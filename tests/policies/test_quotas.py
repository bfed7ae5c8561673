"""Pods in quota form."""

from __future__ import annotations

import pytest

from apis.quantities import InvalidQuantity
from apis.vectors import ResourceVector
from policies.quotas import quota_form, quota_of


def container(requests: dict[str, str], limits: dict[str, str] | None = None, **more: str) -> dict[str, object]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}, **more}


def test_every_request_stands_twice_limits_that_a_quota_knows_once_and_the_pod_is_counted() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2"}
    pod = {"spec": {"containers": [container({"cpu": "1", "nvidia.com/gpu": "2"}, limits)]}}
    assert quota_of(pod).to_quantities() == {
        "cpu": "1",
        "requests.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
        "limits.cpu": "2",
        "limits.memory": "1Gi",
        "pods": "1",
        "count/pods": "1",
    }


def test_init_containers_sidecars_and_overhead_count_as_they_run() -> None:
    pod = {
        "spec": {
            "containers": [container({"cpu": "1"}, {"cpu": "1"})],
            "initContainers": [
                container({"cpu": "1"}, {"cpu": "2"}, restartPolicy="Always"),
                container({"cpu": "3"}, {"cpu": "4"}),
            ],
            "overhead": {"cpu": "250m", "memory": "64Mi"},
        }
    }
    found = quota_of(pod).to_quantities()
    assert (found["requests.cpu"], found["limits.cpu"]) == ("4250m", "6250m")
    assert found["requests.memory"] == "64Mi"
    assert "limits.memory" not in found  # overhead limits nothing that had no limit


def test_a_pod_that_asks_for_nothing_is_still_a_pod() -> None:
    assert quota_form(ResourceVector(), limits=ResourceVector()).to_quantities() == {"pods": "1", "count/pods": "1"}
    assert quota_of({"spec": {"containers": [{"name": "c"}]}}).to_quantities() == {"pods": "1", "count/pods": "1"}


def test_what_is_no_template_or_no_quantity_is_said() -> None:
    with pytest.raises(ValueError, match="no pod template"):
        quota_of({"spec": {"containers": "none"}})
    with pytest.raises(InvalidQuantity, match="cpu"):
        quota_of({"spec": {"containers": [container({"cpu": "much"})]}})
