"""The benchmark of the scheduler's memory: what it reads is what an API server sends."""

from __future__ import annotations

from benchmarks.memory import GANG, document, measure
from member_agent.views import Projector


def test_documents_are_pods_of_jobs_that_run_and_wait() -> None:
    project = Projector().pod
    views = [project(document(number, of=200)) for number in range(200)]
    assert len({view.uid for view in views}) == 200
    assert [sum(bool(view.node) for view in views), sum(not view.node for view in views)] == [180, 20]
    assert {(view.namespace, view.group) for view in views} == {("team-00", "train-000000"), ("team-01", "train-000001")}
    assert all(view.owner and view.scheduler == "volcano" and view.task == "work" for view in views)
    assert len({id(view.shape) for view in views[:GANG]}) == 1, "equal shapes are one object"


def test_a_process_that_read_so_many_pods_tells_what_it_holds() -> None:
    row = measure(500)
    assert row.case.startswith("500 pods")
    assert row.unit == "bytes"
    assert 10 << 20 < row.ours < 600 << 20


def test_a_hub_that_read_so_many_jobs_tells_what_it_holds() -> None:
    row = measure(200, what="--read-hub")
    assert row.case.startswith("hub: 200 live Jobs")
    assert 10 << 20 < row.ours < 600 << 20
