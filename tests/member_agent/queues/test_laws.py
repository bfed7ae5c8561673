"""Laws of opening and closing, over any tree, any sequence of orders and hands, and programs that end between two writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apis import keys
from member_agent.queues.lifecycle import SHUT, QueueState
from member_agent.queues.planner import Above, Hang, Look, Mark, State, Step, above, plan, state_of
from member_agent.queues.tree import Tree
from member_agent.views import QueueView
from policies.members import CommandView
from tests.member_agent.queues.making import order, view

NAMES = ("a", "b", "c", "d", "e")
Op = tuple[str, str, str]


class Yard:
    """Queues as an API server would hold them. A look reads what is there and writes; `last` is the last word on each queue."""

    def __init__(self, parents: dict[str, str]) -> None:
        self.queues = {name: view(name, parent=parent, state="") for name, parent in parents.items()}
        self.queues[keys.ROOT_QUEUE] = view(keys.ROOT_QUEUE, parent="", state="")
        self.commands: dict[str, list[CommandView]] = {}
        self.busy: set[str] = set()
        self.last: dict[str, str] = {}
        self.orders = 0
        self.tree = Tree()
        for queue in self.queues.values():
            self.tree.changed(queue.name, queue=queue)

    def do(self, op: Op) -> None:
        what, name, how = op
        if what == "order":
            self.orders += 1
            self.commands.setdefault(name, []).append(order(name, how, number=self.orders))
            self.last[name] = how
        elif what == "hand":
            self.put(replace(self.queues[name], state=how))
            self.last.pop(name, None)
        elif what == "move":
            self.put(replace(self.queues[name], parent=how))
        elif what == "group":
            (self.busy.add if how == "comes" else self.busy.discard)(name)
        else:
            self.look(name, survives=int(how))

    def put(self, queue: QueueView) -> None:
        self.queues[queue.name] = queue
        self.tree.changed(queue.name, queue=queue)

    def above(self, name: str) -> Above:
        return above(name, tree=self.tree, queues=self.queues.get)

    def look(self, name: str, *, survives: int = 9) -> bool:
        """One look, of which so many writes are done; whether it had anything to do."""
        given = tuple(self.commands.get(name, ()))
        planned = plan(Look(self.queues[name], above=self.above(name), commands=given, busy=name in self.busy))
        for step in (*planned.steps, *planned.later)[:survives]:
            self.write(name, step)
        if survives > len(planned.steps):
            self.commands.pop(name, None)
        return bool(planned.steps or planned.later or given)

    def write(self, name: str, step: Step) -> None:
        match step:
            case State(state):
                self.put(replace(self.queues[name], state=state.value))
            case Mark(marked):
                self.put(replace(self.queues[name], closed_by_parent=marked))
            case Hang(parent):
                self.put(replace(self.queues[name], parent=parent))

    def settle(self) -> None:
        """Every queue is looked at until nobody has anything to do: soon."""
        for _ in range(3 * len(self.queues)):
            if not any([self.look(name) for name in sorted(self.queues)]):
                return
        raise AssertionError(f"never settles: {self.told()}")

    def told(self) -> dict[str, tuple[str, bool]]:
        return {name: (queue.state, queue.closed_by_parent) for name, queue in sorted(self.queues.items())}


parents = st.fixed_dictionaries({name: st.sampled_from(["", "root", "gone", *NAMES]) for name in NAMES})
names = st.sampled_from(NAMES)
anyone = st.sampled_from([*NAMES, keys.ROOT_QUEUE])
operations = st.lists(
    st.tuples(st.just("order"), anyone, st.sampled_from(["OpenQueue", "CloseQueue"]))
    | st.tuples(st.just("hand"), anyone, st.sampled_from(["Open", "Closed", "Closing", "Unknown", ""]))
    | st.tuples(st.just("group"), names, st.sampled_from(["comes", "goes"]))
    | st.tuples(st.just("move"), names, st.sampled_from(["root", "gone", *NAMES]))
    | st.tuples(st.just("look"), anyone, st.sampled_from(["0", "1", "2", "9"])),
    max_size=25,
)

nested = st.fixed_dictionaries({name: st.sampled_from(["root", *NAMES[:number]][-2:]) for number, name in enumerate(NAMES)})
"""Sound trees, most of them under `a`."""
ended_looks = st.lists(st.tuples(st.just("look"), names, st.sampled_from(["0", "1", "2"])), max_size=8)
"""Looks by programs that end after so many writes."""


def played(tree: dict[str, str], ops: list[Op]) -> Yard:
    yard = Yard(tree)
    for op in ops:
        yard.do(op)
    yard.settle()
    return yard


@given(parents, operations)
def test_whatever_happens_it_settles_and_nobody_is_open_under_a_closed_parent(tree: dict[str, str], ops: list[Op]) -> None:
    yard = played(tree, ops)
    assert not yard.commands
    assert yard.queues[keys.ROOT_QUEUE].state == "Open"
    for name, queue in yard.queues.items():
        state, says = QueueState(queue.state), yard.above(name)
        assert not (state is QueueState.OPEN and says is Above.SHUT), yard.told()
        assert not (queue.closed_by_parent and state is QueueState.OPEN), yard.told()
        assert not (queue.closed_by_parent and says is Above.OPEN), yard.told()
        assert not (state is QueueState.CLOSING and name not in yard.busy), yard.told()


@given(parents, operations)
def test_the_last_command_holds_unless_a_hand_came_later(tree: dict[str, str], ops: list[Op]) -> None:
    yard = played(tree, ops)
    for name, action in yard.last.items():
        queue = yard.queues[name]
        if name == keys.ROOT_QUEUE:
            continue
        if action == "CloseQueue":
            assert state_of(queue) in SHUT, yard.told()
            assert not queue.closed_by_parent
        else:
            assert queue.state == "Open" or queue.closed_by_parent, yard.told()


@given(parents, operations, names)
def test_opening_a_queue_restores_exactly_what_closing_it_shut(tree: dict[str, str], ops: list[Op], name: str) -> None:
    yard = played(tree, ops)
    if yard.queues[name].state == "Open":
        closed_and_opened(yard, name)


@given(nested, st.sets(st.sampled_from(NAMES[1:])), ended_looks, ended_looks)
def test_a_program_that_ends_between_two_writes_loses_nothing_of_it(
    tree: dict[str, str], shut: set[str], while_closing: list[Op], while_opening: list[Op]
) -> None:
    yard = played(tree, [("order", name, "CloseQueue") for name in sorted(shut)])
    closed_and_opened(yard, "a", while_closing=while_closing, while_opening=while_opening)


def closed_and_opened(yard: Yard, name: str, *, while_closing: Iterable[Op] = (), while_opening: Iterable[Op] = ()) -> None:
    """One after the other by Command; everything must then be as before."""
    before = yard.told()
    for action, ended in (("CloseQueue", while_closing), ("OpenQueue", while_opening)):
        yard.do(("order", name, action))
        for look in ended:
            yard.do(look)
        yard.settle()
        assert (state_of(yard.queues[name]) in SHUT) == (action == "CloseQueue")
    assert yard.told() == before


@given(parents, operations)
def test_what_has_settled_is_not_written_again(tree: dict[str, str], ops: list[Op]) -> None:
    yard = played(tree, ops)
    assert not any([yard.look(name) for name in sorted(yard.queues)])
