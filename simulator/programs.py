"""The real programs, as the simulator starts them: their composition roots, with port, clock, chance and ids swapped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from machinery.clock import Chance, Clock, Ids
from machinery.port import Port


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one life of a program is given. `local` is None for the hub, `member` is "" there."""

    hub: Port
    local: Port | None
    member: str
    clock: Clock
    chance: Chance
    ids: Ids
    settings: Mapping[str, Any]


Program = Callable[[Surroundings], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Programs:
    """Which program runs in which place; `member` ones run once per member, under the name `<role>-<member>`."""

    hub: Mapping[str, Program] = field(default_factory=dict)
    member: Mapping[str, Program] = field(default_factory=dict)


async def _hub(at: Surroundings) -> None:
    from federation.app import run_hub
    from federation.settings import HubSettings

    await run_hub(at.hub, clock=at.clock, chance=at.chance, ids=at.ids, settings=HubSettings(**at.settings))


async def _agent(at: Surroundings) -> None:
    from member_agent.app import run_agent
    from member_agent.settings import AgentSettings

    assert at.local is not None
    settings = AgentSettings(cluster=at.member, **at.settings)
    await run_agent(at.hub, at.local, clock=at.clock, chance=at.chance, ids=at.ids, settings=settings)


async def _fencer(at: Surroundings) -> None:
    from member_agent.app import run_fencer
    from member_agent.settings import FencerSettings

    assert at.local is not None
    known = {name: value for name, value in at.settings.items() if name in FencerSettings.model_fields}
    settings = FencerSettings(cluster=at.member, **known)
    await run_fencer(at.hub, at.local, clock=at.clock, chance=at.chance, ids=at.ids, settings=settings)


def federation() -> Programs:
    """One hub; an agent and a fencer per member."""
    return Programs(hub={"hub": _hub}, member={"agent": _agent, "fencer": _fencer})
