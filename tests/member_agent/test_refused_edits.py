"""Edits of a hub-run Job that its member refuses: told in a condition, asked for once, and over when the edit is taken back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.port import Body
from simulator.api import MemoryPort
from tests.member_agent.world import Stage, job, play

Doc = dict[str, Any]
DENIED = 'admission webhook "validatejob.volcano.sh" denied the request: job updates may not change fields other than replicas'


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A webhook that lets nobody change images; replicas of each Job that it refused, in order."""
    real, refused = MemoryPort.replace, []

    async def replace(self: MemoryPort, kind: Kind, name: str, body: Body, **more: Any) -> bytes:
        tasks = body["spec"]["tasks"] if kind == kinds.JOB and isinstance(body, Mapping) else []
        if any(image(task) != "busybox:1" for task in tasks):
            refused.append(tasks[0]["replicas"])
            raise errors.Forbidden(DENIED)
        return await real(self, kind, name, body, **more)

    monkeypatch.setattr(MemoryPort, "replace", replace)
    return refused


def image(task: Doc) -> str:
    return str(task["template"]["spec"]["containers"][0]["image"])


def edited(manifest: Doc, *, image: str = "busybox:1", replicas: int = 2) -> Doc:
    found = copy.deepcopy(manifest)
    (task,) = found["spec"]["tasks"]
    task["replicas"] = replicas
    task["template"]["spec"]["containers"][0]["image"] = image
    return found


def offer(manifest: Doc) -> Doc:
    return {"spec": {"workload": {"manifests": [manifest]}}}


def test_a_refused_edit_is_a_condition_and_is_asked_for_once(tried: list[int]) -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", command="sleep 600", minimum=1)
        work = await stage.grant(manifest)
        await stage.until(lambda: stage.reported(work) == "Running")
        assert stage.condition(work, "Updated") == {}
        await stage.patch_work(work, offer(edited(manifest, image="busybox:2")))
        await stage.until(lambda: stage.condition(work, "Updated").get("status") == "False")
        told = stage.condition(work, "Updated")
        assert (told["reason"], DENIED in told["message"]) == ("Denied", True)
        await stage.world.advance(300)
        assert tried == [2]
        assert (stage.condition(work, "Applied")["status"], stage.reported(work)) == ("True", "Running")
        assert len(stage.running("train")) == 2

        await stage.patch_work(work, offer(edited(manifest, image="busybox:2", replicas=3)))
        await stage.until(lambda: tried == [2, 3], what="another edit is another question")
        await stage.patch_work(work, offer(edited(manifest, replicas=3)))
        await stage.until(lambda: len(stage.running("train")) == 3)
        await stage.until(lambda: stage.condition(work, "Updated") == {})
        assert tried == [2, 3]

    play(story)


def test_a_refused_edit_stands_in_the_way_of_nothing_else(tried: list[int]) -> None:
    async def story(stage: Stage) -> None:
        manifest = job("train", command="sleep 600", minimum=1)
        work = await stage.grant(manifest)
        await stage.until(lambda: stage.reported(work) == "Running")
        await stage.patch_work(work, offer(edited(manifest, image="busybox:2")))
        await stage.until(lambda: bool(tried))
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)
        assert stage.pods("train") == []

    play(story)
