"""Where a pod may run at all: labels and names of nodes, taints, host ports, the pods around."""

from __future__ import annotations

import dataclasses
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from member_agent.aspects import plain
from member_agent.grouping import Company
from member_agent.room import Amounts, Columns, Layout, Mask
from member_agent.scheduling.companions import company
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from policies.shapes import PodShape, Toleration

ANYTHING: Final = (Toleration(operator="Exists"),)


class Arguments(BaseModel):
    """Of predicates: every filter may be switched off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_affinity: bool = Field(default=True, alias="predicate.NodeAffinityEnable")
    node_ports: bool = Field(default=True, alias="predicate.NodePortsEnable")
    taints: bool = Field(default=True, alias="predicate.TaintTolerationEnable")
    pod_affinity: bool = Field(default=True, alias="predicate.PodAffinityEnable")
    spread: bool = Field(default=True, alias="predicate.PodTopologySpreadEnable")
    volume_limits: bool = Field(default=True, alias="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = Field(default=True, alias="predicate.VolumeZoneEnable")
    volume_binding: bool = Field(default=True, alias="predicate.VolumeBindingEnable")
    cache: bool = Field(default=True, alias="predicate.CacheEnable", description="answers are kept anyway")


class Predicates(Plugin):
    """Selectors and required affinity, taints and tolerations, host ports, affinity to pods, topology spread, volumes."""

    name = "predicates"
    arguments = Arguments
    later = frozenset({"predicate.DynamicResourceAllocationEnable"})

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._on = arguments

    def local(self, shape: PodShape) -> bool:
        return True

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        shape = plain(shape)  # answers are kept by it for as long as the layout, longer than what other plugins see
        if shape.minds_others:
            shape = dataclasses.replace(shape, neighbours=None, seen=(), volumes=None)
        if not self._on.node_affinity:
            shape = dataclasses.replace(shape, node_selector=(), node_affinity=())
        if not self._on.taints:
            shape = dataclasses.replace(shape, tolerations=ANYTHING)
        return layout.admits(shape)

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        return None if shape.one_per_node else frozenset()

    def limits(self, columns: Columns, shape: PodShape) -> Amounts | None:
        if shape.one_per_node and self._on.node_ports:
            return self.session.room.alone(shape, columns.rows)
        return None

    def company(self, shape: PodShape) -> Company | None:
        if not shape.minds_others:
            return None
        on = self._on
        pods = company(shape, self.session.surroundings, affinity=on.pod_affinity, spread=on.spread)
        volumes = self.session.stock.company(shape, binding=on.volume_binding, zones=on.volume_zone, limits=on.volume_limits)
        if pods is None or volumes is None:
            return pods or volumes
        return Company(pods.shut + volumes.shut, alone=pods.alone, groups=pods.groups + volumes.groups)
