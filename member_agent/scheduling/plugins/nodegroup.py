"""Queues keep to groups of nodes: some they must have, some they would rather have, some they must or would rather avoid."""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from member_agent.aspects import aspect
from member_agent.room import Columns, Layout, Mask, Scores
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Plugin, Session
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from member_agent.views.queues import ANY_GROUP, NodeGroups
from policies.shapes import PodShape

LABEL: Final = "volcano.sh/nodegroup-name"
"""Label of a node: the group it belongs to."""
REQUIRED: Final = 100.0
PREFERRED: Final = 50.0
AVOIDED: Final = -1.0


class Arguments(BaseModel):
    """Of nodegroup."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    strict: bool = Field(default=True, description="nodes without a group take nobody; else queues that name no group")
    in_order: bool = Field(
        default=False, alias="enablePreferredOrder", description="of preferred groups the first is the best, not all alike"
    )


class NodeGroup(Plugin):
    """By `spec.affinity` of the queue; with enableHierarchy a queue that says nothing has what is said next above it."""

    name = "nodegroup"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._strict = arguments.strict
        self._in_order = arguments.in_order
        self._deep = Hook.HIERARCHY in hooks

    def aspect(self, gang: Waiting, *, pod: PodView) -> NodeGroups:
        return self.groups(gang.group.queue)

    def groups(self, queue: str) -> NodeGroups:
        """What holds for a queue."""
        for name in self.session.lineage(queue) if self._deep else (queue,):
            found = self.session.queues.get(name)
            if found is not None and found.node_groups is not None:
                return found.node_groups
        return ANY_GROUP

    def local(self, shape: PodShape) -> bool:
        return True

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        wanted = _wanted(shape)
        by_class = np.array([self._accepts(name, wanted) for name in _names(layout)], dtype=np.bool_)
        found: Mask = by_class[layout.class_of] if len(by_class) else np.zeros(0, dtype=np.bool_)
        return found

    def _accepts(self, group: str | None, wanted: NodeGroups) -> bool:
        if group is None:
            return not self._strict and wanted == ANY_GROUP
        if group in wanted.rather_not:
            return True
        return group not in wanted.never and (group in wanted.required or group in wanted.preferred)

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        wanted = _wanted(shape)
        by_class = np.array([self._score(name, wanted) for name in _names(columns.layout)], dtype=np.float64)
        found: Scores = by_class[columns.layout.class_of[columns.rows]] if len(by_class) else np.zeros(len(columns.rows))
        return found

    def _score(self, group: str | None, wanted: NodeGroups) -> float:
        if group in wanted.rather_not:
            return AVOIDED
        score = REQUIRED if group in wanted.required else 0.0
        if group in wanted.preferred:
            behind = wanted.preferred.index(group) if self._in_order else 0
            score += PREFERRED * (1 - behind / len(wanted.preferred))
        return score


def _wanted(shape: PodShape) -> NodeGroups:
    found = aspect(shape, of=NodeGroup.name)
    return found if isinstance(found, NodeGroups) else ANY_GROUP


def _names(layout: Layout) -> list[str | None]:
    """The group of every class of nodes; None for those without one."""
    return [next((value for key, value in each.labels if key == LABEL), None) for each in layout.classes]
