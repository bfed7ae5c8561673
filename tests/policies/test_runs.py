"""The run's table: laws over any sequence of events, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.runs import BindingRun, Ground, Held, PartState, RefusalReason
from policies import runs
from policies.runs import Run, RunState

CLUSTERS = ("east", "west")
any_event = st.one_of(
    st.sampled_from(CLUSTERS).map(lambda name: runs.Grant({name: (f"id-{name}", 1)})),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Restamp(name, 2)),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Refused(name, RefusalReason.NO_ROOM)),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Refused(name, RefusalReason.STALE_EPOCH, newest=7)),
    st.sampled_from(CLUSTERS).map(runs.StartTimedOut),
    st.sampled_from(CLUSTERS).map(runs.Withdrawn),
    st.sampled_from(CLUSTERS).map(runs.LocallyDeleted),
    st.sampled_from(CLUSTERS).map(lambda name: runs.LocallyDeleted(name, again=True)),
    st.sampled_from(CLUSTERS).map(runs.Evicted),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Evicted(name, moved_for="2026-01-01T00:00:00Z")),
    st.just(runs.Stayed("2026-01-01T00:00:00Z")),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Lost(name, by="alice", at="2026-01-01T00:00:00Z")),
    st.sampled_from(list(Held)).map(runs.Hold),
    st.just(runs.Resume()),
    st.sampled_from(CLUSTERS).map(lambda name: runs.Gone(name, Ground.CONFIRMED)),
    st.just(runs.End("Completed")),
)


@given(st.lists(any_event, max_size=40))
def test_no_epoch_is_granted_before_the_one_before_is_gone_and_none_after_the_end(events: list[runs.Event]) -> None:
    run = Run(BindingRun(job="uid"))
    for event in events:
        before = run
        try:
            run, effects = runs.step(run, event)
        except runs.UnknownEdge as unknown:
            assert "uid" in str(unknown)
            assert run is before
            continue
        if run.record.epoch > before.record.epoch:
            assert run.record.epoch == max(before.record.epoch, before.record.least) + 1
            assert before.record.all_gone
            assert before.record.held is None
        assert before.state is not RunState.ENDED
        live = [part for part in run.record.parts.values() if part.state is PartState.GRANTED]
        assert len(live) <= 1
        created = [effect for effect in effects if isinstance(effect, runs.CreateWork)]
        assert bool(created) == isinstance(event, runs.Grant)


def test_a_lost_cluster_ends_its_part_with_the_word_of_a_person_and_stops_the_others() -> None:
    run, _ = runs.step(Run(BindingRun(job="uid")), runs.Grant({"east": ("id", 1), "west": ("id", 2)}))
    run, effects = runs.step(run, runs.Lost("east", by="alice", at="2026-01-01T00:00:00Z", spent=2))
    assert effects == (runs.DeleteWork("east"), runs.DeleteWork("west"))
    assert run.state is RunState.STOPPING
    east = run.record.parts["east"]
    assert (east.state, east.ground, east.by, east.at) == (PartState.GONE, Ground.DECLARED, "alice", "2026-01-01T00:00:00Z")
    run, _ = runs.step(run, runs.Gone("west", Ground.CONFIRMED))
    run, _ = runs.step(run, runs.Grant({"west": ("id", 3)}))
    assert [(each.cluster, each.ground, each.by) for each in run.record.past] == [
        ("east", Ground.DECLARED, "alice"),
        ("west", Ground.CONFIRMED, ""),
    ]


def test_an_evicted_part_is_stopped_and_remembers_which_wish_it_answers() -> None:
    run, _ = runs.step(Run(BindingRun(job="uid")), runs.Grant({"east": ("id", 1)}))
    run, effects = runs.step(run, runs.Evicted("east", spent=1, moved_for="2026-01-01T00:00:00Z"))
    assert (run.state, effects, run.record.retries) == (RunState.STOPPING, (runs.DeleteWork("east"),), 1)
    run, _ = runs.step(run, runs.Gone("east", Ground.CONFIRMED))
    assert (run.state, run.record.moved_for) == (RunState.WAITING, "2026-01-01T00:00:00Z")


def test_a_part_is_never_gone_without_a_ground() -> None:
    run, _ = runs.step(Run(BindingRun(job="uid")), runs.Grant({"east": ("id", 1)}))
    run, effects = runs.step(run, runs.Refused("east", RefusalReason.NO_ROOM))
    assert effects == (runs.DeleteWork("east"),)
    run, _ = runs.step(run, runs.Gone("east", Ground.CONFIRMED))
    assert run.record.parts["east"].ground is Ground.CONFIRMED
    assert run.state is RunState.WAITING


@pytest.mark.parametrize(("again", "held"), [(False, Held.LOCALLY_DELETED), (True, None)])
def test_what_was_deleted_in_its_member_is_held_unless_its_policy_places_it_again(again: bool, held: Held | None) -> None:
    run, _ = runs.step(Run(BindingRun(job="uid")), runs.Grant({"east": ("id", 1)}))
    run, effects = runs.step(run, runs.LocallyDeleted("east", again=again))
    assert effects == (runs.DeleteWork("east"),)
    assert run.record.parts["east"].ground is Ground.CONFIRMED
    assert run.record.held is held
    assert run.state is (RunState.WAITING if again else RunState.HELD)


def test_a_grant_while_a_part_stops_raises_with_the_story() -> None:
    run, _ = runs.step(Run(BindingRun(job="uid")), runs.Grant({"east": ("id", 1)}))
    run, _ = runs.step(run, runs.Hold(Held.SUSPENDED))
    with pytest.raises(runs.UnknownEdge, match='"held":"Suspended"'):
        runs.step(run, runs.Grant({"west": ("id", 1)}))


def test_the_page_is_made_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "lifecycles" / "run.md"
    assert page.read_text() == runs.page(), "write policies.runs.page() to docs/lifecycles/run.md"
