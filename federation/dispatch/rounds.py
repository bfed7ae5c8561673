"""How much one round takes on, and planning that lets others run meanwhile (protocol.md 3: at most a second a round)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from federation.dispatch.items import Plan
from federation.dispatch.planner import Planning
from federation.dispatch.snapshot import Rules, Snapshot
from machinery.clock import Clock

COALESCE: Final = 0.02
"""Seconds that an event waits for company before a round."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What one round takes on: so many cases, so many seconds of planning, and so many at a stretch: renewals and watches run
    on the same loop."""

    cases: int = 1000
    seconds: float = 1.0
    stretch: float = 0.05
    coalesce: float = COALESCE


async def planned(snapshot: Snapshot, *, rules: Rules, clock: Clock, pace: Pace) -> Plan:
    """The plan as far as it comes in time; the snapshot is frozen, and what changes meanwhile is found out at the commit."""
    planning = Planning(snapshot, rules=rules)
    looking = True
    began = rested = clock.boot()
    while planning.advance():
        now = clock.boot()
        if now - began >= pace.seconds:
            break
        if looking and now - began >= pace.seconds / 2:
            looking = False
            planning.stop_looking()  # half of the time is for placing: a round always gets somewhere
        if now - rested >= pace.stretch:
            await asyncio.sleep(0)
            rested = clock.boot()
    return planning.result()
