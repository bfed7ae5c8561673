"""Which pods share a group: an index of pods without a group of their own making, kept by the deltas of the informer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from machinery.informer import Change, Key
from member_agent.views import PodView

PREFIX: Final = "podgroup-"


def group_name(uid: str) -> str:
    """Name of the group of an owner, or of a bare pod, with this UID."""
    return PREFIX + uid


def head_of_group(name: str) -> str:
    """UID of the owner whose group has this name; "" for any other name."""
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""


@dataclass(frozen=True, slots=True)
class Family:
    """The pods under one head. `name`: the group they share; `joins`: it is the group of the pod that owns them, which has
    been written on that pod if `settled`. `waiting` lack a group; `live` have not ended, by name, and count on this one."""

    key: Key
    name: str
    joins: bool
    settled: bool
    waiting: tuple[PodView, ...]
    live: tuple[PodView, ...]

    @property
    def head(self) -> str:
        """UID of the owner, or of the bare pod."""
        return self.key[1]


@dataclass(slots=True)
class _Members:
    waiting: dict[str, PodView] = field(default_factory=dict)
    live: dict[str, PodView] = field(default_factory=dict)


class Families:
    """Pods of schedulers of these names by head: (namespace, UID of the controlling owner, of the pod itself where there is
    none)."""

    def __init__(self, *, scheduler: str | Collection[str]) -> None:
        self._names = frozenset((scheduler,) if isinstance(scheduler, str) else scheduler)
        self._pods: dict[str, PodView] = {}
        self._members: dict[Key, _Members] = {}

    def pod_changed(self, change: Change[PodView]) -> tuple[Key, ...]:
        """Fold one change in; the families to look at."""
        if change.old is not None:
            self._drop(change.old)
        pod = change.new
        if pod is None or not self._ours(pod):
            return ()
        self._pods[pod.uid] = pod
        key = _head(pod)
        if pod.ended or pod.deleting:
            return ()
        own = pod.group in ("", group_name(key[1]))
        if own:
            members = self._members.setdefault(key, _Members())
            members.live[pod.uid] = pod
            if not pod.group:
                members.waiting[pod.uid] = pod
        woken = [key] if not pod.group else []
        led = (pod.namespace, pod.uid)
        if pod.group and led in self._members and led not in woken:
            woken.append(led)  # pods that it owns wait for the group it has got
        return tuple(woken)

    def freeze(self, key: Key) -> Family:
        """The family under this head as it is now; it may have no pods."""
        members = self._members.get(key, _Members())
        leader = self._pods.get(key[1])
        name = self._name(key)
        joins = name != group_name(key[1])
        return Family(
            key=key,
            name=name,
            joins=joins,
            settled=leader is not None and bool(leader.group),
            waiting=_by_name(members.waiting),
            live=_by_name(members.live),
        )

    def _ours(self, pod: PodView) -> bool:
        """Pods of Jobs name their group and task from the first; pods of a run are the Job controller's in any case."""
        return pod.scheduler in self._names and not pod.run and not (pod.task and pod.group)

    def _name(self, key: Key) -> str:
        """Pods that a pod of ours owns (executors of a driver) share the group of that pod."""
        head = key[1]
        seen = {head}
        while (leader := self._pods.get(head)) is not None:
            if leader.group:
                return leader.group
            if not leader.owner or leader.owner in seen:
                break
            head = leader.owner
            seen.add(head)
        return group_name(head)

    def _drop(self, pod: PodView) -> None:
        self._pods.pop(pod.uid, None)
        key = _head(pod)
        members = self._members.get(key)
        if members is None:
            return
        members.waiting.pop(pod.uid, None)
        members.live.pop(pod.uid, None)
        if not members.live:
            del self._members[key]


def _head(pod: PodView) -> Key:
    return (pod.namespace, pod.owner or pod.uid)


def _by_name(pods: dict[str, PodView]) -> tuple[PodView, ...]:
    return tuple(sorted(pods.values(), key=lambda pod: pod.name))
