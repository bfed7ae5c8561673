"""What is to be made for a Job, as values: one pod, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One pod to make: its task by name, its index over all clusters, its name."""

    task: str
    index: int
    name: str
