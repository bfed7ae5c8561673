"""What depends on who asks and on how much was asked before: rights to Queues and PriorityClasses, and limits of namespaces.

The rules of `reviews` come first; nobody is counted who is refused anyway. What API servers cannot be asked about is refused:
a right that nobody can confirm is none.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from apis import kinds
from controllers.admission.limits import JobRecord, Rate, Waiting, pending_problem, rate_problem, read_job
from controllers.admission.named import USE, Named, named
from controllers.admission.problems import Problem
from controllers.admission.reviews import Request, Verdict
from controllers.admission.settings import LimitSettings
from controllers.admission.webhooks import CREATE, Verb, Webhook
from machinery.authorization import Attributes, Subject, allowed
from machinery.clock import Clock
from machinery.errors import ApiError
from machinery.informer import Change, Informers
from machinery.port import Port

log = logging.getLogger(__name__)

MAKERS: Final = (kinds.JOB, kinds.CRON_JOB, kinds.JOB_FLOW, kinds.JOB_TEMPLATE)
REMEMBERED: Final = 4096
"""Rights that are remembered, the latest."""
HOLDS: Final = 10.0
"""Seconds that a right is remembered; a flood of Jobs is not a flood of questions, and a right that is taken away ends soon."""
FORBIDDEN: Final = (403, "Forbidden")
TOO_MANY: Final = (429, "TooManyRequests")
_OPEN: Final = Verdict()

_Right = tuple[str, tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...], str, str]


@dataclass(frozen=True, slots=True)
class DoorRules:
    """What is asked at the door. `trusted`: users who are not."""

    check_use: bool = False
    trusted: frozenset[str] = frozenset()
    limits: LimitSettings = LimitSettings()


class Door:
    """One for each replica. `informers`: where Jobs are read, if they are counted."""

    def __init__(self, port: Port, *, clock: Clock, rules: DoorRules, informers: Informers) -> None:
        self._port = port
        self._clock = clock
        self._rules = rules
        self._rights: OrderedDict[_Right, float] = OrderedDict()
        self._waiting = Waiting()
        self._jobs = informers.add(kinds.JOB, read_job) if rules.limits.pending_jobs is not None else None
        if self._jobs is not None:
            self._jobs.subscribe(self._job_changed)
        rate = rules.limits.jobs_per_minute
        self._rate = Rate(rate) if rate is not None else None

    @property
    def synced(self) -> bool:
        """Whether what is counted has been read."""
        return self._jobs is None or self._jobs.synced

    async def judge(self, request: Request, *, webhook: Webhook) -> Verdict:
        """Whether it may pass, for what the rules have let pass; counts it if it does."""
        if webhook.verb is not Verb.VALIDATE or request.new is None or request.user in self._rules.trusted:
            return _OPEN
        if self._rules.check_use and webhook.kind in MAKERS:
            problems = await self._unusable(request, named(webhook.kind, request.new, old=request.old))
            if problems:
                return Verdict(tuple(problems), code=FORBIDDEN[0], reason=FORBIDDEN[1])
        if webhook.kind == kinds.JOB and request.operation == CREATE:
            return self._counted(request)
        return _OPEN

    async def _unusable(self, request: Request, names: tuple[Named, ...]) -> list[Problem]:
        found = []
        for each in names:
            try:
                may = await self._may(request, each)
            except ApiError as error:
                log.warning(
                    "whether %s may use %s %s could not be found out: %s", request.user, each.kind.name, each.name, error
                )
                text = f"whether {request.user} may use {each.kind.kind} {each.name} could not be found out: submit it again"
                found.append(Problem(each.field, text))
                continue
            if not may:
                found.append(Problem(each.field, each.refused(user=request.user)))
        return found

    async def _may(self, request: Request, wanted: Named) -> bool:
        """Only what is allowed is remembered: who has just been given a right does not wait."""
        extra = tuple(sorted(request.extra.items()))
        right: _Right = (request.user, request.groups, extra, wanted.kind.name, wanted.name)
        now = self._clock.boot()
        if now - self._rights.get(right, float("-inf")) <= HOLDS:
            return True
        subject = Subject(request.user, request.groups, extra=request.extra)
        if not await allowed(self._port, subject, Attributes(USE, wanted.kind, wanted.name)):
            return False
        self._rights[right] = now
        self._rights.move_to_end(right)
        while len(self._rights) > REMEMBERED:
            self._rights.popitem(last=False)
        return True

    def _counted(self, request: Request) -> Verdict:
        limits, now, where = self._rules.limits, self._clock.boot(), request.namespace
        problems: list[Problem] = []
        if limits.pending_jobs is not None:
            problems += pending_problem(where, waiting=self._waiting.count(where, now=now), most=limits.pending_jobs)
        if self._rate is not None and limits.jobs_per_minute is not None:
            problems += rate_problem(where, wait=self._rate.wait(where, now=now), most=limits.jobs_per_minute)
        if problems:
            return Verdict(tuple(problems), code=TOO_MANY[0], reason=TOO_MANY[1])
        if not request.dry_run:
            if self._rate is not None:
                self._rate.spend(where, now=now)
            if self._jobs is not None:
                self._waiting.let_in(where, request.name, now=now)
        return _OPEN

    def _job_changed(self, change: Change[JobRecord]) -> None:
        self._waiting.changed(change)
