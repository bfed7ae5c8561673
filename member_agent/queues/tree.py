"""The tree of queues, kept by deltas. Bad trees do no harm: a loop is cut where it closes, a missing parent is a dead end."""

from __future__ import annotations

from apis import keys
from member_agent.views import QueueView


class Tree:
    """Who hangs from whom. Root is the parent of whatever names none, and counts as there."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def changed(self, name: str, *, queue: QueueView | None) -> tuple[str, ...]:
        """Fold one change in; when it moved: itself, and the queues on the way up from where it was and where it is."""
        before = self._parents.get(name)
        after = None if queue is None else "" if name == keys.ROOT_QUEUE else (queue.parent or keys.ROOT_QUEUE)
        if before == after:
            return ()
        moved = dict.fromkeys([name, *self.lineage(name)])
        if before is not None:
            self._drop(before, name)
        if after is not None:
            self._parents[name] = after
            self._children.setdefault(after, set()).add(name)
        return tuple(moved | dict.fromkeys(self.lineage(name)))

    def _drop(self, parent: str, name: str) -> None:
        del self._parents[name]
        children = self._children[parent]
        children.discard(name)
        if not children:
            del self._children[parent]

    def __contains__(self, name: str) -> bool:
        return name in self._parents or name == keys.ROOT_QUEUE

    def parent(self, name: str) -> str:
        """The parent's name, "" for root and for a queue that is not there."""
        return self._parents.get(name, "")

    def children(self, name: str) -> tuple[str, ...]:
        """Queues directly under it, by name."""
        return tuple(sorted(self._children.get(name, ())))

    def lineage(self, name: str) -> list[str]:
        """The queue and its ancestors, up to root, a missing one, or where a loop closes."""
        path: dict[str, None] = {}
        while name and name not in path:
            path[name] = None
            name = self.parent(name)
        return list(path)

    def under(self, name: str) -> list[str]:
        """The queue and all below it."""
        found: dict[str, None] = {}
        ahead = [name]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found[each] = None
                ahead.extend(self.children(each))
        return list(found)

    def loops(self, name: str) -> bool:
        """Whether the queue is its own ancestor."""
        return self.parent(self.lineage(name)[-1]) == name
