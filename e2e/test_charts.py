"""Both charts: helm finds nothing wrong, API servers take all they render, and mistakes in values are told by name."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from e2e import charts
from e2e.charts import Doc, HelmFailed
from e2e.controlplane.fleet import Federation
from federation.settings import HubSettings
from member_agent.settings import AgentSettings

MEMBER = {"cluster": "east"}
pytestmark = pytest.mark.issue(8)

ALL: dict[str, dict[str, Any]] = {
    "federation": {"networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]}},
    "member-agent": {
        **MEMBER,
        "provider": "example",
        "region": "eu-east",
        "zones": ["eu-east-a"],
        "labels": {"tier": "spot"},
        "scheduler": {"configuration": 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: gang\n'},
        "owners": [{"group": "argoproj.io", "resources": ["workflows"]}],
        "settings": {"scheduling": {"more_names": ["batch"]}},
    },
}


def _pods(docs: list[Doc]) -> list[Doc]:
    return [doc["spec"]["template"]["spec"] for doc in docs if doc["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("chart", sorted(ALL))
def test_helm_finds_nothing_wrong(chart: str) -> None:
    said = charts.helm("lint", "--strict", str(charts.CHARTS / chart), values=ALL[chart])
    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("chart", sorted(ALL))
async def test_api_servers_take_everything_that_is_rendered(federation: Federation, chart: str) -> None:
    docs = charts.render(chart, values=ALL[chart])
    await charts.put(federation.hub, [_moved(doc, f"chart-{chart}") for doc in docs], namespace=f"chart-{chart}", dry_run=True)


def _moved(doc: Doc, namespace: str) -> Doc:
    meta = doc["metadata"]
    return {**doc, "metadata": {**meta, **({"namespace": namespace} if "namespace" in meta else {})}}


@pytest.mark.parametrize("chart", sorted(ALL))
def test_nothing_runs_as_root_or_writes_to_its_image(chart: str) -> None:
    for pod in _pods(charts.render(chart, values=ALL[chart])):
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 65532
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("chart", "values", "says"),
    [
        ("member-agent", {}, "cluster"),
        ("member-agent", {"cluster": "East"}, "cluster"),
        ("member-agent", {**MEMBER, "mode": "native"}, "mode"),
        ("member-agent", {**MEMBER, "agent": {"replicas": 0}}, "replicas"),
        ("federation", {"replica": 3}, "replica"),
        ("federation", {"admission": {"port": 80}}, "port"),
    ],
)
def test_a_mistake_in_the_values_is_told_by_name(chart: str, values: dict[str, Any], says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        charts.render(chart, values=values)


def test_settings_given_are_kept_beside_those_that_the_chart_sets() -> None:
    docs = charts.render("member-agent", values=ALL["member-agent"])
    (settings,) = (doc["data"]["settings.yaml"] for doc in docs if doc["kind"] == "ConfigMap")
    read = AgentSettings(**{**yaml.safe_load(settings), "cluster": "east"})
    assert read.scheduling.more_names == ("batch",)
    assert str(read.scheduling.configuration) == "/etc/member-agent/scheduler.conf"
    assert read.admission is not None and read.admission.service == "member-agent"
    assert read.labels == {"tier": "spot"} and read.zones == ("eu-east-a",)


def test_what_is_switched_off_is_not_rendered() -> None:
    off = {
        "crds": {"apply": False},
        "rbac": {"people": False},
        "flowControl": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
    }
    found = {doc["kind"] for doc in charts.render("federation", values=off)}
    assert not found & {"Job", "FlowSchema", "PriorityLevelConfiguration", "NetworkPolicy", "PodDisruptionBudget"}
    assert {"Deployment", "ClusterRole", "ValidatingAdmissionPolicy"} <= found


def test_the_hub_trusts_its_own_account_and_shows_its_metrics_to_readers_where_told() -> None:
    values = {"settings": {"admission": {"check_use": True}}, "metricsTls": {"enabled": True}}
    docs = charts.render("federation", values=values)
    (settings,) = (doc["data"]["settings.yaml"] for doc in docs if doc["kind"] == "ConfigMap")
    read = HubSettings(**yaml.safe_load(settings))
    (account,) = (doc["metadata"] for doc in docs if doc["kind"] == "ServiceAccount" and not charts.is_hook(doc))
    assert read.admission is not None and read.admission.check_use
    assert read.admission.trusted == (f"system:serviceaccount:{account['namespace']}:{account['name']}",)
    assert read.metrics is not None and str(read.metrics.certificate) == "/etc/metrics/tls.crt"


def test_the_alerts_reach_a_prometheus_operator_as_they_are_written_and_only_where_one_is_told_of() -> None:
    assert "PrometheusRule" not in {doc["kind"] for doc in charts.render("federation")}
    docs = charts.render("federation", values={"prometheusRule": {"enabled": True, "labels": {"release": "monitoring"}}})
    (rule,) = (doc for doc in docs if doc["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((charts.CHARTS / "federation" / "files" / "rules.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "monitoring"


def test_an_agent_may_impersonate_the_account_that_it_is_told_to_and_no_other() -> None:
    def impersonated(**values: Any) -> list[Any]:
        docs = charts.render("member-agent", values={**MEMBER, **values})
        rules = [rule for doc in docs if doc["kind"] == "ClusterRole" for rule in doc["rules"]]
        return [rule.get("resourceNames") for rule in rules if "impersonate" in rule["verbs"]]

    assert impersonated() == []
    assert impersonated(settings={"works": {"impersonate": "federation-works"}}) == [["federation-works"]]
