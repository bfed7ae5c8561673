"""Judges groups that want to be let in, and keeps for the first one that waits what it needs, so that nothing that passes it
delays it.

Kept is an amount: of the cluster for the first group that finds too little there, of a queue for the first that its limit
keeps out. Who comes behind is let in beside it. Nothing is kept for a group that the empty cluster, or its empty queue, could
not hold. As long as pods of a gang that was let in are being made, nobody is let in beyond what there is: its room would be
taken from under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from apis import keys
from member_agent.scheduling.decisions import NO_ROOM
from member_agent.scheduling.plugins.sentences import QUEUE_FULL
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import GroupView
from policies.shares import beyond


@dataclass(frozen=True, slots=True)
class _Kept:
    gang: Waiting
    of_all: bool
    """Of the cluster; else of its queue alone."""


class Door:
    """The door of one session; `keeps`: whether anything is kept."""

    def __init__(self, session: OpenSession, *, keeps: bool) -> None:
        self._session = session
        self._keeps = keeps
        self._kept: list[_Kept] = []
        self._beyond = session.configuration.choice("overcommit") is not None
        """Whether groups are let in beyond what there is."""
        self._making = next((group for group, _ in session.unmade if group.min_member > 1), None)
        self._seen = 0

    def judge(self, gang: Waiting) -> Reason | None:
        """Why it waits; None lets it in."""
        if not gang.group.min_resources:
            return None
        reason = self._session.tiers.job_enqueueable(gang)
        if reason is None:
            return self._before_its_pods(gang) if self._keeps and self._beyond else None
        if not self._kept:
            self._keep(gang, reason)
            return reason
        with self._alone():
            alone = self._session.tiers.job_enqueueable(gang)
        if alone is None:
            first = self._kept[0].gang
            return Reason("RoomKept", f"{reason.sentence}; what {first.group.name} needs is kept for it, which waits before")
        self._keep(gang, alone)
        return alone

    def _before_its_pods(self, gang: Waiting) -> Reason | None:
        """Room of a gang whose pods are being made that this one might take."""
        session, making = self._session, self._in_the_making()
        if making is None:
            return None
        asked, promised = plain(gang.group.min_resources), session.promised(keys.ROOT_QUEUE)
        missing = beyond(asked, promised=promised, used=session.used, available=session.total, factor=1.0)
        if not missing:
            return None
        text = f"the gang asks for {asked}, of which {missing} is kept for {making.name}, whose pods are being made"
        return Reason("RoomKept", text)

    def _in_the_making(self) -> GroupView | None:
        """The first gang that was let in and has fewer pods than its minimum."""
        while self._making is None and self._seen < len(self._session.let_in_now):
            each = self._session.let_in_now[self._seen]
            self._seen += 1
            if each.group.min_member > max(each.tally.pods, 1):
                self._making = each.group
        return self._making

    def close(self) -> None:
        """Take what is kept out of the books: nodes are given without it."""
        self._enter(-1)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """As if nothing were kept."""
        self._enter(-1)
        try:
            yield
        finally:
            self._enter(1)

    def _enter(self, times: int) -> None:
        for each in self._kept:
            self._book(each, times)

    def _book(self, kept: _Kept, times: int) -> None:
        group = kept.gang.group
        self._session.promise(group.queue, plain(group.min_resources), times=times, of_all=kept.of_all)

    def _keep(self, gang: Waiting, reason: Reason) -> None:
        if not self._keeps or reason.code not in (NO_ROOM, QUEUE_FULL):
            return
        of_all = reason.code == NO_ROOM
        same = [each for each in self._kept if each.of_all == of_all]
        if any(of_all or each.gang.group.queue == gang.group.queue for each in same):
            return
        if self._possible(gang, of_all=of_all):
            kept = _Kept(gang, of_all)
            self._kept.append(kept)
            self._book(kept, 1)

    def _possible(self, gang: Waiting, *, of_all: bool) -> bool:
        """Whether the empty cluster, or its empty queue, could hold it."""
        session, asked = self._session, plain(gang.group.min_resources)
        if not all(session.total.get(name) >= amount for name, amount in asked.items()):
            return False
        if of_all:
            return True
        queue = gang.group.queue
        promised = dict(session.promised(queue, alone=True))
        session.promise(queue, promised, times=-1, of_all=False)
        try:
            with session.emptied(queue):
                reason = session.tiers.job_enqueueable(gang)
        finally:
            session.promise(queue, promised, times=1, of_all=False)
        return reason is None or reason.code != QUEUE_FULL
