"""Nobody waits for ever to be let in: after its waiting time a group is, whatever room there is."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Ballot, Order, Plugin, Session, Vote
from member_agent.scheduling.snapshot import Waiting
from policies.durations import InvalidDuration, golang


class Arguments(BaseModel):
    """Of sla."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    waiting: Annotated[float, BeforeValidator(lambda value: golang(str(value)))] = Field(
        default=math.inf, gt=0, alias="sla-waiting-time", description="of groups that name none; by default for ever"
    )


class Sla(Plugin):
    """Groups by their deadline: when they came, and how long they may wait."""

    name = "sla"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._waiting = arguments.waiting

    def deadline(self, gang: Waiting) -> float:
        """Wall clock, seconds since the epoch; infinite where there is none. A time that is none counts as not given."""
        waiting = self._waiting
        with contextlib.suppress(InvalidDuration):
            waiting = golang(gang.group.waiting_time or "0") or waiting
        try:
            return datetime.datetime.fromisoformat(gang.created).timestamp() + waiting
        except ValueError:
            return math.inf

    def job_order(self, gang: Waiting) -> Order:
        return self.deadline(gang)

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        return Vote.PERMIT if self.deadline(gang) <= self.session.now else Vote.ABSTAIN

    def job_pipelined(self, gang: Waiting, *, placed: Mapping[str, int]) -> Ballot:
        return self.job_enqueueable(gang)

    def wakes(self) -> float:
        now = self.session.now
        return min((at for gang in self.session.gangs if (at := self.deadline(gang)) > now), default=math.inf)
