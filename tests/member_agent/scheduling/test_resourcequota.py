"""resourcequota: groups are let in within the quotas of their namespace."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.plugins.resourcequota import room_grew
from member_agent.views.quotas import QuotaView, Scope, project_quota
from tests.member_agent.scheduling.build import Made, admitted, code, configuration, frozen, gang, nodes, vector, why

BY = configuration("gang", "resourcequota")
OFF = configuration("gang", "{name: resourcequota, enableJobEnqueued: false}")


def quota(*, used: dict[str, Any] | None = None, scopes: tuple[Scope, ...] = (), **hard: Any) -> QuotaView:
    """Names with _ for a dot."""
    named = {name.replace("_", "."): str(amount) for name, amount in hard.items()}
    taken = {name.replace("_", "."): str(amount) for name, amount in (used or {}).items()}
    body = {"metadata": {"name": "compute", "namespace": "ns"}, "spec": {"hard": named}, "status": {"used": taken}}
    return dataclasses.replace(project_quota(orjson.dumps(body)), scopes=scopes)


def pending(name: str, *, asks: int = 1, minimum: int = 1, **more: Any) -> Made:
    return gang(name, pods=0, asks=asks, minimum=minimum, phase="Pending", **more)


def decide(*gangs: Made, quotas: tuple[QuotaView, ...], by: Any = BY) -> Plan:
    return plan(dataclasses.replace(frozen(nodes(99), gangs), quotas={"ns": quotas}), configuration=by)


def test_groups_are_let_in_as_far_as_the_quota_reaches_and_told_of_it() -> None:
    small = quota(cpu=4, used={"cpu": 1})
    found = decide(*(pending(name, asks=2) for name in "ab"), quotas=(small,))
    assert admitted(found) == ["a"]
    assert (code(found, "b"), why(found, "b")) == (
        "QuotaExceeded",
        "quota compute of namespace ns is at cpu 3 of 4: 2 asked for",
    )
    assert admitted(decide(*(pending(name, asks=2) for name in "ab"), quotas=(small,), by=OFF)) == ["a", "b"]
    assert admitted(decide(*(pending(name, asks=2) for name in "ab"), quotas=(small,), by=configuration("gang"))) == ["a", "b"]


def test_another_namespaces_quota_says_nothing() -> None:
    snapshot = dataclasses.replace(frozen(nodes(9), [pending("a")]), quotas={"other": (quota(cpu=0),)})
    assert admitted(plan(snapshot, configuration=BY)) == ["a"]


@pytest.mark.parametrize("two", [quota(cpu=2), quota(requests_cpu=2)])
def test_requests_count_by_both_their_names(two: QuotaView) -> None:
    assert admitted(decide(pending("a", asks=3), quotas=(two,))) == []
    assert admitted(decide(pending("a", asks=2), quotas=(two,))) == ["a"]


def test_limits_pods_and_what_may_not_be_had_at_all_count() -> None:
    limited = pending("a")
    limited = dataclasses.replace(limited, group=dataclasses.replace(limited.group, min_resources=vector(**{"limits.cpu": 3})))
    assert admitted(decide(limited, quotas=(quota(limits_cpu=2),))) == []
    assert admitted(decide(limited, quotas=(quota(limits_cpu=3),))) == ["a"]
    assert admitted(decide(pending("a", minimum=3), quotas=(quota(pods=2),))) == []
    assert admitted(decide(pending("a", minimum=3), quotas=(quota(pods=3),))) == ["a"]
    assert admitted(decide(pending("a"), quotas=(quota(cpu=0),))) == []


def test_devices_count_by_the_name_that_quotas_have_for_them() -> None:
    device = pending("a")
    device = dataclasses.replace(device, group=dataclasses.replace(device.group, min_resources=vector(**{"nvidia.com/gpu": 3})))
    body = {"metadata": {"name": "gpus", "namespace": "ns"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}
    two = project_quota(orjson.dumps(body))
    assert admitted(decide(device, quotas=(two,))) == []
    assert admitted(decide(device, quotas=(dataclasses.replace(two, hard=two.hard + two.hard),))) == ["a"]


def test_all_quotas_of_a_namespace_must_agree() -> None:
    assert admitted(decide(pending("a", asks=2), quotas=(quota(cpu=9), quota(cpu=1)))) == []


def test_groups_let_in_before_count_until_their_pods_exist() -> None:
    early, late = gang("early", pods=0, minimum=2, asks=2), pending("late", asks=2)
    assert admitted(decide(early, late, quotas=(quota(cpu=3),))) == []
    half = gang("early", pods=1, minimum=2, asks=2)
    assert admitted(decide(half, late, quotas=(quota(cpu=3),))) == ["late"]
    assert admitted(decide(half, late, quotas=(quota(cpu=3, used={"cpu": 1}),))) == []


@pytest.mark.parametrize(
    ("scope", "applies"),
    [
        (Scope("NotBestEffort"), True),
        (Scope("BestEffort"), False),
        (Scope("NotTerminating"), True),
        (Scope("Terminating"), False),
        (Scope("PriorityClass", "In", ("p5",)), True),
        (Scope("PriorityClass", "In", ("p6",)), False),
        (Scope("PriorityClass", "NotIn", ("p6",)), True),
        (Scope("PriorityClass", "Exists"), True),
        (Scope("PriorityClass", "DoesNotExist"), False),
    ],
)
def test_a_quota_counts_those_its_scopes_name(scope: Scope, *, applies: bool) -> None:
    found = admitted(decide(pending("a", priority=5), quotas=(quota(cpu=0, scopes=(scope,)),)))
    assert found == ([] if applies else ["a"])


def test_what_cannot_be_read_limits_nothing() -> None:
    assert admitted(decide(pending("a"), quotas=(quota(cpu="many"),))) == ["a"]


def test_only_more_room_is_a_reason_to_look_again() -> None:
    before = quota(cpu=4, used={"cpu": 2})
    assert room_grew(before, quota(cpu=4, used={"cpu": 1}))
    assert room_grew(before, quota(cpu=5, used={"cpu": 2}))
    assert room_grew(before, quota(memory=4))
    assert not room_grew(before, quota(cpu=4, used={"cpu": 3}))
