"""What a namespace may use over all clusters holds in every round, and over rounds."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as some

from apis.runs import BindingRun, Part, Share
from apis.vectors import ResourceVector, total
from federation.dispatch.items import Act, Decide
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Snapshot
from federation.quotas.controller import holdings_of
from policies.federated_quotas import FederatedQuotaView, Holding
from policies.shapes import Pool
from policies.views import BindingView
from tests.federation.test_planner import QUEUES, RULES, case, decisions, member
from tests.policies.build import gang, job, shape

QUOTA = FederatedQuotaView("default", "team", overall={"cpu": 6000})


def holding(cpu: int, *, cluster: str = "east") -> Holding:
    return Holding("default", cluster, ResourceVector.from_quantities({"cpu": cpu}))


def world(*cases: Case, quota: FederatedQuotaView = QUOTA, holdings: tuple[Holding, ...] = ()) -> Snapshot:
    members = (member("east", (4, "8")), member("west", (4, "8")))
    return Snapshot(cases=cases, members=members, queues=QUEUES, quotas=(quota,), holdings=holdings)


def test_what_one_round_places_stays_within_the_quota_over_clusters() -> None:
    made = decisions(plan(world(case("a", 4), case("b", 4), case("c", 2)), rules=RULES))
    assert {name: item.act for name, item in made.items()} == {"a": Act.PLACE, "b": Act.WAIT, "c": Act.PLACE}
    why = made["b"].decision
    assert why is not None and why.reason == "QuotaExceeded" and "default/team" in why.message


def test_what_runs_already_counts() -> None:
    assert decisions(plan(world(case("a", 2), holdings=(holding(5),)), rules=RULES))["a"].act is Act.WAIT
    assert decisions(plan(world(case("a", 2), holdings=(holding(4),)), rules=RULES))["a"].act is Act.PLACE


def test_a_quota_of_another_namespace_is_nobody_elses_business() -> None:
    other = FederatedQuotaView("elsewhere", "team", overall={"cpu": 0})
    assert decisions(plan(world(case("a", 2), quota=other), rules=RULES))["a"].act is Act.PLACE


@settings(max_examples=25, deadline=None)
@given(sizes=some.lists(some.integers(1, 4), max_size=6), limit=some.integers(0, 12), running=some.integers(0, 6))
def test_a_quota_is_never_exceeded(sizes: list[int], limit: int, running: int) -> None:
    quota = FederatedQuotaView("default", "team", overall={"cpu": limit * 1000, "pods": 7000})
    cases = [case(f"job-{at}", pods) for at, pods in enumerate(sizes)]
    made = plan(world(*cases, quota=quota, holdings=(holding(running),)), rules=RULES)
    placed = [item.key[1] for item in made.items if isinstance(item, Decide) and item.act is Act.PLACE]
    used = total(each.job.gang.requests for each in cases if each.key[1] in placed and each.job and each.job.gang)
    assert not placed or used.get("cpu") + running * 1000 <= limit * 1000
    assert used.get("pods") <= 7000


def test_a_divided_job_uses_in_every_cluster_what_its_part_asks_for() -> None:
    of = gang(("work", 5, shape("1")))
    shares = {"east": Share(2, 1, 0, 5), "west": Share(3, 1, 2, 5)}
    divided = BindingRun(
        job="uid-a", epoch=1, parts={name: Part("c", 1, minimum=1, shares={"work": each}) for name, each in shares.items()}
    )
    binding = BindingView("default", "a-job", "b", "1", job="a", job_uid="uid-a", run=divided)
    found = {each.cluster: each.requests.get("cpu") for each in holdings_of(binding, job("a", of=of), pool=Pool())}
    assert found == {"east": 2000, "west": 3000}
    renamed = job("a", of=gang(("other", 5, shape("1"))))
    assert {each.requests.get("cpu") for each in holdings_of(binding, renamed, pool=Pool())} == {5000}
    assert not list(holdings_of(replace(binding, ended="Completed"), job("a", of=of), pool=Pool()))
