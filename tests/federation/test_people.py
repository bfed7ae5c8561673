"""What the chart lets people do at the hub: nothing that leads into another namespace, into Works, or past the programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "charts" / "federation" / "templates" / "people.yaml"
TENANTS = ("view", "edit", "admin")
Doc = dict[str, Any]


def roles() -> dict[str, list[Doc]]:
    """Rules by the last part of a role's name."""
    text = "\n".join(line for line in CHART.read_text().splitlines() if not line.lstrip().startswith("{{"))
    text = text.replace('{{- include "federation.common" . | nindent 4 }}', "{}")
    found = [doc for doc in yaml.safe_load_all(text) if doc]
    return {doc["metadata"]["name"].split(":")[1]: doc["rules"] for doc in found}


def may(role: str, verb: str, resource: str, group: str) -> bool:
    """Whether the rules of a role allow it, as an API server reads them."""
    return any(
        {group, "*"} & {*rule["apiGroups"]} and {resource, "*"} & {*rule["resources"]} and {verb, "*"} & {*rule["verbs"]}
        for rule in roles()[role]
    )


@pytest.mark.parametrize("role", [*TENANTS, "catalogue", "operator"])
def test_nobody_reads_what_is_exchanged_with_members(role: str) -> None:
    """Works hold the Secrets of all tenants in clear."""
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete"):
        assert not may(role, verb, "works", "work.karmada.io")
        assert not may(role, verb, "secrets", "")
        assert not may(role, verb, "leases", "coordination.k8s.io")


@pytest.mark.parametrize("role", TENANTS)
def test_a_tenant_writes_no_status_no_decision_and_nothing_that_is_everybodys(role: str) -> None:
    for verb in ("create", "update", "patch", "delete"):
        for resource, group in (
            ("jobs/status", "batch.volcano.sh"),
            ("jobflows/status", "flow.volcano.sh"),
            ("placementreviews/status", "volcano-federation.io"),
            ("resourcebindings", "work.karmada.io"),
            ("queues", "scheduling.volcano.sh"),
            ("clusters", "cluster.karmada.io"),
            ("clusteroffers", "volcano-federation.io"),
            ("clusterpropagationpolicies", "policy.karmada.io"),
            ("clusteroverridepolicies", "policy.karmada.io"),
        ):
            assert not may(role, verb, resource, group), (verb, resource)
    assert not may(role, "impersonate", "serviceaccounts", "")
    assert not may(role, "use", "queues", "scheduling.volcano.sh")


def test_who_may_only_look_reads_no_logs_and_asks_nothing() -> None:
    """A review says what somebody may create; logs say what a Job was told."""
    assert not may("view", "get", "jobs/log", "batch.volcano.sh")
    assert not may("view", "create", "placementreviews", "volcano-federation.io")
    assert may("edit", "get", "jobs/log", "batch.volcano.sh")
    assert may("edit", "create", "placementreviews", "volcano-federation.io")
