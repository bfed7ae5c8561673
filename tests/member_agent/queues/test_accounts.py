"""What is in a queue: pods that hold something, PodGroups by phase, and nothing twice."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apis import keys
from apis.vectors import EMPTY, ResourceVector
from machinery.informer import Change
from member_agent.queues.accounts import Accounts
from member_agent.views import GroupCounts, GroupView, PodView, Projector, project_group, project_queue


def group(uid: str, *, queue: str = "a", phase: str = "Pending") -> GroupView:
    document = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1"},
        "spec": {"queue": queue},
        "status": {"phase": phase},
    }
    return project_group(json.dumps(document).encode())


def change(old: GroupView | None, new: GroupView | None) -> Change[GroupView]:
    return Change(("default", "x"), old, new)


def test_groups_are_counted_by_phase_where_they_are() -> None:
    accounts = Accounts()
    first, second = group("one"), group("two", phase="Running")
    assert accounts.group_changed(change(None, first)) == ("a",)
    assert accounts.group_changed(change(None, second)) == ("a",)
    assert accounts.counts("a") == GroupCounts(pending=1, running=1)
    moved = group("one", queue="b", phase="Inqueue")
    assert accounts.group_changed(change(first, moved)) == ("a", "b")
    assert (accounts.counts("a"), accounts.counts("b")) == (GroupCounts(running=1), GroupCounts(inqueue=1))
    assert accounts.group_changed(change(second, None)) == ("a",)
    assert not accounts.busy("a")
    assert accounts.busy("b")


def test_a_group_without_a_phase_or_with_a_strange_one_is_pending() -> None:
    accounts = Accounts()
    accounts.group_changed(change(None, group("one", phase="")))
    accounts.group_changed(change(None, group("two", phase="Dreaming")))
    assert accounts.counts("a") == GroupCounts(pending=2)


def test_the_same_news_twice_changes_nothing() -> None:
    accounts = Accounts()
    accounts.group_changed(change(None, group("one")))
    assert accounts.group_changed(change(group("one"), group("one"))) == ()
    assert accounts.allocated(["a"]) == EMPTY


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2", "3"]),
            st.none() | st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["Pending", "Inqueue", "Running", "Completed"])),
        ),
        max_size=30,
    )
)
def test_after_any_news_the_counts_are_those_of_what_is_there(news: list[tuple[str, tuple[str, str] | None]]) -> None:
    accounts, there = Accounts(), dict[str, GroupView]()
    for uid, place in news:
        old = there.pop(uid, None)
        if place is not None:
            there[uid] = group(uid, queue=place[0], phase=place[1])
        if old is not None or place is not None:
            accounts.group_changed(change(old, there.get(uid)))
    for queue in ("a", "b"):
        mine = [each.phase for each in there.values() if each.queue == queue]
        counted = accounts.counts(queue)
        assert (counted.pending, counted.inqueue, counted.running, counted.completed) == tuple(
            mine.count(phase) for phase in ("Pending", "Inqueue", "Running", "Completed")
        )
        assert accounts.busy(queue) == bool(mine)


# --- the view --------------------------------------------------------------------------------------------------------


def read(**fields: Any) -> Any:
    meta = {"name": "a", "uid": "u", "resourceVersion": "1", **fields.pop("metadata", {})}
    return project_queue(json.dumps({"metadata": meta, **fields}).encode())


def test_counters_mark_and_owner_are_read() -> None:
    found = read(
        metadata={"annotations": {"volcano.sh/closed-by-parent": "true"}, "labels": {"karmada.io/managed": "true"}},
        status={"state": "Closed", "running": 2, "completed": 1},
    )
    assert (found.counts, found.closed_by_parent, found.managed) == (GroupCounts(running=2, completed=1), True, True)


def test_amounts_that_cannot_be_used_are_told_and_the_rest_of_the_queue_is_kept() -> None:
    found = read(spec={"capability": {"cpu": "many"}, "guarantee": {"resource": {"memory": "1Gi"}}}, status={"state": "Closed"})
    assert found.problem.startswith("spec.capability: ")
    assert (found.capability, found.state) == (EMPTY, "Closed")
    assert found.guarantee == ResourceVector.from_quantities({"memory": "1Gi"})
    assert read(spec={"guarantee": {"resource": {"cpu": "-1"}}}).problem == "spec.guarantee.resource.cpu: -1 is negative"
    assert read(spec={"capability": {"cpu": 4}}).problem == ""


def pod(uid: str, *, group: str = "", queue: str = "", node: str = "n") -> PodView:
    notes = {keys.GROUP_NAME: group, keys.QUEUE_NAME: queue}
    document = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": {k: v for k, v in notes.items() if v}},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "2"}}}]},
    }
    return Projector().pod(json.dumps(document).encode())


def came(view: PodView) -> Change[PodView]:
    return Change(("default", view.name), None, view)


def cpu(accounts: Accounts, queue: str) -> int:
    return int(accounts.allocated([queue]).get("cpu")) // 1000


def test_a_pod_without_a_queue_of_its_own_counts_in_that_of_its_group() -> None:
    accounts = Accounts()
    accounts.group_changed(change(None, group("one")))
    assert accounts.pod_changed(came(pod("p", group="one"))) == ("a",)
    assert cpu(accounts, "a") == 2


def test_a_pod_is_counted_once_its_group_is_seen_and_moves_with_it() -> None:
    accounts = Accounts()
    accounts.pod_changed(came(pod("p", group="one", queue="b")))
    assert cpu(accounts, "b") == 2
    first, moved = group("one"), group("one", queue="c")
    assert accounts.group_changed(change(None, first)) == ("a", "b")
    assert (cpu(accounts, "a"), cpu(accounts, "b")) == (2, 0)
    accounts.group_changed(change(first, moved))
    assert (cpu(accounts, "a"), cpu(accounts, "c")) == (0, 2)
    accounts.group_changed(Change(("default", "one"), moved, None))
    assert (cpu(accounts, "b"), cpu(accounts, "c")) == (2, 0)


def test_what_has_ended_or_gone_holds_nothing() -> None:
    accounts = Accounts()
    accounts.group_changed(change(None, group("one")))
    there = pod("p", group="one")
    accounts.pod_changed(came(there))
    ended = dataclasses.replace(there, phase="Succeeded")
    assert accounts.pod_changed(Change(("default", "p"), there, ended)) == ("a",)
    assert accounts.allocated(["a"]) == EMPTY
    accounts.group_changed(change(group("one"), group("one", queue="b")))
    assert accounts.allocated(["a", "b"]) == EMPTY
