"""What every test stands on."""

from __future__ import annotations

import asyncio
import gc
import os

import pytest
from hypothesis import settings

# The virtual-time plugin asks for the current event loop before every test, also before those that need none; asyncio would
# then make one that nobody closes, and a later test would fail for the leak. With "no loop" said once, it asks in vain.
asyncio.set_event_loop(None)

# A loaded machine is slow, not wrong: examples have no deadline of their own, pytest-timeout watches over the whole test.
# The same examples every time: a law that fails here fails everywhere, and `make long` draws new ones.
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile("long" if os.environ.get("VF_LONG") else "house")


STAGES = ("play", "run_virtual", "live")
"""What modules import that run whole programs on virtual time."""
UNIT = ("simulation", "scenarios", "promises", "simulator")
"""Of those, packages that `make unit` runs all the same."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark stories, so that `make unit` stays short while a part is being written; `make test` runs everything."""
    for item in items:
        module = getattr(item, "module", None)
        package = module.__name__.split(".")[1] if module is not None and module.__name__.startswith("tests.") else ""
        if package and package not in UNIT and any(hasattr(module, name) for name in STAGES):
            item.add_marker("story")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not walk all of it every few hundred allocations,
    which takes a quarter of the time of a simulated world."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
