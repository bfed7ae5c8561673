"""Which objects are needed in which clusters, counted over all live runs and kept by changes of single runs. Pure.

The same as `policies.dependencies.companions` says of all of them at once, without looking at all of them for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from apis import keys, kinds
from policies.claims import Conflict
from policies.dependencies import Companion, Parent, Reference

Key = tuple[str, str]

_PROTECTED: Final = ("kube-", "karmada-")
_EVERYWHERE: Final = {
    kinds.NAMESPACE.kind: ("default", keys.SYSTEM_NAMESPACE),
    kinds.QUEUE.kind: (keys.DEFAULT_QUEUE, keys.ROOT_QUEUE),
    kinds.CONFIGMAP.kind: ("kube-root-ca.crt",),
}


def everywhere(reference: Reference) -> bool:
    """Whether every cluster has it of its own."""
    if reference.kind == kinds.NAMESPACE.kind and reference.name.startswith(_PROTECTED):
        return True
    return reference.name in _EVERYWHERE.get(reference.kind, ())


class _Need:
    """One object: how many runs need it by cluster, and how many of their policies want what."""

    __slots__ = ("conflicts", "preserves", "users")

    def __init__(self) -> None:
        self.users: Counter[str] = Counter()
        self.conflicts: Counter[bool] = Counter()
        self.preserves: Counter[bool] = Counter()

    def count(self, parent: Parent, *, by: int) -> None:
        for cluster in parent.clusters:
            self.users[cluster] += by
        self.conflicts[parent.policy.overwrites] += by
        self.preserves[bool(parent.policy.preserves)] += by

    def companion(self) -> Companion:
        overwrites, preserves = +self.conflicts, +self.preserves
        return Companion(
            users=dict(+self.users),
            conflict=Conflict.OVERWRITE if overwrites[True] else Conflict.ABORT,
            preserve=bool(preserves[True]),
            disagree=len(overwrites) > 1 or len(preserves) > 1,
        )


class Needs:
    """What every live run refers to, by the key of its binding."""

    def __init__(self) -> None:
        self._parents: dict[Key, Parent] = {}
        self._needs: dict[Reference, _Need] = {}

    def put(self, key: Key, parent: Parent | None) -> set[Reference]:
        """A run as it is now, None for one that needs nothing any more; the objects for which that makes a difference."""
        before = self._parents.pop(key, None)
        if parent is not None and parent.clusters:
            self._parents[key] = parent
        if before == parent:
            return set()
        old, new = set(_wanted(before)), set(_wanted(parent))
        was = {each: self.companion(each) for each in old | new}
        for reference in old:
            assert before is not None
            self._needs[reference].count(before, by=-1)
        for reference in new:
            assert parent is not None
            self._needs.setdefault(reference, _Need()).count(parent, by=1)
        for reference in old:
            if not +self._needs[reference].users:
                del self._needs[reference]
        return {each for each in was if _differ(was[each], self.companion(each))}

    def get(self, key: Key) -> Parent | None:
        """A run as it was last put."""
        return self._parents.get(key)

    def companion(self, reference: Reference) -> Companion | None:
        """Where an object goes, and how; None when no run needs it."""
        need = self._needs.get(reference)
        return need.companion() if need is not None else None

    def users(self, reference: Reference) -> list[Key]:
        """The runs that need it, in order."""
        return sorted(key for key, parent in self._parents.items() if reference in _wanted(parent))


def _differ(one: Companion | None, other: Companion | None) -> bool:
    """How many need it makes no difference, only whether anybody does."""
    if one is None or other is None:
        return one is not other
    return (one.clusters, one.conflict, one.preserve, one.disagree) != (
        other.clusters,
        other.conflict,
        other.preserve,
        other.disagree,
    )


def _wanted(parent: Parent | None) -> Iterable[Reference]:
    if parent is None or not parent.clusters:
        return ()
    asked = parent.references.asked if parent.policy.carries else ()
    return tuple(each for each in (*parent.references.always, *asked) if not everywhere(each))
