"""Rounds grant all parts of a Job at once, and queues and members are charged by part."""

from __future__ import annotations

from typing import Any

from apis.runs import BindingRun, Part, RunRecord, Share
from apis.vectors import ResourceVector
from federation.dispatch.items import Act, Decide
from federation.dispatch.ledger import Ledger
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case
from policies.division import Strategy
from policies.placements import PolicyView, ReplicaRule, Selector
from policies.runs import CreateWork
from policies.views import BindingView, JobView, WorkView
from tests.federation.test_planner import RULES, decisions, member, snapshot
from tests.policies.build import gang, job, shape

MEMBERS = (member("east", (1, "8")), member("west", (1, "8")))


def decided(strategy: Strategy, pods: int = 6, *, least: int = 1, **more: Any) -> Decide:
    governed = PolicyView(
        "default", "p", "p", selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),), replicas=ReplicaRule(strategy)
    )
    waiting = Case(("default", "a"), job=job("a", of=gang(("work", pods, shape()), least=least), **more))
    return decisions(plan(snapshot(waiting, members=MEMBERS, policies=(governed,)), rules=RULES))["a"]


def test_all_parts_are_one_grant_with_the_fence_of_every_member() -> None:
    item = decided(Strategy.DYNAMIC)
    assert (item.act, item.clusters, item.run.epoch) == (Act.PLACE, ("east", "west"), 1)
    assert item.effects == (CreateWork("east"), CreateWork("west"))
    assert item.versions.fences == (("east", 1), ("west", 1))
    assert {name: part.shares["work"] for name, part in item.run.parts.items()} == {
        "east": Share(3, 0, 0, 6),
        "west": Share(3, 0, 3, 6),
    }


def test_a_job_that_needs_all_its_pods_goes_whole_to_one_member() -> None:
    item = decided(Strategy.DYNAMIC, least=6)
    assert [part.shares for part in item.run.parts.values()] == [{}]
    assert len(item.clusters) == 1


def test_copies_are_whole_and_must_fit_their_queue_together() -> None:
    item = decided(Strategy.DUPLICATED, 2)
    assert (item.clusters, [part.shares for part in item.run.parts.values()]) == (("east", "west"), [{}, {}])
    full = decided(Strategy.DUPLICATED, 3, queue="narrow")
    assert full.decision is not None
    assert (full.act, full.decision.reason) == (Act.WAIT, "QueueFull")


def test_the_next_job_finds_only_what_the_parts_left() -> None:
    governed = PolicyView(
        "default",
        "p",
        "p",
        selectors=(Selector("batch.volcano.sh/v1alpha1", "Job", name="a"),),
        replicas=ReplicaRule(Strategy.DYNAMIC),
    )
    first = Case(("default", "a"), job=job("a", of=gang(("work", 12, shape()), least=1)))
    second = Case(("default", "b"), job=job("b", of=gang(("work", 3, shape()))))
    made = decisions(plan(snapshot(first, second, members=MEMBERS, policies=(governed,)), rules=RULES))
    assert (made["a"].clusters, made["b"].act) == (("east", "west"), Act.WAIT)


def test_members_and_queues_are_charged_by_part_and_a_part_that_completed_frees_its_share() -> None:
    of: JobView = job("a", of=gang(("work", 6, shape()), least=1))
    parts = {"east": Part("id", 1, minimum=1, shares={"work": Share(2, 0, 0, 6)})}
    parts["west"] = Part("id", 1, minimum=1, shares={"work": Share(4, 0, 2, 6)})
    binding = BindingView("default", "a-job", "b", "1", job="a", job_uid=of.uid, run=BindingRun(of.uid, 1, parts=parts))
    ledger = Ledger()
    ledger.saw_binding(binding, job=of)
    assert [each.replicas for _, each in ledger.promised("west", through=0)] == [4]
    assert ledger.used["default"].get("cpu") == 6000
    ledger.part_ended(work_of(of, "west", "Completed"))
    assert ledger.used["default"].get("cpu") == 2000
    ledger.part_ended(work_of(of, "east", "Failed"))
    assert ledger.used["default"] == ResourceVector() or ledger.used["default"].get("cpu") == 0


def work_of(of: JobView, cluster: str, phase: str) -> WorkView:
    return WorkView(
        "karmada-es-" + cluster, "a", f"w-{cluster}", "1", cluster=cluster, phase=phase, record=RunRecord(of.uid, 1, 1)
    )
