"""The ledger drops a promise exactly when protocol.md 3 says so."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from apis.runs import BindingRun, Ground, Part, PartState, RunRecord
from federation.dispatch.ledger import Ledger
from policies.views import BindingView, WorkView
from tests.policies.build import gang, job, shape

GANG = gang(("work", 2, shape("3")))
JOB = job(of=GANG)


def binding(state: PartState = PartState.GRANTED, *, ended: str = "") -> BindingView:
    ground = Ground.CONFIRMED if state is PartState.GONE else None
    run = BindingRun(job=JOB.uid, epoch=1, parts={"east": Part(cluster_uid="id", fence=1, state=state, ground=ground)})
    return BindingView("default", "train-job", "b", "1", job="train", job_uid=JOB.uid, run=run, ended=ended)


def work(version: str, *, fence: int = 1, applied: bool | None = None, reason: str = "") -> WorkView:
    record = RunRecord(job=JOB.uid, epoch=1, fence=fence)
    return WorkView(
        "karmada-es-east", "w", "w", version, cluster="east", record=record, gang=GANG, applied=applied, reason=reason
    )


def test_a_grant_counts_before_its_work_exists() -> None:
    ledger = Ledger()
    ledger.saw_binding(binding(), job=JOB)
    assert len(ledger.promised("east", through=10**9)) == 1


def test_a_work_counts_until_the_member_has_worked_through_its_creation_and_never_by_later_writes() -> None:
    ledger = Ledger()
    ledger.saw_binding(binding(), job=JOB)
    ledger.saw_work(work("100"))
    assert len(ledger.promised("east", through=99)) == 1
    ledger.saw_work(work("900", applied=True))  # a status bumped its version: what counts is the creation
    assert ledger.promised("east", through=100) == []
    ledger.saw_work(work("950", applied=True))
    assert ledger.promised("east", through=100) == []


def test_versions_are_numbers() -> None:
    ledger = Ledger()
    ledger.saw_work(work("1000"))
    assert len(ledger.promised("east", through=999)) == 1


def test_a_refusal_undoes_the_charge_and_a_stale_fence_does_not() -> None:
    ledger = Ledger()
    ledger.saw_work(work("5"))
    ledger.saw_work(work("6", applied=False, reason="StaleFence"))
    assert len(ledger.promised("east", through=0)) == 1
    ledger.saw_work(work("7", applied=False, reason="NoRoom"))
    assert ledger.promised("east", through=0) == []


def test_a_restamped_work_counts_again_until_the_member_has_seen_the_stamp() -> None:
    ledger = Ledger()
    ledger.saw_work(work("5"))
    assert ledger.promised("east", through=5) == []
    ledger.saw_work(work("9", fence=2))
    assert len(ledger.promised("east", through=5)) == 1
    assert ledger.promised("east", through=9) == []


def test_what_is_gone_or_ended_uses_its_queue_no_more() -> None:
    for after in (binding(PartState.GONE), binding(ended="Completed")):
        ledger = Ledger()
        ledger.saw_binding(binding(), job=JOB)
        assert ledger.used["default"].get("cpu") == 6000
        ledger.saw_binding(after, job=JOB)
        assert not ledger.used["default"]
        assert ledger.promised("east", through=0) == []
        ledger.saw_work(work("9", applied=True))


steps = st.lists(st.sampled_from(["grant", "stop", "gone", "end", "work", "refuse", "lost-work", "lost-binding", "through"]))


@given(steps)
def test_no_order_of_events_leaves_a_negative_or_double_charge(order: list[str]) -> None:
    ledger, version = Ledger(), 1
    events: dict[str, Callable[[], object]] = {
        "grant": lambda: ledger.saw_binding(binding(), job=JOB),
        "stop": lambda: ledger.saw_binding(binding(PartState.STOPPING), job=JOB),
        "gone": lambda: ledger.saw_binding(binding(PartState.GONE), job=JOB),
        "end": lambda: ledger.saw_binding(binding(ended="Completed"), job=JOB),
        "work": lambda: ledger.saw_work(work(str(version))),
        "refuse": lambda: ledger.saw_work(work(str(version), applied=False, reason="NoRoom")),
        "lost-work": lambda: ledger.lost_work(work(str(version))),
        "lost-binding": lambda: ledger.lost_binding(JOB.uid),
        "through": lambda: ledger.promised("east", through=version),
    }
    for step in order:
        version += 1
        events[step]()
        assert ledger.used.get("default", GANG.requests * 0).get("cpu") in (0, 6000)
        assert len(ledger.promised("east", through=0)) <= 1
