"""A push member: the same program beside the hub, with a kubeconfig that may hold little, and never armed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from apis import kinds
from machinery import errors
from machinery.clock import Chance, Ids
from machinery.kube import KubePort
from machinery.push_kubeconfig import RefusedKubeconfig
from member_agent.app import main
from member_agent.pushing import REFUSED, Replaced, opened, run_push, until_replaced
from member_agent.reporting import registration
from member_agent.settings import AgentSettings
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, Surroundings, federation
from simulator.world import Member, World
from tests.machinery.test_push_kubeconfig import CERTIFICATE, config
from tests.support.members import condition
from tests.support.stories import clusters, job, phase, starts
from tests.support.watching import Watch

SECRET = "federation-system/west-push"


async def pushed(at: Surroundings) -> None:
    """One process beside the hub."""
    assert at.local is not None
    settings = AgentSettings(cluster=at.member, push_secret=SECRET, **at.settings)
    await run_push(at.hub, at.local, clock=at.clock, chance=at.chance, ids=at.ids, settings=settings)


def test_a_push_member_runs_jobs_like_any_other_and_is_never_armed() -> None:
    async def main_(clock: SimClock, chance: Chance, ids: Ids) -> None:
        programs = Programs(hub=federation().hub, member={"push": pushed})
        async with World(5, members={"west": Member(nodes=uniform("west", 2, cpu=4))}, programs=programs) as world:
            watch = Watch(world, pods={"default/train": 2})
            await world.advance(10.0)
            await world.apply(job("train", pods=2, runs_for=20))
            await world.until(lambda: phase(world, "train") == "Running", timeout=60, what="it runs")
            spec = (world.get(kinds.CLUSTER, "west") or {})["spec"]
            assert spec["syncMode"] == "Push"
            assert spec["secretRef"] == {"namespace": "federation-system", "name": "west-push"}
            status, reason, message = condition(world, "west", "FencingArmed")
            assert (status, reason) == ("False", "PushMember")
            assert "a stolen hub is a stolen member" in message
            world.kill("push-west")
            await world.until(lambda: phase(world, "train") == "Completed", timeout=90, what="it ends")
            assert (clusters(world, "train"), starts(world, "train")) == (["west"], 2)
            watch.check()
            assert world.crashes == [], world.story()

    run_virtual(main_, seed=5)


def test_a_member_that_pulls_again_forgets_its_secret() -> None:
    def said(secret: str) -> AgentSettings:
        return AgentSettings(cluster="west", push_secret=secret)

    before = registration.cluster(said(SECRET), uid="u", mode="builtin")
    after = registration.updated(before, said(""), uid="u", mode="builtin")
    assert after is not None
    assert after["spec"] == {"id": "u", "syncMode": "Pull"}


# --- the kubeconfig ------------------------------------------------------------------------------------------------------


async def test_what_may_not_be_in_a_kubeconfig_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    marker = tmp_path / "ran"
    file.write_bytes(config(user={"token": None, "exec": {"command": "touch", "args": [str(marker)]}}))
    with pytest.raises(RefusedKubeconfig, match="exec is refused: it would run a program beside the hub"):
        async with opened(file):
            pass
    assert not marker.exists()


def test_the_program_says_what_it_refuses_and_does_not_ask_to_be_started_again(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(config(cluster={"insecure-skip-tls-verify": True}))
    hub = tmp_path / "hub"
    hub.write_bytes(config())
    asked = ["push", "--cluster", "west", "--hub-kubeconfig", str(hub), "--kubeconfig", str(file), "--secret", SECRET]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == REFUSED
    assert "insecure-skip-tls-verify is refused: the member would not be known to be the member" in result.output


async def test_a_redirect_is_refused_and_the_credential_goes_nowhere_else(tmp_path: Path) -> None:
    """Of the port that opens them: a member's API server that sends us elsewhere gets no second request out of us."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/somewhere-else"})

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    file = tmp_path / "kubeconfig"
    file.write_bytes(
        config(cluster={"server": f"http://127.0.0.1:{runner.addresses[0][1]}", "certificate-authority-data": None})
    )
    port = await KubePort.from_kubeconfig(str(file))
    try:
        with pytest.raises(errors.ApiError, match="302"):
            await port.get(kinds.NAMESPACE, "kube-system")
        assert asked == ["/api/v1/namespaces/kube-system"]
    finally:
        await port.close()
        await runner.cleanup()


@pytest.mark.parametrize("secret", ["west", "a/b/c", "A/b", "a/", "../etc"])
def test_a_secret_is_named_by_namespace_and_name(secret: str) -> None:
    with pytest.raises(ValueError, match="push_secret"):
        AgentSettings(cluster="west", push_secret=secret)


def test_a_replaced_kubeconfig_ends_the_process_and_one_that_is_gone_for_a_moment_does_not(tmp_path: Path) -> None:
    async def main_(clock: SimClock, chance: Chance, ids: Ids) -> None:
        file = tmp_path / "kubeconfig"
        file.write_bytes(config())
        task = asyncio.create_task(until_replaced((file,), clock=clock))
        await clock.sleep(11.0)
        file.unlink()
        await clock.sleep(11.0)
        assert not task.done()
        file.write_bytes(config(user={"token": None, **CERTIFICATE}))
        with pytest.raises(Replaced):
            await task

    run_virtual(main_, seed=1)


def test_settings_of_the_agent_say_push_or_not() -> None:
    given: dict[str, Any] = {"cluster": "west"}
    assert registration.cluster(AgentSettings(**given), uid="u", mode="builtin")["spec"]["syncMode"] == "Pull"
