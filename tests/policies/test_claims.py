"""Who governs an object: claims that stay, preemption, defaults, and what a policy means for one object."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis import kinds
from policies import claims
from policies.claims import Applied, Change, Claim, Conflict, acts, claim_of, conflict, govern, remarked, takes
from policies.division import Strategy
from policies.matching import DEFAULT, matching_policy
from policies.placements import PolicyView, ReplicaRule, Selector, SpreadRule, project_policy
from policies.policy_checks import problems
from policies.selecting import Template, reserved
from tests.policies.build import job

JOB = (kinds.JOB.api_version, "Job")
TRAIN = Template(*JOB, name="train", namespace="default", labels={"team": "ml"})


def policy(name: str, *, namespace: str = "default", select: Selector | None = None, **more: Any) -> PolicyView:
    chosen = (select or Selector(*JOB),)
    return PolicyView(namespace=namespace, name=name, uid=f"uid-{name}", selectors=chosen, **more)


def claim(by: PolicyView) -> Claim:
    return Claim(by.namespace, by.name, by.uid)


def governed(*policies: PolicyView, by: PolicyView | None = None) -> tuple[str, Change]:
    outcome = govern([TRAIN], claim=claim(by) if by else None, policies=policies)
    return outcome.policy.name, outcome.change


# --- claims ----------------------------------------------------------------------------------------------------------
def test_the_best_policy_claims_what_nobody_has() -> None:
    low, high = policy("low"), policy("high", priority=1)
    assert governed(low, high) == ("high", Change.CLAIMED)
    assert governed() == (DEFAULT.name, Change.UNCLAIMED)


def test_a_claim_stays_although_a_better_policy_comes() -> None:
    low, high, own = policy("low", namespace=""), policy("high", namespace="", priority=9), policy("own")
    assert governed(low, high, own, by=low) == ("low", Change.KEPT)


def test_a_claim_ends_with_its_policy_and_the_next_best_takes_over() -> None:
    gone, other = policy("gone"), policy("other")
    assert governed(other, by=gone) == ("other", Change.CLAIMED)
    assert governed(policy("gone", deleting=True), by=gone) == (DEFAULT.name, Change.LOST)
    assert governed(policy("gone", select=Selector(*JOB, name="else")), by=gone) == (DEFAULT.name, Change.LOST)


def test_a_policy_of_the_same_name_made_anew_is_another_one() -> None:
    old, new = policy("p"), PolicyView(namespace="default", name="p", uid="new", selectors=(Selector(*JOB),))
    assert governed(new, by=old) == ("p", Change.CLAIMED)
    assert govern([TRAIN], claim=Claim("default", "p"), policies=[new]).change is Change.KEPT


@pytest.mark.parametrize(
    ("taker", "holder", "takes_it"),
    [
        (policy("t", preempts=True, priority=2), policy("h", priority=1), True),
        (policy("t", preempts=True, priority=1), policy("h", priority=1), False),
        (policy("t", priority=9), policy("h"), False),
        (policy("t", preempts=True), policy("h", namespace="", priority=9), True),
        (policy("t", namespace="", preempts=True, priority=9), policy("h"), False),
        (policy("t", namespace="", preempts=True, priority=2), policy("h", namespace="", priority=1), True),
    ],
)
def test_preemption_goes_by_scope_and_then_by_priority(taker: PolicyView, holder: PolicyView, takes_it: bool) -> None:
    assert takes(taker, holder) is takes_it
    assert governed(holder, taker, by=holder) == (("t", Change.PREEMPTED) if takes_it else ("h", Change.KEPT))


def test_lowering_a_priority_lets_those_between_take_over() -> None:
    before, after = policy("p", priority=9, preempts=True), policy("p", priority=1, preempts=True)
    between, above, below = (policy(name, priority=at, preempts=True) for name, at in (("b", 5), ("a", 10), ("z", 1)))
    assert [each.name for each in claims.heirs(before, after, policies=[below, above, between])] == ["b"]
    assert governed(after, between, by=after) == ("b", Change.PREEMPTED)


# --- marks -----------------------------------------------------------------------------------------------------------
def test_marks_say_who_claimed_and_go_with_the_claim() -> None:
    own, wide = policy("own"), policy("wide", namespace="")
    labels, annotations = claims.marks(own)
    assert claim_of(labels, annotations) == claim(own)
    assert remarked(labels, annotations, policy=own) == {}
    changed = remarked(labels, annotations, policy=wide)
    assert changed["labels"] == {claims.POLICY_ID: None, claims.CLUSTER_POLICY_ID: "uid-wide"}
    assert remarked(labels, annotations, policy=DEFAULT)["labels"] == {claims.POLICY_ID: None}
    assert claim_of(*claims.marks(wide)) == claim(wide)
    assert claim_of({}, {}) is None


# --- defaults and makers ---------------------------------------------------------------------------------------------
def test_a_default_governs_what_nothing_else_selects_and_claims_nothing() -> None:
    own = policy("own", settings={"default": "true"}, priority=9)
    wide = policy("wide", namespace="", settings={"default": "true"})
    weak = policy("weak", namespace="", select=Selector(*JOB, name="train"))
    assert matching_policy(job(), policies=[wide, own]).name == "own"
    assert matching_policy(job(), policies=[wide]).name == "wide"
    assert matching_policy(job(), policies=[wide, own, weak]).name == "weak"
    assert governed(own) == ("own", Change.UNCLAIMED)
    assert governed(own, weak, by=own) == ("weak", Change.CLAIMED)
    assert claims.marks(own) == ({}, {})


def test_labels_of_a_flow_select_the_jobs_it_makes_once_they_are_known() -> None:
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "resourceSelectors": [
                {
                    "apiVersion": kinds.JOB_FLOW.api_version,
                    "kind": "JobFlow",
                    "labelSelector": {"matchLabels": {"tier": "gold"}},
                }
            ]
        },
    }
    by_label = project_policy(msgspec.json.encode(document))
    made = job(created_by_flow="default.night")
    gold = {("JobFlow", "default", "night"): {"tier": "gold"}}
    assert matching_policy(made, policies=[by_label], makers=gold) is by_label
    assert matching_policy(made, policies=[by_label], makers={("JobFlow", "default", "day"): {"tier": "gold"}}) is DEFAULT
    assert matching_policy(made, policies=[by_label]) is DEFAULT


def test_a_policy_on_a_template_governs_its_jobs_and_one_on_the_job_goes_first() -> None:
    on_template = policy("t", select=Selector(kinds.JOB_TEMPLATE.api_version, "JobTemplate", name="step"), priority=9)
    made = job(created_by_template="default.step")
    assert matching_policy(made, policies=[on_template]).name == "t"
    assert matching_policy(made, policies=[on_template, policy("j", namespace="")]).name == "j"


# --- what it means for one object ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lazy", "applied", "template", "does"),
    [
        (False, None, 1, True),
        (True, None, 1, True),
        (False, Applied("uid-p", 1, 1), 1, True),
        (False, Applied("uid-p", 2, 1), 1, False),
        (False, Applied("uid-o", 2, 1), 1, True),
        (True, Applied("uid-p", 1, 1), 1, False),
        (True, Applied("uid-o", 2, 1), 1, False),
        (True, Applied("uid-p", 1, 1), 2, True),
    ],
)
def test_a_lazy_policy_acts_with_the_next_change_of_the_object(
    lazy: bool, applied: Applied | None, template: int, does: bool
) -> None:
    assert acts(policy("p", lazy=lazy, generation=2), applied=applied, template=template) is does


def test_suspension_holds_updates_for_all_clusters_or_for_those_named() -> None:
    assert claims.suspends(policy("p", suspended=True), "east")
    some_clusters = policy("p", suspended_on=frozenset({"east"}))
    assert claims.suspends(some_clusters, "east") and not claims.suspends(some_clusters, "west")


def test_the_objects_own_word_on_conflicts_goes_before_the_policys() -> None:
    assert conflict(policy("p"), {}) is Conflict.ABORT
    assert conflict(policy("p", overwrites=True), {}) is Conflict.OVERWRITE
    assert conflict(policy("p", overwrites=True), {claims.CONFLICT: "abort"}) is Conflict.ABORT
    assert conflict(policy("p"), {claims.CONFLICT: "overwrite"}) is Conflict.OVERWRITE
    assert conflict(policy("p"), {claims.CONFLICT: "sometimes"}) is Conflict.ABORT


def test_what_several_refer_to_is_overwritten_or_kept_if_one_wants_it() -> None:
    shared = claims.carried([policy("a", overwrites=True), policy("b", preserves=True)])
    assert (shared.conflict, shared.preserve, shared.disagree) == (Conflict.OVERWRITE, True, True)
    assert not claims.carried([policy("a"), policy("b", preserves=False)]).disagree


def test_a_policy_waits_for_the_override_policies_it_names() -> None:
    waits = policy("p", waits_for=("a", "b"))
    assert claims.missing_overrides(waits, known={("default", "a"), ("", "b")}) == ("b",)


@pytest.mark.parametrize(
    ("name", "is_reserved"), [("kube-system", True), ("karmada-es-east", True), ("federation-system", True), ("default", False)]
)
def test_namespaces_of_the_system_are_never_sent(name: str, is_reserved: bool) -> None:
    assert reserved(name) is is_reserved


# --- reading and checking --------------------------------------------------------------------------------------------
def read(placement: Any = None, **spec: Any) -> PolicyView:
    selectors = [{"apiVersion": JOB[0], "kind": "Job"}]
    document = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"resourceSelectors": selectors, **spec}}
    if placement is not None:
        document["spec"]["placement"] = placement
    return project_policy(msgspec.json.encode(document))


@pytest.mark.parametrize(
    ("given_rule", "strategy"),
    [
        (None, None),
        ({}, Strategy.STATIC),
        ({"replicaSchedulingType": "Duplicated"}, Strategy.DUPLICATED),
        ({"replicaSchedulingType": "Divided"}, Strategy.STATIC),
        ({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}, Strategy.AGGREGATED),
        (
            {"replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
            Strategy.DYNAMIC,
        ),
        (
            {
                "weightPreference": {
                    "dynamicWeight": "AvailableReplicas",
                    "staticWeightList": [{"targetCluster": {}, "weight": 2}],
                }
            },
            Strategy.DYNAMIC,
        ),
    ],
)
def test_how_replicas_are_divided_is_read_with_upstreams_defaults(given_rule: Any, strategy: Strategy | None) -> None:
    assert read({"replicaScheduling": given_rule} if given_rule is not None else {}).replicas == ReplicaRule(strategy)


def test_the_rest_of_a_policy_is_read_as_it_is_written() -> None:
    made = read(
        {
            "clusterAffinities": [
                {
                    "affinityName": "home",
                    "clusterNames": ["a"],
                    "overflowAffinities": [{"affinityName": "cloud", "clusterNames": ["b"]}],
                }
            ],
            "spreadConstraints": [
                {"minGroups": 0},
                {"spreadByField": "zone", "minGroups": 2, "maxGroups": 3},
                {"spreadByLabel": "rack"},
            ],
            "replicaScheduling": {
                "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["a"]}, "weight": 3}]}
            },
            "workloadAffinity": {"affinity": {"groupByLabelKey": "g"}, "antiAffinity": {"groupByLabelKey": "h"}},
        },
        preemption="Always",
        activationPreference="Lazy",
        conflictResolution="Overwrite",
        suspension={"dispatchingOnClusters": {"clusterNames": ["a"]}},
        preserveResourcesOnDeletion=True,
        propagateDeps=True,
        dependentOverrides=["o"],
        schedulePriority={"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
    )
    assert [each.name for each in made.affinities[0].overflow] == ["cloud"]
    assert made.spread == (SpreadRule("cluster"), SpreadRule("zone", 2, 3), SpreadRule("rack", label=True))
    assert [weight for _, weight in made.replicas.weights] == [3]
    assert (made.together_by, made.apart_by, made.priority_class, made.waits_for) == ("g", "h", "high", ("o",))
    assert (made.preempts, made.lazy, made.overwrites, made.preserves, made.carries) == (True,) * 5
    assert made.suspended_on == {"a"} and not made.suspended
    assert project_policy(b'{"metadata": {"name": "p"}, "spec": {"placement": null}}').affinities == ()


DYNAMIC = {"replicaScheduling": {"weightPreference": {"dynamicWeight": "AvailableReplicas"}}}


@pytest.mark.parametrize(
    ("placement", "spec", "field"),
    [
        ({}, {"resourceSelectors": []}, "spec.resourceSelectors"),
        (
            {},
            {"resourceSelectors": [{"apiVersion": "v1", "kind": "X", "namespace": "other"}]},
            "spec.resourceSelectors[0].namespace",
        ),
        ({}, {"preemption": "Always"}, "spec.resourceSelectors[0].name"),
        (
            {"clusterAffinities": [{"affinityName": "x"}, {"affinityName": "x"}]},
            {},
            "spec.placement.clusterAffinities[1].affinityName",
        ),
        (
            {
                "clusterAffinities": [
                    {"affinityName": "x", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "y"}]}
                ]
            },
            {},
            "spec.placement.clusterAffinities[0].overflowAffinities",
        ),
        (
            {"clusterAffinities": [{"affinityName": "x", "overflowAffinities": [{"affinityName": "y"}]}], **DYNAMIC},
            {},
            "spec.placement.clusterAffinities[0]",
        ),
        ({"clusterTolerations": [{"operator": "Gt"}]}, {}, "spec.placement.clusterTolerations[0].operator"),
        ({"spreadConstraints": [{"spreadByField": "zone"}]}, {}, "spec.placement.spreadConstraints"),
        ({"spreadConstraints": [{"minGroups": 3, "maxGroups": 2}]}, {}, "spec.placement.spreadConstraints[0].maxGroups"),
        ({"spreadConstraints": [{}, {}]}, {}, "spec.placement.spreadConstraints"),
        (
            {"replicaScheduling": {"weightPreference": {"staticWeightList": [{"targetCluster": {}, "weight": 0}]}}},
            {},
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
        ),
        (
            {},
            {"suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["a"]}}},
            "spec.suspension.dispatchingOnClusters",
        ),
        (
            {"workloadAffinity": {"affinity": {"groupByLabelKey": "g"}, "antiAffinity": {"groupByLabelKey": "g"}}},
            {},
            "spec.placement.workloadAffinity",
        ),
        ({}, {"failover": {"application": {}}}, "spec.propagateDeps"),
    ],
)
def test_a_policy_that_contradicts_itself_is_told_where(placement: Any, spec: dict[str, Any], field: str) -> None:
    assert [each.field for each in problems(read(placement, **spec))] == [field]
    assert problems(read(DYNAMIC)) == []


# --- laws ------------------------------------------------------------------------------------------------------------
some_policies = some.lists(
    some.builds(
        PolicyView,
        namespace=some.sampled_from(["", "default", "other"]),
        name=some.sampled_from("abcde"),
        uid=some.integers(0, 99).map(str),
        priority=some.integers(0, 2),
        selectors=some.sampled_from([(Selector(*JOB),), (Selector(*JOB, name="train"),), (Selector("v1", "Pod"),)]),
        preempts=some.booleans(),
        deleting=some.booleans(),
    ),
    max_size=6,
    unique_by=lambda each: (each.namespace, each.name),
)


@given(some_policies)
@settings(max_examples=50)
def test_whoever_governs_selects_the_object_and_looking_again_changes_nothing(policies: list[PolicyView]) -> None:
    first = govern([TRAIN], claim=None, policies=policies)
    for shuffled in itertools.islice(itertools.permutations(policies), 4):
        assert govern([TRAIN], claim=None, policies=shuffled) == first
    seen = first
    for _ in range(len(policies) + 1):
        if seen.change is Change.UNCLAIMED:
            assert not any(
                each.namespace != "other" and not each.deleting and each.selectors[0].kind == "Job" for each in policies
            )
            return
        assert seen.policy.selectors[0].kind == "Job" and not seen.policy.deleting and seen.policy.namespace != "other"
        seen = govern([TRAIN], claim=claim(seen.policy), policies=policies)
    assert seen.change is Change.KEPT
