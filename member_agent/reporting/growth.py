"""Nodes that are not there yet: what groups of an autoscaler may still add, and whether that would do. Pure.

Who scales is none of our business and differs by provider: the groups are what the settings say, their nodes those that carry
the labels of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apis.capacity import CapacityStatus, Growable, NodeTaint
from apis.vectors import ResourceVector
from member_agent.settings import NodeGroup
from member_agent.views import NodeView
from policies import capacities, fit
from policies.shapes import Gang, Taint


def growable(groups: Iterable[NodeGroup], nodes: Iterable[NodeView]) -> tuple[Growable, ...]:
    """What each group may still add; nothing of one that is full."""
    listed = list(nodes)
    found = []
    for group in sorted(groups, key=lambda each: each.name):
        present = sum(group.labels.items() <= dict(node.labels).items() for node in listed)
        if present < group.most:
            found.append(
                Growable(
                    group=group.name,
                    nodes=group.most - present,
                    delay=group.delay,
                    labels=dict(sorted(group.labels.items())),
                    taints=tuple(sorted(NodeTaint(key, effect or "NoSchedule") for key, effect in map(_taint, group.taints))),
                    allocatable=dict(ResourceVector.from_quantities(group.allocatable)),
                )
            )
    return tuple(found)


def _taint(text: str) -> tuple[str, str]:
    key, _, effect = text.partition(":")
    return key, effect


def wait(gang: Gang, status: CapacityStatus) -> int | None:
    """Seconds until enough nodes of groups could be there for the minimum of a gang; None where growing does not help or only
    the scheduler could tell."""
    if gang.unknown:
        return None
    rows = capacities.rows_of(status.nodes)
    for delay in sorted({each.delay for each in status.growable}):
        more = [each for each in status.growable if each.delay <= delay]
        if fit.pack(fit.Room(_grown(rows, more)), gang).answer is fit.Answer.FITS:
            return delay
    return None


def _grown(rows: fit.Rows, more: Sequence[Growable]) -> fit.Rows:
    """With the new nodes, all of them empty."""
    classes, listed = list(rows.classes), []
    for kind, free, count in zip(rows.kind.tolist(), rows.free.tolist(), rows.count.tolist(), strict=True):
        listed.append((kind, ResourceVector(zip(rows.resources, free, strict=True)), count))
    for each in more:
        taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in each.taints)
        size = ResourceVector(each.allocatable)
        classes.append(fit.NodeClass(each.group, each.labels, taints, size))
        listed.append((len(classes) - 1, size, each.nodes))
    return fit.rows(classes, listed)
