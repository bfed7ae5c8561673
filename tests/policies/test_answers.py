"""What a member's scheduler answers, against what its rows say (protocol.md 4: Fits, No, Unknown)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apis.capacity import CapacityStatus, QueueUse, ShapeAnswer, write_status
from apis.vectors import ResourceVector
from policies import fit
from policies.capacities import gang_label_keys, project_capacity
from policies.filters import AWAITED, Question, judge
from policies.placements import PolicyView
from policies.shapes import Gang, Requirement
from policies.verdicts import Verdict
from tests.policies.build import capacity, cluster, gang, job, nodes, shape

UNKNOWN = gang(("work", 2, shape("2", unknown="inter-pod affinity")))
LARGE = gang(("work", 2, shape("9")))


def verdict(of: Gang, *answers: ShapeAnswer, nobody: bool = False, **more: Any) -> Verdict:
    """On two nodes with eight CPUs each."""
    rows = nodes((2, "8"))
    view = capacity("east", rows, answers=None if nobody else {each.hash: each for each in answers})
    policy = PolicyView(namespace="", name="", uid="", version="")
    question = Question(job(of=of), of, policy, None, cluster("east"), view, fit.Room(rows), **more)
    return judge(question, filters=("capacity",))


def told(of: Gang, fits: int, **more: Any) -> ShapeAnswer:
    return ShapeAnswer(of.digest, fits=fits, **more)


def test_what_only_the_member_can_tell_waits_until_it_has_told() -> None:
    waits = verdict(UNKNOWN)
    assert waits.code == AWAITED
    assert waits.text == "only the member can tell: inter-pod affinity; it is being asked"
    assert verdict(UNKNOWN, told(UNKNOWN, 1)) == Verdict()
    no = verdict(UNKNOWN, told(UNKNOWN, 0, reason="nobody to be beside"))
    assert (no.code, no.text) == ("NoRoom", "nobody to be beside")


def test_where_nobody_answers_or_not_in_time_the_refusal_is_the_answer() -> None:
    for found in (verdict(UNKNOWN, nobody=True), verdict(UNKNOWN, overdue=True)):
        assert found.passes
        assert not found.sure
    assert verdict(UNKNOWN, told(UNKNOWN, 0), overdue=True).code == "NoRoom"


@pytest.mark.parametrize(
    "alike, unlike, code", [(0, 0, ""), (1, 0, ""), (2, 0, AWAITED), (0, 1, AWAITED)], ids=["none", "room", "used", "others"]
)
def test_an_answer_holds_for_as_many_gangs_as_it_says(alike: int, unlike: int, code: str) -> None:
    assert verdict(UNKNOWN, told(UNKNOWN, 2), alike=alike, unlike=unlike).code == code


def test_rows_say_no_first_and_the_member_may_know_better_while_nothing_was_sent() -> None:
    assert verdict(LARGE).code == "NoRoom"
    assert verdict(LARGE, told(LARGE, 1)).passes
    sent = {"default": ResourceVector({"cpu": 1000})}
    assert verdict(LARGE, told(LARGE, 1), promised=sent).code == "NoRoom"


def test_nodes_that_are_asked_for_by_name_are_the_members_affair_and_tell_no_rows_apart() -> None:
    by_selector = shape("2", node_selector=(("kubernetes.io/hostname", "n7"),))
    by_affinity = shape("2", node_affinity=((Requirement("kubernetes.io/hostname", "In", ("n7", "n8")),),))
    for named in (gang(("work", 2, by_selector)), gang(("work", 2, by_affinity))):
        assert gang_label_keys(named) == frozenset()
        assert verdict(named).code == AWAITED
        assert verdict(named, told(named, 1)) == Verdict()
    assert verdict(gang(("work", 2, shape("9", node_selector=(("kubernetes.io/hostname", "n7"),))))).code == "NoRoom"


def test_evictions_and_expected_waits_are_advice() -> None:
    assert verdict(LARGE, told(LARGE, 0, after_eviction=True)).code == "RoomByEviction"
    found = verdict(LARGE, told(LARGE, 0, after_eviction=True, wait=600))
    assert found.code == "RoomExpected"
    assert found.text.endswith("it would fit after evictions there; expected to fit in about 10m")


def test_what_is_asked_and_answered_is_read_from_the_object() -> None:
    status = CapacityStatus(
        generation=3,
        queues=(QueueUse("poor", real_capability={"cpu": 0}),),
        shapes=(ShapeAnswer("a", fits=2),),
    )
    meta = {"name": "member", "namespace": "karmada-es-east", "uid": "u", "resourceVersion": "9"}
    spec = {"shapes": [{"hash": "a", "requirements": {}}, {"hash": "b"}]}
    read = project_capacity(msgspec.json.encode({"metadata": meta, "spec": spec, "status": msgspec.Raw(write_status(status))}))
    assert read.asked == {"a", "b"}
    assert read.answers == {"a": ShapeAnswer("a", fits=2)}
    assert read.queues["poor"].limit == {"cpu": 0}  # nothing of it, which is not no limit
    assert project_capacity(msgspec.json.encode({"metadata": meta})).answers is None
