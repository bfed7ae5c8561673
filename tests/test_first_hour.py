"""docs/first-hour.md, command by command, as it is written there: on a hub and three members in memory, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
import typer

from fedctl import desk, doors
from fedctl.app import app
from fedctl.light import Chosen
from machinery.clock import Clock
from simulator.nodes import uniform
from simulator.world import Member, World
from tests.support.stage import play

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
SAVED = re.compile(r"Save this as `([\w.-]+)`:\n\n```yaml\n(.*?)```", flags=re.DOTALL)
STEP = re.compile(r"^## (\d\. .+?)$(.*?)(?=^## |\Z)", flags=re.MULTILINE | re.DOTALL)
BETWEEN = 5.0
"""Seconds that people take between two commands."""


class HandedOver(Exception):
    """What a command would run, for whoever has a loop already."""

    def __init__(self, work: Coroutine[Any, Any, int]) -> None:
        super().__init__()
        self.work = work


def hand_over(work: Coroutine[Any, Any, int]) -> int:
    raise HandedOver(work)


class Shell:
    """A person's shell whose kubeconfig leads to the hub of a world; `folder` is where files are saved."""

    def __init__(self, world: World, *, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._app, self._folder = typer.main.get_command(app), folder

        @contextlib.asynccontextmanager
        async def opened(*_: object) -> AsyncIterator[Any]:
            yield world.client()

        def clock() -> Clock:
            return world.clock

        patch.setattr(desk, "choose", lambda *_: Chosen(folder / "config", "hub", {}, {}, "default"))
        patch.setattr(desk, "opened", opened)
        patch.setattr(doors, "opened", opened)
        patch.setattr(doors, "SystemClock", clock)
        patch.setattr("machinery.clock.SystemClock", clock)
        patch.setattr(asyncio, "run", hand_over)
        patch.setenv("COLUMNS", "200")

    async def run(self, command: str) -> int:
        """The exit code of a line of the page."""
        program, *words = shlex.split(command)
        assert program == "fedctl"
        found = [str(self._folder / word) if (self._folder / word).exists() else word for word in words]
        try:
            done = self._app.main(found, standalone_mode=False)
        except HandedOver as handed:
            return await handed.work
        return int(done or 0)


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ (fedctl .+)$", text, flags=re.MULTILINE)


def test_the_first_hour_goes_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name, text in SAVED.findall(PAGE):
        (tmp_path / name).write_text(text)
    said: dict[str, str] = {}
    took: dict[str, float] = {}

    async def hour(world: World) -> None:
        shell = Shell(world, folder=tmp_path, patch=monkeypatch)
        for title, text in STEP.findall(PAGE):
            took[title] = 0.0
            for command in commands(text):
                began = world.clock.boot()
                code = await shell.run(command)
                said[command] = capsys.readouterr().out
                assert code == 0, f"{command}: {code}\n{said[command]}"
                took[title] += world.clock.boot() - began
                await world.clock.sleep(BETWEEN)

    members = {name: Member(nodes=uniform(name, 2, cpu="4")) for name in ("east", "west", "north")}
    pods = {"default/hello": 2, "default/modest": 4}
    with monkeypatch.context():
        play(hour, members=members, pods=pods)
    with capsys.disabled():
        for title, seconds in took.items():
            print(f"\n{title}: {seconds:.1f} s of virtual time in commands", end="")  # the time of each step
    assert len(took) == 6
    assert all(name in said["fedctl cluster get"] for name in members)
    assert "Completed" in said["fedctl describe job/hello"]
    assert "short of cpu" in said["fedctl explain job/greedy"]
    assert re.search(r"modest\s+Running", said["fedctl get jobs"])
    assert said["fedctl flow describe quickstart"].count("Completed") == 6
