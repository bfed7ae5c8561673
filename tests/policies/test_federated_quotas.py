"""What a namespace may use over all clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.vectors import ResourceVector
from policies.federated_quotas import FederatedQuotaView, Holding, admits, project_federated_quota, resource_quota, status, used
from policies.verdicts import Wake


def quota(overall: dict[str, Any], assigned: list[Any] | None = None, name: str = "q") -> FederatedQuotaView:
    spec = {"overall": overall} | ({"staticAssignments": assigned} if assigned else {})
    return project_federated_quota(msgspec.json.encode({"metadata": {"name": name, "namespace": "team"}, "spec": spec}))


def asks(**amounts: Any) -> ResourceVector:
    return ResourceVector.from_quantities(amounts)


def holding(cluster: str = "east", namespace: str = "team", **amounts: Any) -> Holding:
    return Holding(namespace, cluster, asks(**amounts))


def test_a_job_that_would_exceed_a_quota_is_told_by_how_much() -> None:
    verdict = admits(
        asks(cpu=3), namespace="team", quotas=[quota({"cpu": 10})], holdings=[holding(cpu=5), holding("west", cpu=4)]
    )
    assert (verdict.code, verdict.text) == ("QuotaExceeded", "FederatedResourceQuota team/q would be exceeded by cpu 2")
    assert verdict.wakes == (Wake.QUEUE, Wake.JOB)
    assert admits(asks(cpu=1), namespace="team", quotas=[quota({"cpu": 10})], holdings=[holding(cpu=9)]).passes


def test_only_what_is_named_and_asked_for_counts_and_only_in_the_namespace() -> None:
    tight = quota({"cpu": 1})
    assert admits(asks(memory="9Ti"), namespace="team", quotas=[tight], holdings=[holding(cpu=5)]).passes
    assert admits(asks(cpu=9), namespace="other", quotas=[tight], holdings=[]).passes
    assert admits(asks(cpu=1), namespace="team", quotas=[tight], holdings=[holding(namespace="other", cpu=5)]).passes


def test_nothing_of_a_resource_is_a_limit_too() -> None:
    assert not admits(
        asks(**{"nvidia.com/gpu": 1}), namespace="team", quotas=[quota({"nvidia.com/gpu": 0})], holdings=[]
    ).passes


@pytest.mark.parametrize("name", ["cpu", "requests.cpu"])
def test_requests_and_pods_are_counted_by_the_names_quotas_use(name: str) -> None:
    named = quota({name: 8, "count/pods": 3})
    assert used(named, [holding(cpu="1500m", pods=2)]) == {name: 1500, "count/pods": 2000}
    assert not admits(asks(pods=2), namespace="team", quotas=[named], holdings=[holding(pods=2)]).passes


def test_every_quota_of_the_namespace_must_hold() -> None:
    quotas = [quota({"cpu": 100}, name="wide"), quota({"cpu": 1}, name="tight")]
    assert "team/tight" in admits(asks(cpu=2), namespace="team", quotas=quotas, holdings=[]).text


def test_the_status_tells_what_is_used_over_all_and_where_it_is_assigned() -> None:
    assigned = [{"clusterName": "east", "hard": {"cpu": 4}}]
    told = status(quota({"cpu": 10, "memory": "1Gi"}, assigned), [holding(cpu=3, memory="512Mi"), holding("west", cpu=2)])
    assert told == {
        "overall": {"cpu": "10", "memory": "1Gi"},
        "overallUsed": {"cpu": "5", "memory": "512Mi"},
        "aggregatedStatus": [{"clusterName": "east", "hard": {"cpu": "4"}, "used": {"cpu": "3"}}],
    }


def test_a_cluster_with_an_assignment_gets_a_quota_of_its_own() -> None:
    made = quota({"cpu": 10}, [{"clusterName": "east", "hard": {"cpu": 4}}])
    assert resource_quota(made, "east") == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": {"cpu": "4"}},
    }
    assert resource_quota(made, "west") is None


@pytest.mark.parametrize(
    ("overall", "assigned", "field"),
    [
        ({"cpu": "many"}, None, "spec.overall.cpu"),
        ({"cpu": -1}, None, "spec.overall.cpu"),
        ({"limits.cpu": 1}, None, "spec.overall.limits.cpu"),
        (
            {"cpu": 5},
            [{"clusterName": "a", "hard": {"cpu": 3}}, {"clusterName": "b", "hard": {"cpu": 3}}],
            "spec.staticAssignments",
        ),
        ({"cpu": 5}, [{"clusterName": "a", "hard": {"memory": 1}}], "spec.staticAssignments[0].hard.memory"),
        (
            {"cpu": 5},
            [{"clusterName": "a", "hard": {}}, {"clusterName": "a", "hard": {}}],
            "spec.staticAssignments[1].clusterName",
        ),
    ],
)
def test_bad_quotas_are_told_where_and_let_nothing_more_in(overall: Any, assigned: Any, field: str) -> None:
    made = quota(overall, assigned)
    assert [each.field for each in made.problems] == [field]
    if "cpu" in overall and field == "spec.overall.cpu":
        assert not admits(asks(cpu=1), namespace="team", quotas=[made], holdings=[]).passes


@given(
    some.lists(some.tuples(some.integers(0, 9), some.integers(0, 9)), max_size=12), some.integers(0, 20), some.integers(0, 20)
)
@settings(max_examples=40)
def test_what_is_admitted_one_by_one_never_exceeds_the_quota(jobs: list[tuple[int, int]], cpu: int, memory: int) -> None:
    limit = quota({"cpu": cpu, "memory": memory})
    held: list[Holding] = []
    for index, (cores, room) in enumerate(jobs):
        requests = asks(cpu=cores, memory=room)
        if admits(requests, namespace="team", quotas=[limit], holdings=held).passes:
            held.append(Holding("team", "east" if index % 2 else "west", requests))
    total = used(limit, held)
    assert total["cpu"] <= cpu * 1000 and total["memory"] <= memory * 1000
