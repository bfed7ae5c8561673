"""Pauses after refusals: they grow, they end, and nothing is remembered of pods that nobody will ever speak of again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis import kinds
from machinery import errors
from member_agent.scheduling.patience import Patience
from simulator.api import MemoryPort
from tests.member_agent.scheduling.test_stories import create, pod
from tests.member_agent.world import Stage, play

pytestmark = pytest.mark.story


def test_a_pod_that_went_before_its_binding_was_refused_is_remembered_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion is seen first, and the refusal comes after it: no event will ever speak of that pod again."""
    real, asked, pauses = MemoryPort.bind, list[str](), list[str]()
    noted = Patience.refused

    async def bind(self: MemoryPort, name: str, **more: Any) -> None:
        asked.append(name)
        if name != "gone":
            return await real(self, name, **more)
        await MemoryPort(self.server, agent="somebody").delete(kinds.POD, name, namespace=more["namespace"])
        await asyncio.sleep(2)  # virtual: the deletion is seen
        raise errors.NotFound("it has gone")

    def refused(self: Patience, binding: Any, message: str, **more: Any) -> None:
        pauses.append(binding.pod.name)
        noted(self, binding, message, **more)

    monkeypatch.setattr(MemoryPort, "bind", bind)
    monkeypatch.setattr(Patience, "refused", refused)

    async def story(stage: Stage) -> None:
        await create(stage, pod("gone", cpu="1"))
        await stage.until(lambda: asked == ["gone"], timeout=60)
        await create(stage, pod("next", cpu="1"))
        await stage.until(lambda: stage.running() == ["next"], timeout=60)
        assert pauses == []

    play(story)
