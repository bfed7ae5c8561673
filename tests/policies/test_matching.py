"""Which policy governs a Job, and which clusters it means."""

from __future__ import annotations

import msgspec
import pytest

from apis import keys, kinds
from policies.matching import DEFAULT, affinity_refusal, matching_policy, setting
from policies.placements import Affinity, LabelSelector, PolicyView, Selector, project_policy
from policies.shapes import Requirement
from policies.views import Projections
from tests.policies.build import cluster, job

JOB = (kinds.JOB.api_version, "Job")
FLOW = (kinds.JOB_FLOW.api_version, "JobFlow")
CRON = (kinds.CRON_JOB.api_version, "CronJob")
LABELLED = LabelSelector((Requirement("team", "In", ("ml",)),))


def policy(name: str, *selectors: Selector, namespace: str = "default", priority: int = 0) -> PolicyView:
    return PolicyView(namespace=namespace, name=name, uid=name, priority=priority, selectors=selectors)


@pytest.mark.parametrize(
    ("policies", "winner"),
    [
        ([], DEFAULT.name),
        ([policy("a", Selector(*JOB)), policy("b", Selector(*JOB), priority=1)], "b"),
        ([policy("a", Selector(*JOB)), policy("b", Selector(*JOB, labels=LABELLED))], "b"),
        ([policy("a", Selector(*JOB, labels=LABELLED)), policy("b", Selector(*JOB, name="train"))], "b"),
        ([policy("b", Selector(*JOB)), policy("a", Selector(*JOB))], "a"),
        ([policy("c", Selector(*JOB), namespace="", priority=9), policy("p", Selector(*JOB))], "p"),
        ([policy("o", Selector(*JOB), namespace="other")], DEFAULT.name),
        ([policy("f", Selector(*FLOW, name="night"), priority=9), policy("j", Selector(*JOB))], "j"),
        ([policy("f", Selector(*FLOW, name="night"))], "f"),
        ([policy("f", Selector(*FLOW, name="day"))], DEFAULT.name),
        ([policy("n", Selector(*JOB, name="other"))], DEFAULT.name),
    ],
)
def test_the_governing_policy_is_found_as_upstream_finds_it(policies: list[PolicyView], winner: str) -> None:
    made = job(labels={"team": "ml"}, created_by_flow="default.night")
    assert matching_policy(made, policies=policies).name == winner


@pytest.mark.parametrize(("name", "winner"), [("nightly", "c"), ("", "c"), ("weekly", DEFAULT.name)])
def test_a_policy_that_selects_a_cron_job_governs_the_jobs_it_makes(name: str, winner: str) -> None:
    owner = {"apiVersion": CRON[0], "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    document = {"metadata": {"name": "nightly-29000000", "namespace": "default", "ownerReferences": [owner]}, "spec": {}}
    made = Projections().job(msgspec.json.encode(document))
    assert matching_policy(made, policies=[policy("c", Selector(*CRON, name=name))]).name == winner


def test_a_policy_that_selects_a_cron_job_governs_what_its_flows_make() -> None:
    annotations = {keys.CREATED_BY_FLOW: "default.nightly-29000000", keys.CREATED_BY_CRON: "default.nightly"}
    document = {"metadata": {"name": "step", "namespace": "default", "annotations": annotations}, "spec": {}}
    made = Projections().job(msgspec.json.encode(document))
    assert matching_policy(made, policies=[policy("c", Selector(*CRON, name="nightly"))]).name == "c"


def test_an_affinity_means_what_all_its_parts_mean() -> None:
    east = cluster("east", labels={"gpu": "yes"}, provider="aws", zones=("a", "b"))
    assert affinity_refusal(Affinity(), east) == ""
    assert affinity_refusal(Affinity(names=("west",)), east)
    assert affinity_refusal(Affinity(exclude=("east",)), east)
    assert affinity_refusal(Affinity(labels=LabelSelector((Requirement("gpu", "Exists"),))), east) == ""
    assert affinity_refusal(Affinity(fields=(Requirement("zone", "In", ("b", "z")),)), east) == ""
    assert affinity_refusal(Affinity(fields=(Requirement("zone", "NotIn", ("b",)),)), east)
    assert affinity_refusal(Affinity(names=("east",), fields=(Requirement("provider", "In", ("gcp",)),)), east)


def test_a_policy_is_read_as_people_write_it() -> None:
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "priority": 3,
            "resourceSelectors": [{"apiVersion": JOB[0], "kind": "Job", "labelSelector": {"matchLabels": {"team": "ml"}}}],
            "placement": {
                "clusterAffinity": {"clusterNames": ["east"]},
                "clusterTolerations": [{"key": "x", "operator": "Exists"}],
            },
        },
    }
    read = project_policy(msgspec.json.encode(document))
    assert (read.priority, read.affinities[0].names, read.tolerations[0].key) == (3, ("east",), "x")
    assert matching_policy(job(labels={"team": "ml"}), policies=[read]) is read
    assert matching_policy(job(labels={"team": "x"}), policies=[read]) is DEFAULT


def test_the_nearest_setting_wins() -> None:
    near = job(settings={"failover": "Fence"})
    governed = PolicyView(namespace="", name="p", settings={"failover": "Continue", "exclusive": "false"})
    assert setting("failover", job=near, policy=governed, namespace={}) == "Fence"
    assert setting("exclusive", job=near, policy=governed, namespace={"exclusive": "true"}) == "false"
    assert setting("profile", job=near, policy=governed, namespace={"profile": "cost-first"}) == "cost-first"
