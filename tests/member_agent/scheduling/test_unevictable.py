"""Pods that nobody lets go: asked once, and not again every time their kubelet says how they are."""

from __future__ import annotations

from typing import Any

import pytest

from apis import kinds
from machinery import errors
from machinery.port import PatchType
from simulator.api import MemoryPort
from tests.member_agent.scheduling.test_stories import configure, create, pod
from tests.member_agent.world import Stage, play

pytestmark = pytest.mark.story

BY = "actions: 'allocate, preempt'\ntiers: [{plugins: [{name: priority}, {name: predicates}]}]"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of pods whose deletion was refused; after each the kubelet writes again that the pod is ready."""
    found: list[str] = []
    real = MemoryPort.delete

    async def delete(self: MemoryPort, kind: Any, name: str, **more: Any) -> Any:
        if kind != kinds.POD:
            return await real(self, kind, name, **more)
        found.append(name)
        kubelet = MemoryPort(self.server, agent="kubelet")
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": f"Seen{len(found)}"}]}}
        where = {"namespace": more["namespace"], "subresource": "status"}
        await kubelet.patch(kinds.POD, name, ready, type=PatchType.MERGE, **where)
        raise errors.Forbidden("the webhook says no")

    monkeypatch.setattr(MemoryPort, "delete", delete)
    return found


def important(name: str, priority: int) -> dict[str, Any]:
    body = pod(name, cpu="8")
    body["spec"]["priority"] = priority
    return body


def test_a_pod_that_cannot_be_deleted_is_told_once_to_go(refused: list[str]) -> None:
    async def story(stage: Stage) -> None:
        await configure(stage, BY)
        await create(stage, important("low", 1))
        await stage.until(lambda: stage.running() == ["low"], timeout=60)
        await create(stage, important("high", 10))
        await stage.until(lambda: bool(refused), timeout=60)
        await stage.world.advance(120)
        assert refused == ["low"]
        assert len(stage.pods()) == 2

    play(story, nodes=1)
