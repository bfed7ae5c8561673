"""The tree of queues as it is published: what each uses with the queues under it, and the most it may reach. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apis import keys
from apis.capacity import CapacityStatus, QueueUse
from apis.vectors import ResourceVector
from member_agent.reporting.nodes import changed
from member_agent.views import QueueView
from policies.shares import Limit, QueueShare, limits, lineage

Amounts = Mapping[str, int]


def tree(
    queues: Sequence[QueueView],
    *,
    held: Mapping[str, Amounts] | None,
    admitted: Mapping[str, ResourceVector],
    available: ResourceVector,
) -> tuple[QueueUse, ...]:
    """All queues by name. `held`: what pods of each queue itself hold; None: what its status says, which counts those under it.
    `admitted`: by queue, accepted and not bound. `available`: what the nodes have."""
    views = {queue.name: queue for queue in queues}
    shares = {name: _share(queue) for name, queue in views.items()}
    found = limits(available, shares)
    above = {name: lineage(name, shares) for name in {*views, *admitted, *(held or ())}}
    waits = _raised(admitted, above)
    holds = {name: dict(queue.allocated) for name, queue in views.items()} if held is None else _raised(held, above)
    return tuple(
        QueueUse(
            name=name,
            parent=queue.parent,
            state=queue.state or "Open",
            allocated=dict(sorted(holds.get(name, {}).items())),
            admitted=dict(sorted(waits.get(name, {}).items())),
            guarantee=dict(queue.guarantee),
            real_capability=_most(queue, found[name], available),
        )
        for name, queue in sorted(views.items())
    )


def _share(queue: QueueView) -> QueueShare:
    parent = queue.parent or keys.ROOT_QUEUE
    return QueueShare(queue.name, parent=parent, guarantee=queue.guarantee, capability=queue.ceiling)


def _raised(alone: Mapping[str, Amounts], above: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """With what queues under each have."""
    found: dict[str, dict[str, int]] = {}
    for name, amounts in alone.items():
        for each in above[name]:
            sums = found.setdefault(each, {})
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + amount
    return found


def _most(queue: QueueView, limit: Limit, available: ResourceVector) -> dict[str, int] | None:
    """What bounds it beside the nodes; of a resource that no node has now, its own capability: nodes may come."""
    least = {name: limit.most.get(name) for name in available if limit.most.get(name) < available.get(name)}
    least |= {name: amount for name, amount in queue.ceiling.items() if name not in available}
    return dict(sorted(least.items())) or None


def moved(before: CapacityStatus, after: CapacityStatus, *, share: float) -> bool:
    """Whether a queue came, went, opened, closed, has another limit, or by this share more or less in use."""
    if [_frame(each) for each in before.queues] != [_frame(each) for each in after.queues]:
        return True
    return any(_used_moved(old, new, share=share) for old, new in zip(before.queues, after.queues, strict=True))


def _frame(use: QueueUse) -> tuple[object, ...]:
    return use.name, use.parent, use.state, use.guarantee, use.real_capability


def _used_moved(old: QueueUse, new: QueueUse, *, share: float) -> bool:
    """What is bound was admitted before: together they matter, and in the end only against the limit."""
    before, after = _used(old), _used(new)
    return any(changed(before.get(name), after.get(name), share=share) for name in {*before, *after})


def _used(use: QueueUse) -> ResourceVector:
    return ResourceVector(use.allocated) + ResourceVector(use.admitted)
