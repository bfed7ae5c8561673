"""What is installed beside the programs, by entry point.

Looking through everything that is installed takes tens of milliseconds; it does not change while a process runs, so that each
group is looked up once.
"""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def entry_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """The entry points of a group, by name; none of them is loaded."""
    return tuple(sorted(importlib.metadata.entry_points(group=group), key=lambda each: each.name))
