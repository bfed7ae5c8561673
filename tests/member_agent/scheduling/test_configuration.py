"""Volcano's configuration, read: what it means, what is left out, what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel, ConfigDict, Field

from apis import kinds
from machinery import errors
from machinery.clock import Chance, Ids
from machinery.informer import Informers
from machinery.port import PatchType
from member_agent.scheduling.configuration import BadConfiguration, Configuration, Known, parse
from member_agent.scheduling.planner import BUILT_IN
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin
from member_agent.scheduling.profile import FILE_EVERY, PLACES, Place, Profile, ProfileKeeper
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.programs import Programs
from simulator.world import Member, World


class _Factor(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    factor: float = Field(default=1.2, gt=0, alias="overcommit-factor")


class Overcommit(Plugin):
    name = "overcommit"
    arguments = _Factor
    later = frozenset({"overcommit-shape"})


class Gang(Plugin):
    name = "gang"


class Drf(Plugin):
    name = "drf"


class Proportion(Plugin):
    name = "proportion"


KNOWN = Known(
    plugins={each.name: each for each in (Overcommit, Gang, Drf, Proportion)},
    actions=frozenset({"enqueue", "allocate", "backfill"}),
)

DEFAULT = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
- plugins:
  - name: overcommit
    enabledOverused: "no"
    arguments:
      overcommit-factor: "1.5"
  - name: drf
    enableHierarchy: true
"""


def read(text: str) -> Configuration:
    return parse(text, known=KNOWN)


def refused(text: str) -> str:
    with pytest.raises(BadConfiguration) as caught:
        read(text)
    return str(caught.value)


def plugin(body: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - {body}\n"


def test_actions_tiers_flags_and_arguments() -> None:
    found = read(DEFAULT)
    assert found.actions == ("enqueue", "allocate")
    assert [[choice.name for choice in tier] for tier in found.tiers] == [["gang"], ["overcommit", "drf"]]
    gang, overcommit, drf = (choice for tier in found.tiers for choice in tier)
    assert not gang.counts(Hook.PREEMPTABLE)
    assert gang.counts(Hook.JOB_READY)
    assert not overcommit.counts(Hook.OVERUSED)
    assert overcommit.arguments == _Factor(**{"overcommit-factor": 1.5})
    assert drf.counts(Hook.HIERARCHY)
    assert not gang.counts(Hook.HIERARCHY)
    assert found.notes == ()


def test_what_upstream_has_and_this_scheduler_has_not_is_noted_and_the_rest_holds() -> None:
    found = read(
        """
actions: "enqueue, allocate, gangpreempt"
tiers:
- plugins:
  - name: gang
  - name: network-topology-aware
    arguments: {weight: 3}
  - name: overcommit
    arguments: {overcommit-shape: round}
configurations:
- name: gangreclaim
  arguments: {maxDomains: 4}
- name: allocate
  arguments: {predicateErrorCacheEnable: false}
metrics: {type: prometheus}
"""
    )
    assert found.actions == ("enqueue", "allocate")
    assert [choice.name for choice in found.tiers[0]] == ["gang", "overcommit"]
    assert found.arguments == {"allocate": {"predicateErrorCacheEnable": False}}
    assert "arguments.predicateErrorCacheEnable: changes nothing here: " in " ".join(found.notes)
    told = " ".join(found.notes)
    for name in ("gangpreempt", "network-topology-aware", "gangreclaim", "overcommit-shape", "metrics"):
        assert name in told
    assert len(found.notes) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text: input should be"),
        ("- a", "the text"),
        ("actions: [", "no YAML"),
        ("actions: 3", "actions: input should be a valid string"),
        ("actions: ' , '", "actions: names no action"),
        ("tiers: []", "actions: field required"),
        ("actions: alocate", "actions: there is no action alocate; known are allocate, backfill, enqueue"),
        ("actions: 'allocate, allocate'", "actions: allocate stands there twice"),
        ("actions: allocate\nteirs: []", "teirs: extra inputs"),
        (plugin("name: gagn"), "tiers[0].plugins[0].name: there is no plugin gagn"),
        (plugin("nam: gang"), "tiers[0].plugins[0].name: field required"),
        (plugin("name: gang\n    enableJobRedy: true"), "tiers[0].plugins[0].enableJobRedy: there is no such flag"),
        (plugin("name: gang\n    enableJobReady: perhaps"), "enableJobReady: 'perhaps' is neither true nor false"),
        (plugin("name: gang\n    arguments: {size: 3}"), "arguments.size: extra inputs are not permitted (plugin gang)"),
        (
            plugin("name: overcommit\n    arguments: {overcommit-factor: -1}"),
            "tiers[0].plugins[0].arguments.overcommit-factor: input should be greater than 0 (plugin overcommit)",
        ),
        (plugin("name: gang\n  - name: gang"), "plugin gang stands there twice"),
        (plugin("name: proportion\n  - name: drf\n    enableHierarchy: true"), "proportion and drf with enableHierarchy"),
        ("actions: allocate\nconfigurations: [{name: allocat}]", "configurations[0].name: there is no action allocat"),
        (
            "actions: allocate\nconfigurations: [{name: allocate, arguments: {speed: 1}}]",
            "configurations[0].arguments.speed: action allocate has no such argument",
        ),
        ("actions: " + "[" * 5000, "the text: 5000 brackets"),
        ("actions: " + "[" * 400, "no YAML"),
        ("#" * 70000, "the text: 70000 characters"),
        ("actions: 2026-99-99", "no YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    assert said in refused(text)


def test_arguments_about_how_room_is_looked_for_are_told_by_name_as_without_effect() -> None:
    """Upstream's own tests switch the first one on: what it is for always holds."""
    names = ["enableTopologyAwarePreemption", "topologyAwarePreemptWorkerNum", "minCandidateNodesPercentage"]
    names += ["minCandidateNodesAbsolute", "maxCandidateNodesAbsolute", "predicateErrorCacheEnable"]
    arguments = ", ".join(f"{name}: 1" for name in names)
    found = parse(f"actions: preempt\nconfigurations: [{{name: preempt, arguments: {{{arguments}}}}}]", known=BUILT_IN.known)
    for name in names:
        assert any(f"configurations[0].arguments.{name}: changes nothing here" in note for note in found.notes)


def test_an_own_action_judges_its_arguments_itself() -> None:
    known = Known(plugins=KNOWN.plugins, actions=KNOWN.actions | {"tidy"})
    found = parse("actions: 'allocate, tidy'\nconfigurations: [{name: tidy, arguments: {every: 5m}}]", known=known)
    assert found.arguments == {"tidy": {"every": "5m"}}


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = refused(plugin("name: gagn\n  - name: gang\n    enableX: true") + "configurations: [{name: y}]\n")
    assert "gagn" in said
    assert "enableX" in said
    assert "no action y" in said


@given(some.text(max_size=200))
def test_no_text_is_anything_but_a_configuration_or_a_refusal(text: str) -> None:
    try:
        assert read(text).actions
    except BadConfiguration as error:
        assert str(error)


# --- which one holds -------------------------------------------------------------------------------------------------


def profile(*sources: str) -> Profile:
    return Profile(sources, known=KNOWN, default=DEFAULT)


def test_a_bad_text_keeps_the_last_good_one_and_the_trouble_is_told_until_it_is_mended() -> None:
    held = profile("file")
    assert actions(held) == ("enqueue", "allocate")
    assert held.offer("file", "actions: allocate")
    assert not held.offer("file", "actions: alocate")
    assert actions(held) == ("allocate",)
    assert "alocate" in held.troubles["file"]
    assert held.offer("file", "actions: backfill")
    assert held.troubles == {}


def test_the_first_source_that_has_a_good_one_wins_and_gives_way_when_it_goes() -> None:
    held = profile("file", "map")
    held.offer("map", "actions: backfill")
    held.offer("file", "actions: nonsense")
    assert (held.source, actions(held)) == ("map", ("backfill",))
    held.offer("file", "actions: allocate")
    assert (held.source, actions(held)) == ("file", ("allocate",))
    held.offer("file", None)
    assert held.source == "map"
    assert held.offer("map", None)
    assert (held.source, actions(held)) == ("", ("enqueue", "allocate"))


Story = Callable[[World, ProfileKeeper, list[str]], Awaitable[None]]


async def settle() -> None:
    """Informers tell a moment after the API server has changed."""
    await asyncio.sleep(1)


def actions(held: Profile) -> tuple[str, ...]:
    return held.current.actions


def keep(story: Story, *, file: Path | None = None) -> None:
    """A keeper on a simulated API server; `story(world, keeper, times)` is told how often another configuration held."""

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        member = Member(nodes=uniform("node", 1, cpu="1"), settings={})
        async with World(1, members={"east": member}, programs=Programs()) as world:
            port = world.client("east")
            informers = Informers(port, clock, chance)
            times: list[str] = []
            keeper = ProfileKeeper(
                known=KNOWN,
                informers=informers,
                clock=clock,
                changed=lambda: times.append(keeper.profile.source),
                file=file,
            )
            tasks = [asyncio.ensure_future(informers.run()), asyncio.ensure_future(keeper.run())]
            try:
                await informers.wait_synced()
                await story(world, keeper, times)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main, seed=1)


@pytest.mark.parametrize("where", PLACES, ids=str)
def test_a_config_map_is_followed_live(where: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World, keeper: ProfileKeeper, times: list[str]) -> None:
        port = world.client("east")
        meta = {"name": where.name, "namespace": where.namespace}
        with contextlib.suppress(errors.AlreadyExists):
            await port.create(kinds.NAMESPACE, {"metadata": {"name": where.namespace}})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {where.key: "actions: allocate"}}
        await port.create(kinds.CONFIGMAP, body, namespace=where.namespace)
        await settle()
        assert actions(keeper.profile) == ("allocate",)

        async def say(text: str) -> None:
            patch = {"data": {where.key: text}}
            await port.patch(kinds.CONFIGMAP, where.name, patch, type=PatchType.MERGE, namespace=where.namespace)

        await say("actions: sleep")
        await settle()
        assert str(where) in keeper.profile.troubles
        assert actions(keeper.profile) == ("allocate",)
        await say("actions: 'allocate, gangpreempt'")
        await settle()
        assert not keeper.profile.troubles
        await port.delete(kinds.CONFIGMAP, where.name, namespace=where.namespace)
        await settle()
        assert keeper.profile.source == ""
        assert times == [str(where), str(where), ""]

    with caplog.at_level(logging.INFO, logger="member_agent.scheduling.profile"):
        keep(story)
    assert "there is no action sleep" in caplog.text
    assert "action gangpreempt is not there yet" in caplog.text


def test_a_file_is_followed_live_through_bad_bytes_and_its_end(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"

    async def story(world: World, keeper: ProfileKeeper, times: list[str]) -> None:
        async def wait() -> None:
            await asyncio.sleep(FILE_EVERY * 1.5)

        await wait()
        assert keeper.profile.source == ""
        file.write_text("actions: allocate")
        await wait()
        assert actions(keeper.profile) == ("allocate",)
        file.write_bytes(b"\xff\xfe\xfa")
        await wait()
        assert "cannot be read" in keeper.profile.troubles[str(file)]
        assert actions(keeper.profile) == ("allocate",)
        file.write_text("actions: 'backfill, allocate'")
        await wait()
        assert actions(keeper.profile) == ("backfill", "allocate")
        assert keeper.profile.troubles == {}
        file.unlink()
        await wait()
        assert keeper.profile.source == ""
        assert len(times) == 3

    keep(story, file=file)
