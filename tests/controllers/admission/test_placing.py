"""What says where Jobs go is refused at the hub's door when it contradicts itself, with the field and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from apis.kinds import Kind
from controllers.admission.placing import validate_placing
from controllers.admission.webhooks import PLACING
from tests.controllers.admission.reviewing import Doc, refusal, thing

JOBS = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}]
NOT_READY = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}

GOOD: list[tuple[Kind, Doc]] = [
    (
        kinds.PROPAGATION_POLICY,
        {"resourceSelectors": JOBS, "placement": {"clusterAffinity": {"clusterNames": ["east", "east"]}}},
    ),
    (kinds.CLUSTER_PROPAGATION_POLICY, {"resourceSelectors": [{**JOBS[0], "namespace": "team"}]}),
    (
        kinds.OVERRIDE_POLICY,
        {"overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]},
    ),
    (kinds.CLUSTER_OVERRIDE_POLICY, {"resourceSelectors": JOBS, "overrideRules": []}),
    (kinds.CLUSTER_TAINT_POLICY, {"addOnConditions": [NOT_READY], "taints": [{"key": "away", "effect": "NoSchedule"}]}),
    (
        kinds.FEDERATED_RESOURCE_QUOTA,
        {"overall": {"cpu": 10}, "staticAssignments": [{"clusterName": "east", "hard": {"cpu": 4}}]},
    ),
    (kinds.CLUSTER_OFFER, {"currency": "EUR", "classes": [{"name": "all", "throughput": 2}]}),
    (kinds.PLACEMENT_PROFILE, {"weights": {"cost": 2, "locality": 1}}),
]
BAD: list[tuple[Kind, Doc, str]] = [
    (
        kinds.PROPAGATION_POLICY,
        {"resourceSelectors": [{**JOBS[0], "namespace": "x"}]},
        "spec.resourceSelectors[0].namespace: must be ns",
    ),
    (
        kinds.CLUSTER_PROPAGATION_POLICY,
        {"resourceSelectors": JOBS, "preemption": "Always"},
        "spec.resourceSelectors[0].name: preemption Always needs a name",
    ),
    (
        kinds.OVERRIDE_POLICY,
        {"overrideRules": [{"overriders": {"plaintext": [{"path": "/x", "operator": "add"}]}}]},
        "spec.overrideRules[0].overriders.plaintext[0].value: add needs a value",
    ),
    (kinds.CLUSTER_OVERRIDE_POLICY, {"overrideRules": [{}], "overriders": {}}, "can't co-exist"),
    (kinds.CLUSTER_TAINT_POLICY, {"taints": [{"key": "x", "effect": "NoSchedule"}]}, "it never does anything"),
    (kinds.FEDERATED_RESOURCE_QUOTA, {"overall": {"cpu": "many"}}, "spec.overall.cpu: 'many' is"),
    (
        kinds.CLUSTER_OFFER,
        {"currency": "EUR", "pools": [{"name": "p", "nodeClass": "x"}]},
        "spec.pools[0].nodeClass: 'x' is not one of",
    ),
    (kinds.PLACEMENT_PROFILE, {"weights": {"beauty": 1}}, "spec.weights.beauty: there is no such rule"),
]


def test_there_is_an_example_of_every_kind() -> None:
    assert {kind for kind, _ in GOOD} == {kind for kind, *_ in BAD} == set(PLACING)


@pytest.mark.parametrize(("kind", "spec"), GOOD, ids=[kind.kind for kind, _ in GOOD])
def test_what_makes_sense_is_taken(kind: Kind, spec: Doc) -> None:
    assert refusal(kind, thing(kind, spec=spec)) == ""


@pytest.mark.parametrize(("kind", "spec", "text"), BAD, ids=[kind.kind for kind, *_ in BAD])
def test_what_contradicts_itself_is_refused_with_field_and_reason(kind: Kind, spec: Doc, text: str) -> None:
    assert text in refusal(kind, thing(kind, spec=spec))


@pytest.mark.parametrize(("kind", "spec", "text"), BAD, ids=[kind.kind for kind, *_ in BAD])
def test_what_got_in_before_may_be_labelled_and_may_leave(kind: Kind, spec: Doc, text: str) -> None:
    old = thing(kind, spec=spec)
    assert refusal(kind, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old=old) == ""
    leaving = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {**spec, "x": 1}}
    assert refusal(kind, leaving, old=old) == ""


@pytest.mark.parametrize("kind", PLACING, ids=[kind.kind for kind in PLACING])
@pytest.mark.parametrize(
    "document", [{}, {"spec": None}, {"spec": []}, {"spec": {"taints": 3}}, {"metadata": 7}, {"spec": {"weights": "x"}}]
)
def test_no_document_however_strange_raises(kind: Kind, document: Any) -> None:
    assert isinstance(validate_placing(kind, document), list)


def test_what_cannot_be_read_names_its_place() -> None:
    (problem,) = validate_placing(kinds.PROPAGATION_POLICY, {"spec": {"priority": "high"}})
    assert (problem.field, problem.message) == ("spec.priority", "Expected `int | null`, got `str`")
