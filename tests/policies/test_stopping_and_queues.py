"""What a Job says while nobody can confirm its end, and which limits of a member's queue concern it."""

from __future__ import annotations

import json

import pytest

from apis import keys, runs
from apis.runs import BindingRun, Held, Part, PartState, RunRecord
from apis.vectors import ResourceVector
from policies import filters, folding
from policies.capacities import MemberQueue
from policies.filters import Question
from policies.matching import DEFAULT
from policies.views import BindingView, Projections
from tests.policies.build import capacity, cluster, gang, job, nodes, shape


@pytest.mark.parametrize("held", [Held.SUSPENDED, None])
def test_a_job_whose_nodes_do_not_answer_names_them_while_it_stops(held: Held | None) -> None:
    record = RunRecord(job="uid-train", epoch=1, fence=1)
    condition = {"type": "Gone", "status": "False", "reason": "NodeUnreachable", "message": "node-7 does not answer"}
    document = {
        "metadata": {"name": "w", "namespace": "karmada-es-east", "annotations": {keys.RUN: runs.encode(record)}},
        "status": {"conditions": [condition]},
    }
    work = Projections().work(json.dumps(document).encode())
    run = BindingRun(job="uid-train", epoch=1, parts={"east": Part("id", 1, PartState.STOPPING)}, held=held)
    binding = BindingView("default", "train-job", "b", "1", job="train", job_uid="uid-train", run=run, clusters=("east",))
    folded = folding.fold(binding, [work])
    status = folding.job_status(job(), binding=binding, folded=folded, fence=False, now="2026-01-01T00:00:00Z")
    assert "node-7 does not answer" in status.state.message


@pytest.mark.parametrize(("full", "passes"), [("nvidia.com/gpu", True), ("cpu", False)])
def test_a_member_queue_is_too_full_only_in_what_the_gang_asks_for(full: str, passes: bool) -> None:
    used = ResourceVector.from_quantities({full: 9})
    limit = ResourceVector.from_quantities({"nvidia.com/gpu": 8, "cpu": 8})
    room = MemberQueue(name="default", parent="", open=True, used=used, limit=limit)
    asked = gang(("work", 2, shape()))
    question = Question(
        job=job(of=asked),
        gang=asked,
        policy=DEFAULT,
        affinity=None,
        cluster=cluster("east"),
        capacity=capacity("east", nodes((1, "64")), queues={"default": room}),
    )
    assert filters.queue(question).passes is passes
