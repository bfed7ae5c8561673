"""Runs a round so that nobody else in the program waits long for it: it pauses between two gangs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from machinery.clock import Clock
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import deciding
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.session import OpenSession


async def decide_in_turns(
    session: OpenSession, *, registry: Registry, clock: Clock, stretch: float
) -> tuple[Plan, Mapping[str, float], float]:
    """The plan, what each action took, and the seconds that others had their turn meanwhile; they have it every `stretch`
    seconds."""
    paused, rested = 0.0, clock.boot()
    steps = deciding(session, registry=registry, timer=lambda: clock.boot() - paused)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            decided, took = done.value
            return decided, took, paused
        now = clock.boot()
        if now - rested >= stretch:
            await asyncio.sleep(0)
            rested = clock.boot()
            paused += rested - now
