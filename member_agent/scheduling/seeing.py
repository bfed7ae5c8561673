"""Gangs as plugins see them: pods that a plugin tells apart have shapes of their own for as long as a session lasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from member_agent.aspects import Aspects, SeenShape, seen
from member_agent.scheduling.decisions import Binding
from member_agent.scheduling.plugins.tiers import Tiers
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape


class Sight:
    """What plugins see of the pods of one session; `bare` are the pods of whom they see more than the shape, as they are."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._shapes: dict[tuple[PodShape, Aspects], SeenShape] = {}
        self.bare: dict[str, PodView] = {}

    def of(self, gangs: Iterable[Waiting]) -> tuple[Waiting, ...]:
        """The gangs with pods of seen shapes; equal ones are one object."""
        return tuple(self._gang(gang) for gang in gangs)

    def bared(self, bindings: Sequence[Binding]) -> tuple[Binding, ...]:
        """The bindings, of the pods as they are."""
        if not self.bare:
            return tuple(bindings)
        return tuple(Binding(self.bare.get(each.pod.uid, each.pod), each.node) for each in bindings)

    def _gang(self, gang: Waiting) -> Waiting:
        pods = tuple(self._pod(gang, pod) for pod in gang.pods)
        return (
            gang
            if all(one is other for one, other in zip(pods, gang.pods, strict=True))
            else dataclasses.replace(gang, pods=pods)
        )

    def _pod(self, gang: Waiting, pod: PodView) -> PodView:
        aspects = self._tiers.aspects(gang, pod)
        if not aspects:
            return pod
        self.bare[pod.uid] = pod
        key = (pod.shape, aspects)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = seen(pod.shape, aspects)
        return dataclasses.replace(pod, shape=shape)
