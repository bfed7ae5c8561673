"""The status of a PodGroup: phase, conditions and counters as clients of the upstream API read them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.room import Shortage
from member_agent.scheduling.gates import Gated
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Tally
from member_agent.scheduling.statuses import session_id, status_of
from member_agent.views import GroupCondition, GroupStatus, GroupView, NodeView
from member_agent.views.waits import composed, read
from tests.member_agent.scheduling.build import code, configuration, decide, gang, nodes, why
from tests.member_agent.scheduling.build import queue as queue_of
from tests.member_agent.test_room import group, inventory, node, shape

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def of(phase: str, *, minimum: int = 4, conditions: tuple[GroupCondition, ...] = ()) -> GroupView:
    return dataclasses.replace(group("g", minimum), status=GroupStatus(phase=phase, conditions=list(conditions)))


def judged(
    view: GroupView, *, bound: int, running: int = 0, reason: Reason | None = None, now: str = NOW, session: str = "s1"
) -> GroupStatus:
    tally = Tally(pods=4, bound=bound, placed={"": bound}, running=running)
    return status_of(view, tally, admitted=False, reason=reason, now=now, session=session)


def test_a_gang_with_its_minimum_is_scheduled_with_the_name_of_the_session() -> None:
    status = judged(of("Inqueue"), bound=4)
    (condition,) = status.conditions
    assert (status.phase, condition.type, condition.status) == ("Running", "Scheduled", "True")
    assert (condition.reason, condition.transition_id, condition.last_transition_time) == ("tasks ready", "s1", NOW)


@pytest.mark.parametrize(
    ("word", "reason", "message"),
    [
        ("NotEnoughResources", "NotEnoughResources", "room for 0 of 4 pods"),
        ("NotEnoughTasks", "NotEnoughTasks", "room for 0 of 4 pods"),
        ("NotEnoughPodsOfTask", "NotEnoughPodsOfTask", "room for 0 of 4 pods"),
        ("QueueFull", "NotEnoughResources", "QueueFull: room for 0 of 4 pods"),
    ],
)
def test_a_gang_that_waits_says_why_in_words_that_the_field_knows(word: str, reason: str, message: str) -> None:
    (condition,) = judged(of("Inqueue"), bound=0, reason=Reason(word, "room for 0 of 4 pods")).conditions
    assert (condition.type, condition.status) == ("Unschedulable", "True")
    assert (condition.reason, condition.message) == (reason, message)
    assert read(condition) == (word, "room for 0 of 4 pods")


def test_a_sentence_that_begins_with_a_word_is_no_word_of_ours() -> None:
    reason, message = composed("NotEnoughResources", "nodes: 3")
    assert read(GroupCondition("Unschedulable", "True", reason=reason, message=message)) == ("NotEnoughResources", "nodes: 3")


def test_the_same_words_again_are_no_write_whatever_session_says_them() -> None:
    before = judged(of("Inqueue"), bound=0, reason=Reason("QueueFull", "at 4 of 4"))
    view = dataclasses.replace(of("Inqueue"), status=before)
    assert judged(view, bound=0, reason=Reason("QueueFull", "at 4 of 4"), now=LATER, session="s2") == before


def test_new_words_keep_the_time_since_when_it_waits_and_name_their_session() -> None:
    before = judged(of("Inqueue"), bound=0, reason=Reason("QueueFull", "at 4 of 4"))
    view = dataclasses.replace(of("Inqueue"), status=before)
    (condition,) = judged(view, bound=0, reason=Reason("QueueFull", "at 5 of 5"), now=LATER, session="s2").conditions
    assert (condition.last_transition_time, condition.transition_id) == (NOW, "s2")


@pytest.mark.parametrize("word", ["NotEnoughResources", "QueueFull", "QueueOverused", "QuotaExceeded"])
def test_a_gang_that_runs_in_part_and_finds_no_room_for_the_rest_is_unknown(word: str) -> None:
    assert judged(of("Running"), bound=2, running=2, reason=Reason(word, "…")).phase == "Unknown"


@pytest.mark.parametrize("word", ["NotEnoughTasks", "NotEnoughPodsOfTask", "BindRefused", "GangReleased", "SchedulingGated"])
def test_a_gang_whose_missing_pods_are_on_their_way_is_not_unknown(word: str) -> None:
    assert judged(of("Running"), bound=2, running=2, reason=Reason(word, "…")).phase == "Inqueue"


def test_a_gang_of_which_nothing_runs_is_never_unknown() -> None:
    assert judged(of("Inqueue"), bound=2, running=0, reason=Reason("NotEnoughResources", "…")).phase == "Inqueue"


def test_placed_pods_that_terminate_keep_the_group_running() -> None:
    """They hold their nodes until they have gone: that is what `bound` counts, and why the phase stays."""
    assert judged(of("Running"), bound=4, running=4).phase == "Running"


def test_sessions_have_names_that_look_like_uids_and_differ() -> None:
    names = {session_id(NOW, number) for number in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) for name in names)
    assert session_id(NOW, 1) == session_id(NOW, 1)


def cordoned(name: str) -> NodeView:
    return dataclasses.replace(node(name, cpu=8), cordoned=True)


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_sentence_counts_what_fits_now_cordoned_nodes_and_those_that_are_not_ready_apart() -> None:
    machines = [*nodes(8, 8), *map(cordoned, ("c0", "c1")), node("d", cpu=8, ready=False)]
    answer = inventory(machines).room.copy().place([(shape(4), 6)])
    assert isinstance(answer, Shortage)
    assert answer.sentence.startswith("room for 4 of 6 pods (cpu 4, ")
    assert "5 nodes, 2 cordoned, 1 not ready" in answer.sentence


def test_the_sentence_says_how_far_the_queue_is() -> None:
    """16 pods of 8 in a queue that may have 96, of which all are used."""
    there = [gang("there", pods=12, cpu=8, on=[f"n{index}" for index in range(12)], queue="research")]
    wants = gang("wants", pods=16, cpu=8, queue="research", created="2026-01-02T00:00:00Z")
    machines = nodes(*[8] * 32)
    machines[30:] = map(cordoned, ("n30", "n31"))
    by = configuration("gang", "capacity", "predicates")
    found = decide(machines, *there, wants, queues=[queue_of("research", capability=96)], by=by)
    assert code(found, "wants") == "QueueFull"
    assert "queue research is at cpu 96 of 96" in why(found, "wants")
    assert "16 × cpu 8" in why(found, "wants")


def test_numbers_follow_what_pods_hold() -> None:
    found: Inventory = inventory([node("a", cpu=8)])
    taken = gang("other", cpu=6, on=["a"]).pods[0]
    found.pod_changed(Change(("ns", "other-0"), None, taken))
    answer = found.room.copy().place([(shape(4), 1)])
    assert isinstance(answer, Shortage)
    assert "1 with too little cpu (most free: 2)" in answer.sentence
    assert found.used().get("cpu") == ResourceVector.from_quantities({"cpu": "6"}).get("cpu")


def test_gates_are_counted_where_pods_are_missing() -> None:
    gated = Gated()
    for pod in gang("g", pods=3).pods:
        gated.put(("ns", "g"), dataclasses.replace(pod, gated=True))
    reasons = {("ns", "g"): Reason("NotEnoughTasks", "1 of 4 pods of the gang exist"), ("ns", "h"): Reason("QueueFull", "…")}
    told = gated.explained(reasons)
    assert told["ns", "g"] == Reason(
        "SchedulingGated", "1 of 4 pods of the gang exist; 3 pods of the gang wait for their scheduling gates"
    )
    assert told["ns", "h"] == reasons["ns", "h"]
