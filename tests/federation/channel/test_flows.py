"""Flows at a whole hub whose steps are probed: a member that cannot be asked is a reason, and holds up no other flow."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from apis import kinds
from controllers.channel.settings import Limits
from controllers.flows.plans import ProbeWanted
from controllers.flows.probing import Prober
from federation.app import run_hub
from federation.channel.prober import ChannelProber
from federation.channel.switchboard import Switchboard
from federation.settings import HubSettings
from tests.federation.world import World, job, story

PROBE = {"httpGetList": [{"path": "/", "port": 80, "httpHeader": {"name": "a", "value": "b"}}]}


class Answers:
    """A prober that says what a test says."""

    def __init__(self) -> None:
        self.said = "not yet"
        self.asked: list[tuple[str, ...]] = []

    async def ask(self, namespace: str, wanted: ProbeWanted) -> str:
        self.asked.append(wanted.jobs)
        return self.said


async def begin(world: World, prober: Callable[[World], Prober], *flows: str) -> None:
    """A hub with a prober, and flows of a server and a client that waits until the server answers."""
    world.member("east", seconds=600.0)
    running = run_hub(
        world.port, clock=world.clock, chance=world.chance, ids=world.ids, settings=HubSettings(), prober=prober(world)
    )
    world.tasks.create_task(running)
    for name in ("server", "client"):
        spec = job(name, pods=1)["spec"]
        body = {"apiVersion": kinds.JOB_TEMPLATE.api_version, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}
        await world.port.create(kinds.JOB_TEMPLATE, body, namespace="default")
    for name in flows:
        client = {"name": "client", "dependsOn": {"targets": ["server"], "probe": PROBE}}
        spec = {"flows": [{"name": "server"}, client]}
        body = {"apiVersion": kinds.JOB_FLOW.api_version, "kind": "JobFlow", "metadata": {"name": name}, "spec": spec}
        await world.port.create(kinds.JOB_FLOW, body, namespace="default")


async def state(world: World, flow: str) -> dict[str, Any]:
    found = json.loads(await world.port.get(kinds.JOB_FLOW, flow, namespace="default"))
    told: dict[str, Any] = (found.get("status") or {}).get("state") or {}
    return told


def says(world: World, flow: str, words: str) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        told = await state(world, flow)
        return told.get("reason") == "WaitingForProbe" and words in told.get("message", "")

    return holds


def test_a_step_starts_while_its_target_runs_once_the_pods_answer() -> None:
    async def tell(world: World) -> None:
        answers = Answers()
        await begin(world, lambda _: answers, "served")
        await world.until(says(world, "served", "not yet"))
        assert answers.asked[0] == ("served-server",)
        assert await world.gone(kinds.JOB, "served-client")
        answers.said = ""
        await world.until_phase("served-client", "Running")
        assert (await world.state("served-server"))["phase"] == "Running"

    story(tell)


def test_a_member_that_cannot_be_asked_is_the_reason_and_the_step_waits_for_the_end_of_its_target() -> None:
    async def tell(world: World) -> None:
        await begin(world, lambda world: ChannelProber(world.port, switchboard=Switchboard(Limits())), "served", "other")
        for flow in ("served", "other"):
            await world.until(says(world, flow, "cluster east: its agent is not connected to this hub"))
        await world.submit(job("alone"))
        await world.until_phase("alone", "Running")
        await world.until_phase("served-client", "Running", "Completed", within=900)
        assert (await world.state("served-server"))["phase"] == "Completed"

    story(tell)
