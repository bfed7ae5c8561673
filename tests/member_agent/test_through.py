"""`worksThrough`: it never passes a Work that waits for an answer, and reaches every Work that has one."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import orjson
import pytest

from apis import keys, kinds, runs
from machinery.port import PatchType
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.views import WorkView, project_work
from member_agent.works.controller import answered, restamped
from tests.member_agent.world import HOME, Stage, job, play, typed

APPLIED = {"type": "Applied", "status": "True"}


def work(uid: str, version: int, *, fence: int = 1, **more: Any) -> WorkView:
    record = runs.encode(runs.RunRecord(job=uid, epoch=1, fence=fence))
    meta = {"namespace": HOME, "name": uid, "uid": uid, "resourceVersion": str(version), "annotations": {keys.RUN: record}}
    return dataclasses.replace(project_work(orjson.dumps({"metadata": meta})), **more)


@pytest.mark.parametrize("listed", list(itertools.permutations([100, 250, 400])))
@pytest.mark.parametrize("decided", list(itertools.permutations([100, 250, 400])))
def test_in_whatever_order_works_come_and_are_answered_none_is_passed(listed: list[int], decided: list[int]) -> None:
    """A list brings Works by name and stands at its own version from the first one on."""
    ledger = Ledger(Inventory())
    for version in listed:
        ledger.work_seen(work(f"u{version}", version))
    open_ones = set(listed)
    for version in decided:
        assert int(ledger.through("500")) == min(open_ones) - 1
        ledger.decided(f"u{version}")
        open_ones.discard(version)
    assert ledger.through("500") == "500"


def test_who_is_owed_an_answer() -> None:
    stale = project_work(
        orjson.dumps(
            {
                "metadata": {"name": "w", "uid": "w", "annotations": {keys.RUN: runs.encode(runs.RunRecord("w", 1, 1))}},
                "status": {"conditions": [{"type": "Applied", "status": "False", "reason": "StaleFence"}]},
            }
        )
    )
    new = work("w", 1)
    stamped = dataclasses.replace(stale, record=work("w", 2, fence=2).record)
    assert not answered(new, None)
    assert answered(dataclasses.replace(new, suspended=True), None)
    assert answered(dataclasses.replace(new, deleting=True), None)
    assert not answered(stale, None)
    assert answered(stale, stale)
    assert not answered(stamped, stale)
    assert restamped(stamped, stale)


def test_a_work_that_is_suspended_holds_nobody_up_and_counts_again_when_it_is_released() -> None:
    async def story(stage: Stage) -> None:
        record = runs.RunRecord(job="uid-held", epoch=1, fence=1)
        meta = {
            "name": "held",
            "namespace": HOME,
            "annotations": {keys.RUN: runs.encode(record)},
            "finalizers": [keys.WORK_FINALIZER],
        }
        spec = {"suspendDispatching": True, "workload": {"manifests": [job("held", command="sleep 600")]}}
        await stage.world.client().create(kinds.WORK, typed(kinds.WORK, {"metadata": meta, "spec": spec}), namespace=HOME)
        name = await stage.grant(job("other", command="sleep 600"))
        await stage.until(lambda: covered(stage, name))
        await stage.patch_work("held", {"spec": {"suspendDispatching": False}})
        await stage.until(lambda: stage.reported("held") == "Running")
        await stage.until(lambda: covered(stage, "held"))

    play(story)


@pytest.mark.parametrize("restart", [False, True])
def test_a_work_that_was_moved_after_its_answer_is_covered_soon_and_then_nothing_is_written(restart: bool) -> None:
    """By the agent's own status, by the hub's edit: a hub that starts anew compares the version it finds."""

    async def story(stage: Stage) -> None:
        name = await stage.grant(job("train", command="sleep 6000"))
        await stage.until(lambda: stage.reported(name) == "Running")
        await stage.until(lambda: covered(stage, name), timeout=7)
        await stage.patch_work(name, {"metadata": {"labels": {"seen": "by-hub"}}})
        assert not covered(stage, name)
        if restart:
            stage.world.kill("agent-east")
        await stage.until(lambda: covered(stage, name), timeout=30 if restart else 7)
        await stage.world.advance(60)
        before = writes(stage)
        await stage.world.advance(1200)
        assert writes(stage) == before

    play(story)


def test_a_burst_of_changes_is_published_at_most_once_per_five_seconds() -> None:
    async def story(stage: Stage) -> None:
        name = await stage.grant(job("train", command="sleep 6000"))
        await stage.until(lambda: stage.reported(name) == "Running")
        await stage.world.advance(60)
        before = len(writes(stage))
        for index in range(60):
            await stage.world.client().patch(
                kinds.WORK, name, {"metadata": {"labels": {"n": str(index)}}}, type=PatchType.MERGE, namespace=HOME
            )
            await stage.world.advance(0.5)
        assert 5 <= len(writes(stage)) - before <= 7

    play(story)


def covered(stage: Stage, name: str) -> bool:
    """A hub that starts now would assume nothing for this Work."""
    found = stage.work(name) or {}
    return int(found["metadata"]["resourceVersion"]) <= int(stage.capacity().get("worksThrough") or 0)


def writes(stage: Stage) -> list[str]:
    """Capacity statuses of the agent so far."""
    return [
        str(each) for each in stage.world.faults.log if each.actor == "agent-east" and each.kind == kinds.CLUSTER_CAPACITY.name
    ]
