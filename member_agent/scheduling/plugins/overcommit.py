"""Lets groups in while their minimum could still come true: a little more than is free, because work ends."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from apis import keys
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.plugins.protocol import Ballot, Plugin, Session, Vote
from member_agent.scheduling.quantities import plain
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from policies.shares import beyond


class Arguments(BaseModel):
    """Of overcommit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    factor: float = Field(default=1.2, ge=1, allow_inf_nan=False, alias="overcommit-factor", description="times the cluster")


class Overcommit(Plugin):
    """Minimum resources of all groups that were let in, within the cluster times a factor."""

    name = "overcommit"
    arguments = Arguments

    def __init__(self, arguments: Arguments, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        super().__init__(arguments, session=session, hooks=hooks)
        self._factor = arguments.factor

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        wanted, session = plain(gang.group.min_resources), self.session
        promised = session.promised(keys.ROOT_QUEUE)
        missing = beyond(wanted, promised=promised, used=session.used, available=session.total, factor=self._factor)
        if not missing:
            return Vote.PERMIT
        text = f"the gang asks for {wanted}; of the cluster times {self._factor:g} {missing} is missing"
        return Reason("NotEnoughResources", text)
