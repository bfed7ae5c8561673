"""Promise 7: same snapshot, same decision, byte for byte."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys

from simulator.store import Change
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import job, phase, queue

JOBS = [f"job-{number:02d}" for number in range(10)]
PODS = {f"default/{name}": 3 for name in JOBS}


def decisions() -> list[bytes]:
    """Every version of every object that the hub's API server had in a crowded minute, as bytes."""
    found: list[bytes] = []

    def note(change: Change) -> None:
        if change.new is not None:
            found.append(change.new.raw)

    async def story(world: World) -> None:
        world.servers["hub"].listeners.append(note)
        await world.apply([queue("lab", weight=3, capability={"cpu": "9"}), queue("mine", weight=1, parent="lab")])
        halves = ("mine", "default")
        await world.apply([job(name, pods=3, cpu="700m", runs_for=6, queue=halves[n % 2]) for n, name in enumerate(JOBS)])
        await world.until(lambda: all(phase(world, name) == "Completed" for name in JOBS), timeout=300)

    play(story, pods=PODS, cpus={"north": 3, "east": 3, "west": 3})
    return found


def digest() -> str:
    """Of all decisions."""
    return hashlib.sha256(b"\n".join(once())).hexdigest()


@functools.cache
def once() -> list[bytes]:
    """The decisions of a first time."""
    return decisions()


def test_the_same_world_is_decided_the_same_way_twice() -> None:
    assert decisions() == once()


def test_no_decision_depends_on_the_order_of_hashes() -> None:
    """Another process with another hash seed, where sets and dictionaries of text would iterate otherwise."""
    script = f"from {__name__} import digest; print(digest())"
    other = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == digest()
