"""Random Jobs in a member with its real agent: each ends or says why it waits, and none is in another one's way."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apis import kinds
from machinery import errors
from machinery.clock import Chance, Ids
from machinery.port import PatchType
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs, federation
from simulator.world import Member, World
from tests.member_agent.random_jobs.inventing import LARGEST, Doc, broken, from_schema_alone, mutated, sensible
from tests.member_agent.world import job

pytestmark = pytest.mark.timeout(300)
EAST = "east"
LONG = 400.0
"""Virtual seconds: every command but the endless one has ended long before, restarts included."""
TERMINAL = frozenset({"Completed", "Failed", "Terminated"})
AT_REST = frozenset({*TERMINAL, "Aborted"})

MANY = 16
"""Jobs of one world."""
MIXES = st.lists(
    st.one_of(sensible(), sensible(), mutated(), mutated(), broken(), from_schema_alone()), min_size=MANY, max_size=MANY
)
EDITS = st.lists(
    st.tuples(st.integers(0, MANY - 1), st.integers(0, LARGEST), st.sampled_from((0.0, 1.0, 5.0))), min_size=2, max_size=8
)
"""Number of a Job, the replicas that its first task is to have then, and seconds since the edit before."""


def renamed(manifest: Doc, name: str) -> Doc:
    found = copy.deepcopy(manifest)
    found["metadata"]["name"] = name
    return found


async def submitted(world: World, jobs: list[Doc]) -> dict[str, Doc]:
    """Those that the API server took, by name."""
    taken = {}
    client = world.client(EAST)
    for number, manifest in enumerate(jobs):
        name = f"random-{number}"
        try:
            await client.create(kinds.JOB, renamed(manifest, name), namespace="default")
        except errors.Invalid:
            continue
        taken[name] = manifest
    return taken


async def edit(world: World, edits: list[tuple[int, int, float]]) -> None:
    """People change their minds; what the API server does not take, or what has gone, stays as it is."""
    for number, replicas, pause in edits:
        await world.advance(pause)
        found = world.get(kinds.JOB, f"random-{number}", namespace="default", server=EAST)
        tasks = copy.deepcopy(((found or {}).get("spec") or {}).get("tasks") or [])
        if tasks:
            tasks[0] |= {"replicas": replicas, "minAvailable": min(tasks[0].get("minAvailable") or 0, replicas)}
            patch = {"spec": {"tasks": tasks}}
            with contextlib.suppress(errors.Invalid, errors.NotFound):
                await world.client(EAST).patch(kinds.JOB, f"random-{number}", patch, type=PatchType.MERGE, namespace="default")


def fault_of(world: World, name: str, manifest: Doc) -> str:
    """What is wrong with how the Job stands, "" when nothing is."""
    found: dict[str, Any] = world.get(kinds.JOB, name, namespace="default", server=EAST) or {}
    if not found:
        short = (manifest["spec"].get("ttlSecondsAfterFinished") or 0) < LONG
        return "" if short else f"{name} is gone before its time: {manifest}"
    state = (found.get("status") or {}).get("state") or {}
    phase = state.get("phase", "")
    pods = [pod for pod in world.all(kinds.POD, server=EAST) if pod["metadata"]["name"].startswith(f"{name}-")]
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    told = f"{name}: {state}, {len(running)} of {len(pods)} pods run, spec {found.get('spec')}"
    if phase in TERMINAL:
        return "" if not running and (phase == "Completed" or state.get("message")) else f"ended badly: {told}"
    if phase == "Aborted":
        return "" if not running else f"pods of an aborted Job run: {told}"
    if phase == "Running":
        return "" if running or state.get("message") else f"nothing runs, without a reason: {told}"
    if phase == "Pending":
        return "" if state.get("reason") and state.get("message") else f"waits without a reason: {told}"
    return f"on its way for ever: {told}"


@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(jobs=MIXES, edits=EDITS, seed=st.integers(1, 1000))
def test_every_random_job_ends_or_says_why_it_waits(
    caplog: pytest.LogCaptureFixture, jobs: list[Doc], edits: list[tuple[int, int, float]], seed: int
) -> None:
    caplog.clear()

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        programs = Programs(member={"agent": federation().member["agent"]})
        member = Member(nodes=uniform("node", 4, cpu="16"))
        async with World(seed, members={EAST: member}, programs=programs) as world:
            await world.advance(10)
            taken = await submitted(world, jobs)
            await world.client(EAST).create(kinds.JOB, job("sound"), namespace="default")
            await edit(world, edits)
            await world.until(
                lambda: phase_of(world, "sound") == "Completed", timeout=120, what="a sound Job among them completes"
            )
            await world.advance(LONG)
            assert [fault for name, manifest in taken.items() if (fault := fault_of(world, name, manifest))] == []
            assert world.crashes == []

    run_virtual(main, seed=seed)
    assert [record.getMessage() for record in caplog.records if "unexpected" in record.getMessage()] == []


def phase_of(world: World, name: str) -> str:
    found = world.get(kinds.JOB, name, namespace="default", server=EAST) or {}
    return str(((found.get("status") or {}).get("state") or {}).get("phase", ""))
