"""The planner of rounds asked what would become of a Job: the answer is what a round does, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from apis import capacity as wire
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Member, Snapshot
from federation.dispatch.trying import RoundTrier
from policies.placements import Affinity, PolicyView, Selector
from policies.run_times import Source
from policies.shapes import Taint
from policies.trials import Assumed, Trial
from policies.verdicts import Outcome
from policies.views import JobView
from tests.federation.test_planner import QUEUES, RULES, decisions, member
from tests.policies.build import capacity, cluster, gang, job, nodes, shape
from tests.policies.offering import flat


def trier(*members: Member, **more: object) -> RoundTrier:
    look = Snapshot(cases=(), members=members, queues=QUEUES, **more)  # type: ignore[arg-type]
    return RoundTrier(look, rules=RULES, settings={})


def work(pods: int = 2, cpu: str = "1", **more: Any) -> JobView:
    return job(of=gang(("work", pods, shape(cpu))), **more)


def test_a_job_that_fits_is_told_where_for_how_much_and_until_when() -> None:
    offers = (flat("east", cpu=2), flat("west", cpu=1))
    there = trier(member("east", (1, "8")), member("west", (1, "8")), offers=offers)
    answer = there.answer(Trial(work(settings={"profile": "cost-first", "estimated-duration": "30m"})))
    assert (answer.outcome, [part.cluster for part in answer.parts], answer.profile) == (Outcome.PLACED, ["west"], "cost-first")
    assert (answer.money, answer.begin, answer.finish) == (1.0, 0.0, 1800.0)
    assert {each.cluster: each.total for each in answer.told} == {"east": 50, "west": 100}
    assert there.surroundings.currency == "EUR"


def test_one_that_waits_is_told_what_every_cluster_says() -> None:
    answer = trier(member("east", (1, "1")), member("west", (1, "8"), taints=(Taint("gpu", "", "NoSchedule"),))).answer(
        Trial(work())
    )
    assert (answer.outcome, answer.parts) == (Outcome.WAITING, ())
    assert {each.cluster: each.code for each in answer.told} == {"east": "NoRoom", "west": "ClusterTaint"}


def test_what_is_assumed_to_run_takes_room_queue_and_quota() -> None:
    there = trier(member("east", (1, "4")))
    beside = Assumed("east", "default", "narrow", gang(("other", 3, shape())))
    assert there.starts(Trial(work(queue="narrow"))).starts
    full = there.starts(Trial(work(1, queue="narrow"), assumed=(beside,)))
    assert full.starts
    over = there.starts(Trial(work(2, queue="narrow"), assumed=(beside,)))
    assert over.reason == "QueueFull"
    assert there.starts(Trial(work(2), assumed=(beside,))).reason == "NoClusterFits"


def test_another_policy_may_govern_it() -> None:
    only = PolicyView(
        "", "p", uid="u", selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),), affinities=(Affinity(("x",)),)
    )
    there = trier(member("east", (1, "8")), policies=(only,))
    assert there.governing(work()) == only
    assert not there.starts(Trial(work())).starts
    assert there.starts(Trial(work(), policy=replace(only, affinities=()))).starts


def test_what_only_the_member_can_tell_is_left_to_it_where_nobody_was_asked() -> None:
    rows = nodes((1, "8"))
    answers = {"someone": wire.ShapeAnswer("someone")}
    east = Member(cluster("east"), fence=1, capacity=capacity("east", rows, answers=answers))
    spread = gang(("work", 2, shape(unknown="inter-pod affinity")))
    there = trier(east)
    asked = there.answer(Trial(job(of=spread), asked=True))
    assert ([each.code for each in asked.told], asked.starts) == (["AnswerAwaited"], False)
    manifest = there.answer(Trial(job(of=spread)))
    assert (manifest.starts, manifest.sure) == (True, False)


def test_the_expected_wait_of_a_members_scheduler_is_told() -> None:
    waiting = work(4)
    answers = {waiting.asked_as: wire.ShapeAnswer(waiting.asked_as, wait=300)}
    east = Member(cluster("east"), fence=1, capacity=capacity("east", nodes((1, "2")), answers=answers))
    answer = trier(east).answer(Trial(waiting, asked=True))
    assert (answer.waits, answer.begin, answer.finish) == ({"east": 300.0}, 300.0, 300.0 + RULES.run_time)


def test_how_long_it_runs_is_told_with_who_says_so() -> None:
    there = trier(member("east", (1, "8")), history={"like-this": (60.0, 120.0, 600.0)})
    known = there.answer(Trial(work(template="like-this")))
    assert (known.run_time.source, known.finish) == (Source.HISTORY, 120.0)
    said = there.answer(Trial(work(template="like-this", settings={"estimated-duration": "5m"})))
    assert (said.run_time.source, said.finish) == (Source.ANNOTATION, 300.0)
    assert there.answer(Trial(work())).run_time.source is Source.DEFAULT


def test_a_queue_that_is_not_there_and_a_job_without_tasks_are_refused() -> None:
    there = trier(member("east", (1, "8")))
    answer = there.answer(Trial(work(queue="nowhere")))
    assert (answer.outcome, answer.reason, answer.at) == (Outcome.REFUSED, "QueueNotFound", "spec.queue")
    assert there.answer(Trial(replace(work(), gang=None))).outcome is Outcome.REFUSED


@settings(max_examples=60)
@given(
    frees=some.lists(some.integers(0, 8), min_size=1, max_size=4),
    pods=some.integers(1, 10),
    queue=some.sampled_from(["default", "narrow", "root"]),
)
def test_the_answer_is_what_a_round_decides(frees: list[int], pods: int, queue: str) -> None:
    members = tuple(member(f"m{at}", (1, str(free))) for at, free in enumerate(frees))
    waiting = work(pods, queue=queue)
    look = Snapshot(cases=(Case(waiting.key, job=waiting),), members=members, queues=QUEUES)
    made = decisions(plan(look, rules=RULES))["train"]
    answer = trier(*members).answer(Trial(waiting))
    assert made.decision is not None
    assert (answer.outcome, answer.reason, answer.message) == (
        made.decision.outcome,
        made.decision.reason,
        made.decision.message,
    )
    assert tuple(part.cluster for part in answer.parts) == made.clusters
