"""Which pods may still run (A4): a node that nobody knows is asked for, only one that was certainly deleted is declared."""

from __future__ import annotations

import dataclasses

import pytest

from apis import keys, kinds
from machinery.informer import Change
from member_agent.views import NodeView
from member_agent.works.planner import AskNodes, ReportLeft, Wait, next_step
from member_agent.works.remains import ASK_AGAIN, Left, Remains, Trace
from member_agent.works.snapshot import Snapshot
from tests.member_agent.test_room import node
from tests.member_agent.test_through import work
from tests.member_agent.world import EAST, Stage, job, play

TRACES = {"u": Trace("train-0", "a", "b")}


class Place:
    """Remains of one Job with one pod that was on node `a`."""

    def __init__(self) -> None:
        self.remains = Remains(kubelet=60.0)
        self.node: NodeView | None = None

    def sees(self, new: NodeView | None, *, now: float = 0.0) -> None:
        self.remains.node_changed(Change(("", "a"), self.node, new), now=now)
        self.node = new

    def left(self, *, now: float = 0.0) -> Left:
        return self.remains.left("owner", traces=TRACES, now=now)


A = node("a", cpu=1)


def test_a_node_that_was_not_seen_yet_is_asked_for() -> None:
    place = Place()
    assert place.left() == Left(pods=("train-0",), unknown=("a",))


def test_a_node_whose_deletion_was_seen_is_declared() -> None:
    place = Place()
    place.sees(A)
    place.sees(None)
    assert place.left() == Left()


def test_a_node_that_the_api_server_does_not_have_is_declared() -> None:
    place = Place()
    place.remains.node_absent("a")
    assert place.left() == Left()


def test_a_node_that_the_api_server_has_is_asked_for_again_until_it_is_seen() -> None:
    place = Place()
    place.remains.node_found("a", now=10.0)
    assert place.left(now=11.0) == Left(pods=("train-0",), again=ASK_AGAIN - 1.0)
    assert place.left(now=10.0 + ASK_AGAIN).unknown == ("a",)
    place.sees(A, now=20.0)
    assert place.left(now=20.0) == Left(pods=("train-0",), again=60.0)


@pytest.mark.parametrize("boot", ["b", "c"])
def test_a_node_that_comes_back_after_its_deletion_is_believed_as_it_is(boot: str) -> None:
    """The same boot: its pods may run. Another: they cannot."""
    place = Place()
    place.sees(A)
    place.sees(None)
    place.sees(dataclasses.replace(A, boot_id=boot), now=5.0)
    assert place.left(now=5.0).pods == (("train-0",) if boot == "b" else ())


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_unknown_nodes_come_before_reports_and_waiting(names: tuple[str, ...]) -> None:
    withdrawn = dataclasses.replace(work("w", 1), deleting=True, finalizers=(keys.WORK_FINALIZER,))
    snapshot = Snapshot(work=withdrawn, cluster_uid="c", asked=True)
    unknown = Left(pods=("p",), unreachable=("z",), unknown=names)
    assert next_step(dataclasses.replace(snapshot, left=unknown), retry=1.0) == AskNodes(names)
    reported = dataclasses.replace(unknown, unknown=())
    assert next_step(dataclasses.replace(snapshot, left=reported), retry=1.0) == ReportLeft(reported)
    waiting = dataclasses.replace(reported, unreachable=(), again=3.0)
    assert next_step(dataclasses.replace(snapshot, left=waiting), retry=1.0) == Wait(3.0)


def test_a_node_deleted_while_no_agent_looked_is_declared_after_a_question() -> None:
    async def story(stage: Stage) -> None:
        name = await stage.grant(job("train", replicas=2, cpu="6", command="sleep 10000"))
        await stage.until(lambda: len(stage.running("train")) == 2)
        stage.world.pools[EAST].isolate("node-1")
        await stage.world.advance(90)  # the pods there are noted on the Job
        stage.world.kill(f"agent-{EAST}")
        await stage.world.client(EAST).delete(kinds.NODE, "node-1")
        await stage.withdraw(name)
        await stage.until(lambda: stage.work(name) is None, timeout=200)

    play(story)
