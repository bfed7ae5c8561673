"""Whatever a binding and its Works say, looking at them has an answer; a case without one is left alone and stops nobody."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis import keys, kinds, naming, runs
from apis.cluster_orders import Declaration
from apis.runs import BindingRun, Ground, Held, Part, PartState, RefusalReason, RunRecord
from federation.dispatch.items import Act, Decide
from federation.dispatch.look import Patience
from federation.dispatch.observing import look
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Order
from machinery.port import PatchType
from policies import runs as table
from policies.departures import Departure
from policies.runs import Restamp, RunState
from policies.views import BindingView, WorkView
from tests.federation.test_planner import RULES, case, member, snapshot
from tests.federation.world import World, job, story
from tests.policies import build

CLUSTERS = ("east", "west")
parts = st.builds(
    Part,
    cluster_uid=st.just("id"),
    fence=st.integers(0, 3),
    state=st.sampled_from(PartState),
    ground=st.sampled_from([None, Ground.CONFIRMED]),
)
records = st.builds(
    BindingRun,
    job=st.just("uid-train"),
    epoch=st.integers(1, 3),
    parts=st.dictionaries(st.sampled_from(CLUSTERS), parts),
    held=st.sampled_from([None, *Held]),
)


@st.composite
def works(draw: st.DrawFn, cluster: str) -> WorkView:
    record = RunRecord(
        job=draw(st.sampled_from(["uid-train", "other"])), epoch=draw(st.integers(1, 3)), fence=draw(st.integers(0, 3))
    )
    refusal = draw(st.sampled_from([None, *RefusalReason]))
    applied = False if refusal else draw(st.sampled_from([None, True]))
    view = WorkView(namespace=f"karmada-es-{cluster}", name="train", uid=f"work-{cluster}", version="1", cluster=cluster)
    return replace(
        view,
        record=draw(st.sampled_from([record, record, None])),
        deleting=draw(st.booleans()),
        locally_deleted=draw(st.booleans()),
        applied=applied,
        reason=refusal or "",
        phase=draw(st.sampled_from(["", "Pending", "Running", "Completed", "Aborted"])),
        started=draw(st.booleans()),
    )


@settings(max_examples=400)
@given(st.data(), records, st.sampled_from([None, *Order]), st.booleans(), st.booleans())
def test_every_look_at_a_binding_and_its_works_has_an_answer(
    data: st.DataObject, record: BindingRun, order: Order | None, suspended: bool, deleting: bool
) -> None:
    listed = tuple(data.draw(works(cluster)) for cluster in CLUSTERS if data.draw(st.booleans()))
    binding = BindingView("default", "train-job", "b", "1", job="train", job_uid="uid-train", run=record)
    looked_at = Case(
        ("default", "train"),
        job=build.job("train", settings={"suspend": "true"} if suspended else {}, deleting=deleting),
        binding=binding,
        works=listed,
        order=order,
        waited=dict.fromkeys(CLUSTERS, data.draw(st.sampled_from([0.0, 1e6]))),
    )
    lost = st.sampled_from([None, Declaration(2, by="alice", at="2026-01-01T00:00:00Z"), Declaration(9)])
    members = {name: replace(member(name, (1, "4")), lost=data.draw(lost)) for name in CLUSTERS}
    due = {
        name: data.draw(st.sampled_from([None, Departure("ClusterDrained", "drained"), Departure("x", "y", 5.0)]))
        for name in CLUSTERS
    }
    seen = look(looked_at, members=members, patience=Patience(600, 60), leaving=lambda cluster: due[cluster])
    assert seen.run.state in RunState
    assert seen.run.record.epoch == record.epoch
    for name, part in seen.run.record.parts.items():
        before = record.parts[name]
        if part.ground is Ground.DECLARED and before.ground is not Ground.DECLARED:
            word = members[name].lost
            assert word is not None
            assert before.fence < word.fence
            assert (part.by, part.at) == (word.by, word.at)


def spoilt() -> Case:
    """One part stops while the other has another fence number than its member."""
    record = BindingRun(job="uid-odd", epoch=1, parts={"east": Part("id", 9), "west": Part("id", 1, PartState.STOPPING)})
    binding = BindingView("default", "odd-job", "b", "1", job="odd", job_uid="uid-odd", run=record)
    view = WorkView("karmada-es-east", "odd", "w", "1", cluster="east", record=RunRecord(job="uid-odd", epoch=1, fence=9))
    odd = case("odd")
    return dataclasses.replace(odd, binding=binding, works=(view,))


def test_a_case_whose_story_has_no_edge_is_told_on_its_binding_and_all_others_are_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holed = {edge: does for edge, does in table.EDGES.items() if edge != (RunState.STOPPING, Restamp)}
    monkeypatch.setattr(table, "EDGES", holed)
    odd = spoilt()
    made = plan(snapshot(case("early"), odd, case("zlate"), members=(member("east", (1, "64")),)), rules=RULES)
    acts = {item.key[1]: item for item in made.items if isinstance(item, Decide)}
    assert {name: item.act for name, item in acts.items()} == {"early": Act.PLACE, "odd": Act.RECORD, "zlate": Act.PLACE}
    assert odd.binding is not None
    assert (acts["odd"].run, acts["odd"].effects) == (odd.binding.run, ())
    decision = acts["odd"].decision
    assert decision is not None
    assert decision.reason == "RunUnclear"
    assert [key for key, _ in made.unclear] == [("default", "odd")]
    told = dataclasses.replace(odd, binding=dataclasses.replace(odd.binding, decision=decision.gist()))
    again = plan(snapshot(told, members=(member("east", (1, "64")),)), rules=RULES)
    assert again.items == ()


def test_a_binding_that_somebody_spoilt_stops_no_other_job() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=500.0)
        await world.submit(job("odd"))
        await world.until_phase("odd", "Running")
        run = await world.run_of("odd")
        wrong = msgspec.structs.replace(run, parts={"east": run.parts["east"], "west": Part("x", 1, PartState.STOPPING)})
        body = {"metadata": {"annotations": {keys.RUN: runs.encode(wrong)}}}
        name = naming.binding_name("odd")
        await world.port.patch(kinds.RESOURCE_BINDING, name, body, type=PatchType.MERGE, namespace="default")
        await world.submit(job("good"))
        await world.until_phase("good", "Running")

    story(tell)
