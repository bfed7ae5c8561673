"""Lets groups in: queue by queue, the first group first, while the plugins agree."""

from __future__ import annotations

from collections.abc import Iterator

from member_agent.scheduling.actions.door import Door
from member_agent.scheduling.lanes import Lanes
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession, ordered
from member_agent.scheduling.snapshot import Waiting


def enqueue(session: OpenSession) -> Iterator[None]:
    """Groups that are Pending; those that the hub admitted never are candidates."""
    queues: dict[str, Lanes] = {}
    for gang in session.candidates:
        name = gang.group.queue
        lanes = queues.get(name)
        if lanes is None:
            lanes = queues[name] = session.lanes(name, promised=True)
        lanes.push((session.tiers.job_order(gang), gang), namespace=gang.group.namespace)
    stopped: dict[str, Waiting] = {}
    door = Door(session, keeps="backfill" in session.configuration.actions)
    for gang in ordered(queues, order=session.order_at_the_door):
        yield
        reason = session.closed(gang) or _behind(gang, stopped) or door.judge(gang)
        if reason is None:
            session.admit(gang)
            continue
        session.refuse(gang, reason)
        queue = session.queues.get(gang.group.queue)
        if queue is not None and queue.fifo:
            stopped.setdefault(queue.name, gang)
    door.close()


def _behind(gang: Waiting, stopped: dict[str, Waiting]) -> Reason | None:
    return behind(gang, stopped.get(gang.group.queue))


def behind(gang: Waiting, first: Waiting | None) -> Reason | None:
    """In a queue that is first in, first out nobody passes the first that waits."""
    if first is None:
        return None
    return Reason("NotFirst", f"queue {gang.group.queue} is first in, first out: {first.group.name} waits before it")
