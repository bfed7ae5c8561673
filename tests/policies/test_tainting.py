"""Taints that follow conditions of clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apis import keys
from policies.shapes import Taint
from policies.tainting import TaintPolicyView, problems, project_taint_policy, retainted
from tests.policies.build import cluster

NOT_READY = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
READY = {"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}
DISK = {"conditionType": "Disk", "operator": "In", "statusValues": ["False", "Unknown"]}
AWAY = {"key": "away", "effect": "NoSchedule"}
TAINT = Taint("away", "", "NoSchedule")


def policy(name: str = "p", *, created: str = "", taints: Any = (AWAY,), **spec: Any) -> TaintPolicyView:
    document = {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"taints": list(taints), **spec}}
    return project_taint_policy(msgspec.json.encode(document))


def taints(*policies: TaintPolicyView, ready: str, there: tuple[Taint, ...] = (), no_execute: bool = False, **more: Any) -> Any:
    east = cluster("east", taints=there, conditions={"Ready": (ready, "")}, **more)
    return retainted(east, policies=policies, no_execute=no_execute)


FOLLOWS = policy(addOnConditions=[NOT_READY], removeOnConditions=[READY])


def test_a_taint_comes_and_goes_with_a_condition_and_nothing_is_written_twice() -> None:
    assert taints(FOLLOWS, ready="False").added == (TAINT,)
    assert not taints(FOLLOWS, ready="False", there=(TAINT,)).changes
    gone = taints(FOLLOWS, ready="True", there=(TAINT, Taint("mine", "", "NoSchedule")))
    assert (gone.taints, gone.removed) == ((Taint("mine", "", "NoSchedule"),), (TAINT,))
    assert not taints(FOLLOWS, ready="True").changes


def test_all_conditions_must_hold_one_that_is_absent_does_not_and_no_conditions_never_fire() -> None:
    assert not taints(policy(addOnConditions=[NOT_READY, DISK]), ready="False").changes
    assert not taints(policy(addOnConditions=[{**DISK, "operator": "NotIn"}]), ready="False").changes
    assert not taints(policy(addOnConditions=[]), ready="False", there=(TAINT,)).changes


def test_only_the_clusters_it_targets_are_tainted_and_leaving_policies_do_nothing() -> None:
    west = policy(addOnConditions=[NOT_READY], targetClusters={"clusterNames": ["west"]})
    assert not taints(west, ready="False").changes
    going = TaintPolicyView("", "p", add=FOLLOWS.add, taints=FOLLOWS.taints, deleting=True)
    assert not taints(going, ready="False").changes


def test_the_newest_policy_has_the_last_word_on_a_taint() -> None:
    old = policy("z", created="2026-01-01T00:00:00Z", addOnConditions=[NOT_READY], taints=[{**AWAY, "value": "old"}])
    new = policy("a", created="2026-02-01T00:00:00Z", addOnConditions=[NOT_READY], taints=[{**AWAY, "value": "new"}])
    assert taints(new, old, ready="False").taints == (Taint("away", "new", "NoSchedule"),)
    off = policy("b", created="2026-03-01T00:00:00Z", removeOnConditions=[NOT_READY])
    assert taints(new, off, old, ready="False", there=(TAINT,)).removed == (TAINT,)


def test_policies_evict_only_where_the_hub_allows_it() -> None:
    evicts = policy(addOnConditions=[NOT_READY], taints=[{"key": "x", "effect": "NoExecute"}])
    assert not taints(evicts, ready="False").changes
    assert taints(evicts, ready="False", no_execute=True).added == (Taint("x", "", "NoExecute"),)
    assert [each.field for each in problems(evicts)] == ["spec.taints[0].effect"]
    assert problems(evicts, no_execute=True) == []


def test_taints_of_health_are_the_hubs_own() -> None:
    meddles = policy(addOnConditions=[NOT_READY], taints=[{"key": keys.TAINT_UNREACHABLE, "effect": "NoSchedule"}])
    assert not taints(meddles, ready="False").changes
    assert [each.field for each in problems(meddles)] == ["spec.taints[0].key"]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"taints": []}, ["spec.taints", "spec"]),
        ({"addOnConditions": [NOT_READY], "taints": [AWAY, AWAY]}, ["spec.taints[1]"]),
        ({"removeOnConditions": [{**READY, "operator": "Is"}]}, ["spec.removeOnConditions[0].operator"]),
    ],
)
def test_what_is_wrong_with_a_policy_is_told_where(spec: dict[str, Any], fields: list[str]) -> None:
    assert [each.field for each in problems(policy(**spec))] == fields
