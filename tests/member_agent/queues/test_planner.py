"""One look at a queue: what is written, in which order, and what is said. No programs, only values."""

from __future__ import annotations

import pytest

from apis import keys
from machinery.events import Severity
from member_agent.queues.lifecycle import QueueState
from member_agent.queues.planner import Above, Hang, Look, Mark, Plan, State, above, complaint, missing, plan
from member_agent.queues.tree import Tree
from member_agent.views import QueueView
from tests.member_agent.queues.making import order, view

OPEN, CLOSING, CLOSED = State(QueueState.OPEN), State(QueueState.CLOSING), State(QueueState.CLOSED)


def reasons(planned: Plan) -> list[str]:
    return [told.reason for _, told in planned.dismissed] + [told.reason for told in planned.told]


def tree(*queues: QueueView) -> Tree:
    made = Tree()
    for each in queues:
        made.changed(each.name, queue=each)
    return made


# --- states ----------------------------------------------------------------------------------------------------------


def test_a_new_queue_is_opened_and_hung_from_root() -> None:
    planned = plan(Look(view("research", state="", parent="")))
    assert planned == Plan(steps=(OPEN,), later=(Hang(),))


def test_root_hangs_from_nothing_and_a_queue_of_the_hub_is_left_where_it_is() -> None:
    assert plan(Look(view(keys.ROOT_QUEUE, parent=""))) == Plan()
    assert plan(Look(view("research", parent="", managed=True))) == Plan()


@pytest.mark.parametrize("state", ["Open", "Closing", "Closed"])
@pytest.mark.parametrize("busy", [True, False])
def test_a_state_that_is_there_stays_unless_a_closing_queue_is_empty(state: str, busy: bool) -> None:
    wanted = (CLOSED,) if state == "Closing" and not busy else ()
    assert plan(Look(view("research", state=state), busy=busy)).steps == wanted


@pytest.mark.parametrize("state", ["Unknown", "Resting"])
def test_a_state_that_means_nothing_is_looked_at_anew(state: str) -> None:
    assert plan(Look(view("research", state=state), busy=True)).steps == (OPEN,)
    assert plan(Look(view("research", state=state), above=Above.SHUT)).steps == (Mark(True), CLOSED)


@pytest.mark.parametrize(
    ("action", "state", "busy", "wanted"),
    [
        ("CloseQueue", "Open", False, (CLOSED,)),
        ("CloseQueue", "Open", True, (CLOSING,)),
        ("CloseQueue", "Unknown", True, (CLOSING,)),
        ("CloseQueue", "Closing", True, ()),
        ("CloseQueue", "Closed", True, ()),
        ("OpenQueue", "Closing", True, (OPEN,)),
        ("OpenQueue", "Closed", False, (OPEN,)),
        ("OpenQueue", "Open", False, ()),
    ],
)
def test_a_command_gives_the_state_and_goes(action: str, state: str, busy: bool, wanted: tuple[State, ...]) -> None:
    command = order("research", action)
    planned = plan(Look(view("research", state=state), commands=(command,), busy=busy))
    assert planned.steps == wanted
    assert [each for each, _ in planned.dismissed] == [command]
    assert reasons(planned) == ["CommandIssued"]


def test_of_several_commands_the_newest_counts_and_all_go() -> None:
    given = (order("a", "OpenQueue", number=9), order("a", "CloseQueue", number=10))
    planned = plan(Look(view("a"), commands=given))
    assert planned.steps == (CLOSED,)
    assert [each for each, _ in planned.dismissed] == list(given)


@pytest.mark.parametrize(
    ("queue", "command", "reason"),
    [
        (view("a"), order("a", "SyncQueue"), "CommandNotSupported"),
        (view("a"), order("a", "CloseQueue", uid="another"), "CommandWithoutTarget"),
        (view("a", deleting=True), order("a", "CloseQueue"), "CommandTooLate"),
        (view("root", parent=""), order("root", "CloseQueue"), "CommandRefused"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_told_and_changes_nothing(
    queue: QueueView, command: object, reason: str
) -> None:
    planned = plan(Look(queue, commands=(command,)))  # type: ignore[arg-type]
    assert planned.steps == ()
    assert reasons(planned) == [reason]
    assert planned.dismissed[0][1].severity is Severity.WARNING


def test_a_refused_command_does_not_undo_an_older_one() -> None:
    given = (order("a", "CloseQueue"), order("a", "Sing", number=2))
    planned = plan(Look(view("a"), commands=given))
    assert planned.steps == (CLOSED,)
    assert reasons(planned) == ["CommandIssued", "CommandNotSupported"]


def test_root_that_was_closed_by_hand_is_open_again_and_says_so() -> None:
    planned = plan(Look(view("root", state="Closed", parent="")))
    assert planned.steps == (OPEN,)
    assert reasons(planned) == ["QueueReopened"]


def test_a_queue_that_is_being_deleted_is_not_written_any_more() -> None:
    assert plan(Look(view("a", state="Closing", parent="", deleting=True))) == Plan()


# --- the parent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("busy", "wanted"), [(False, CLOSED), (True, CLOSING)])
def test_under_a_closed_parent_an_open_queue_is_marked_first_and_closed_then(busy: bool, wanted: State) -> None:
    planned = plan(Look(view("a"), above=Above.SHUT, busy=busy))
    assert planned.steps == (Mark(True), wanted)
    assert reasons(planned) == ["ClosedByParent"]


def test_between_the_two_writes_of_closing_the_next_look_goes_on() -> None:
    half = view("a", marked=True)
    assert plan(Look(half, above=Above.SHUT)).steps == (CLOSED,)
    assert plan(Look(half)).steps == (Mark(False),)  # the parent was opened meanwhile


def test_with_its_parent_a_marked_queue_opens_and_loses_the_mark_last() -> None:
    planned = plan(Look(view("a", state="Closed", marked=True)))
    assert planned.steps == (OPEN, Mark(False))
    assert reasons(planned) == ["OpenedWithParent"]
    assert plan(Look(view("a", state="Closed"))).steps == ()


def test_opening_under_a_closed_parent_marks_and_waits() -> None:
    planned = plan(Look(view("a", state="Closed"), above=Above.SHUT, commands=(order("a", "OpenQueue"),)))
    assert planned.steps == (Mark(True),)
    assert reasons(planned) == ["CommandIssued", "OpensLater"]


def test_closing_what_its_parent_closed_takes_the_mark() -> None:
    shut = view("a", state="Closed", marked=True)
    assert plan(Look(shut, above=Above.SHUT, commands=(order("a", "CloseQueue"),))).steps == (Mark(False),)


def test_a_command_and_the_parent_at_once_are_one_closing_without_a_mark() -> None:
    assert plan(Look(view("a"), above=Above.SHUT, commands=(order("a", "CloseQueue"),))).steps == (CLOSED,)


def test_while_the_parent_is_missing_nothing_is_opened_or_closed_for_its_sake() -> None:
    for state, marked in (("Open", False), ("Closed", True), ("Closed", False)):
        assert plan(Look(view("a", state=state, marked=marked), above=Above.MISSING)).steps == ()
    waiting = view("a", state="Closed", marked=True)
    assert plan(Look(waiting, above=Above.MISSING, commands=(order("a", "OpenQueue"),))).steps == (OPEN, Mark(False))


# --- the tree --------------------------------------------------------------------------------------------------------


def test_what_the_parent_says_is_its_own_state() -> None:
    queues = {each.name: each for each in (view("lab", state="Closing"), view("a", parent="lab"), view("b", parent="gone"))}
    made = tree(*queues.values())
    said = {name: above(name, tree=made, queues=queues.get) for name in queues}
    assert said == {"lab": Above.OPEN, "a": Above.SHUT, "b": Above.MISSING}


def test_root_never_shuts_anybody() -> None:
    queues = {each.name: each for each in (view("root", state="Closed", parent=""), view("lab"))}
    assert above("lab", tree=tree(*queues.values()), queues=queues.get) is Above.OPEN


def test_in_a_loop_nobody_has_a_say_and_what_hangs_from_it_still_obeys() -> None:
    queues = {
        each.name: each
        for each in (view("a", parent="b", state="Closed"), view("b", parent="a", state="Closed"), view("leaf", parent="a"))
    }
    made = tree(*queues.values())
    assert above("a", tree=made, queues=queues.get) is above("b", tree=made, queues=queues.get) is Above.OPEN
    assert above("leaf", tree=made, queues=queues.get) is Above.SHUT
    assert made.lineage("leaf") == ["leaf", "a", "b"]
    assert sorted(made.under("b")) == ["a", "b", "leaf"]


def test_a_queue_that_moves_names_both_ways_up() -> None:
    made = tree(view("lab"), view("shop"), view("a", parent="lab"))
    assert made.changed("a", queue=view("a", parent="shop", version="2")) == ("a", "lab", "root", "shop")
    assert made.changed("a", queue=view("a", parent="shop", version="3")) == ()
    assert (made.children("lab"), made.children("shop")) == ((), ("a",))
    assert made.changed("a", queue=None) == ("a", "shop", "root")
    assert "a" not in made


@pytest.mark.parametrize(
    ("queue", "others", "reason", "text"),
    [
        (view("a", problem="spec.capability: cpu: 'x'"), (), "QueueUnreadable", "spec.capability"),
        (view("a", parent="gone"), (), "ParentMissing", "queue gone does not exist"),
        (view("a", parent="b"), (view("b", parent="a"),), "QueueCycle", "a → b → a"),
        (view("a", parent="a"), (), "QueueCycle", "a → a"),
    ],
)
def test_what_is_wrong_with_a_queue_is_said_by_field(
    queue: QueueView, others: tuple[QueueView, ...], reason: str, text: str
) -> None:
    told = complaint(queue, tree=tree(queue, *others))
    assert told is not None
    assert told.reason == reason
    assert text in told.message


def test_of_a_sound_queue_nothing_is_said() -> None:
    made = tree(view("lab"), view("a", parent="lab"))
    assert [complaint(each, tree=made) for each in (view("lab"), view("a", parent="lab"))] == [None, None]


def test_root_and_default_are_missed_in_this_order() -> None:
    assert missing([]) == ("root", "default")
    assert missing([view("root", parent="")]) == ("default",)
