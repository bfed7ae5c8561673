"""Builders of claims, volumes, classes and limits, and of gangs that mount them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from machinery.informer import Change
from member_agent.scheduling.snapshot import Gangs
from member_agent.views.meta import Named
from member_agent.views.volumes import NO_PROVISIONER, AttachLimits, ClaimView, StorageClassView, VolumeView
from member_agent.volumes import Volumes
from policies.selectors import Requirement
from policies.volumes import Reach
from tests.member_agent.scheduling.build import Made

ONCE = ("ReadWriteOnce",)
SINGLE = ("ReadWriteOncePod",)


def on_host(*names: str) -> Reach:
    return ((Requirement("kubernetes.io/hostname", "In", names),),)


def in_zone(*names: str) -> Reach:
    return ((Requirement("zone", "In", names),),)


def claim(
    name: str, *, of: str = "local", size: int = 1, volume: str = "", modes: tuple[str, ...] = ONCE, **more: Any
) -> ClaimView:
    """Bound where it names a volume."""
    return ClaimView("ns", name, f"uid-{name}", "1", of, size, modes, volume=volume, bound=bool(volume), **more)


def volume(
    name: str, *, of: str = "local", size: int = 1, reach: Reach = (), modes: tuple[str, ...] = ONCE, **more: Any
) -> VolumeView:
    return VolumeView("", name, f"uid-{name}", "1", of, size, modes, reach=reach, phase="Available", **more)


def storage_class(
    name: str = "local", *, waits: bool = True, provisioner: str = NO_PROVISIONER, reach: Reach = ()
) -> StorageClassView:
    return StorageClassView("", name, f"uid-{name}", "1", waits, provisioner, reach)


def limit(node: str, **counts: int) -> AttachLimits:
    return AttachLimits("", node, f"uid-{node}", "1", tuple(sorted(counts.items())))


def feed(volumes: Volumes, stored: Iterable[Named]) -> None:
    """Tell of objects that came; from now on volumes are watched."""
    volumes.watched = True
    for each in stored:
        key = (each.namespace, each.name)
        if isinstance(each, ClaimView):
            volumes.claim_changed(Change(key, None, each))
        elif isinstance(each, VolumeView):
            volumes.volume_changed(Change(key, None, each))
        elif isinstance(each, StorageClassView):
            volumes.class_changed(Change(key, None, each))
        elif isinstance(each, AttachLimits):
            volumes.limits_changed(Change(key, None, each))


def stored(*objects: Named) -> Callable[[Gangs], None]:
    """These are in the cluster, and watched."""
    return lambda gangs: feed(gangs.volumes, objects)


def mounting(made: Made, *claims: str, each: str = "") -> Made:
    """The gang with claims that all its pods mount; `each`: one more for every pod, with its index at the end."""
    pods: Sequence[Any] = [
        dataclasses.replace(pod, claims=(*claims, *([f"{each}-{index}"] if each else [])))
        for index, pod in enumerate(made.pods)
    ]
    return dataclasses.replace(made, pods=tuple(pods))
