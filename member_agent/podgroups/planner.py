"""What is to be done for one family: its group made, refreshed or removed, and named on the pods that lack one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from member_agent.podgroups.families import Family
from member_agent.podgroups.owners import OwnerView
from member_agent.views import GroupView, PodView


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One family at one instant. `owner` is known for kinds that are watched (they can be scaled to nothing); `compared`: the
    digest of the owner that the group was last compared with. `made` and `named`: what was written and is not seen yet."""

    family: Family
    group: GroupView | None
    owner: OwnerView | None = None
    compared: str = ""
    made: bool = False
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """In this order: the group is removed, or made, or compared with its owner; then pods are told its name."""

    delete: GroupView | None = None
    create: bool = False
    compare: bool = False
    name: tuple[PodView, ...] = ()


def plan(snapshot: Snapshot) -> Plan:
    """Decide for one family."""
    family, group = snapshot.family, snapshot.group
    unnamed = tuple(pod for pod in family.waiting if pod.uid not in snapshot.named)
    if family.joins:
        return Plan(name=unnamed if family.settled else ())
    if snapshot.owner is not None and snapshot.owner.replicas == 0:
        mine = group is not None and not group.deleting and group.owner == family.head
        return Plan(delete=group if mine else None)
    if group is None and not snapshot.made:
        return Plan(create=True, name=unnamed) if family.live else Plan()
    if group is not None and group.deleting:
        return Plan()
    return Plan(compare=_outdated(snapshot), name=unnamed)


def _outdated(snapshot: Snapshot) -> bool:
    """The owner has changed since the group was made from it, or nobody remembers. Without a pod nothing is scheduled by it."""
    owner = snapshot.owner
    compared = owner is None or owner.digest == snapshot.compared
    return not compared and snapshot.group is not None and bool(snapshot.family.live)
