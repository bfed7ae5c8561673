"""Groups are let in only while the quotas of their namespace leave room for their pods: else those could not even be made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from apis.vectors import MILLI, spoken
from member_agent.scheduling.plugins.protocol import Ballot, Plugin, Vote
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import GroupView
from member_agent.views.quotas import PRIORITY_CLASS, QuotaView, Scope

COMPUTE: Final = ("cpu", "memory")
QUOTA_FORMS: Final = ("requests.", "limits.", "count/", "pods")
"""How names begin that quotas have for themselves."""


class ResourceQuota(Plugin):
    """What a group's minimum asks for, within every quota that counts its pods. Groups that were let in a moment ago count as
    long as their pods do not exist; then the quota's own status counts them."""

    name = "resourcequota"

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        for quota in self.session.quotas.get(gang.group.namespace, ()):
            if not counts(quota, gang.group):
                continue
            over = self._over(quota, gang.group)
            if over:
                return Reason("QuotaExceeded", f"quota {quota.name} of namespace {quota.namespace} is at {', '.join(over)}")
        return Vote.PERMIT

    def _over(self, quota: QuotaView, group: GroupView) -> list[str]:
        """Resources of which too little is left, as `cpu 3 of 4: 2 asked for`."""
        asked = asks(group)
        taken: dict[str, int] = {}
        for amounts in self._promised(quota):
            for name, amount in amounts.items():
                taken[name] = taken.get(name, 0) + amount
        return [
            f"{name} {spoken(name, milli=quota.used.get(name) + taken.get(name, 0))} of "
            f"{spoken(name, milli=quota.hard.get(name))}: {spoken(name, milli=amount)} asked for"
            for name in sorted(quota.named)
            if (amount := asked.get(name, 0)) and amount > quota.left(name) - taken.get(name, 0)
        ]

    def _promised(self, quota: QuotaView) -> Iterator[Mapping[str, int]]:
        """What pods will ask of the quota that do not exist yet."""
        for gang in self.session.let_in_now:
            if gang.group.namespace == quota.namespace and not gang.tally.pods and counts(quota, gang.group):
                yield asks(gang.group)
        for group, missing in self.session.unmade:
            if group.namespace == quota.namespace and counts(quota, group):
                yield {name: amount * missing // max(group.min_member, 1) for name, amount in asks(group).items()}


def asks(group: GroupView) -> dict[str, int]:
    """The minimum of a group as quotas count it: a plain name stands for the request of that name, each pod for one."""
    pods = group.min_member * MILLI
    given = dict(group.min_resources)
    plain = {f"requests.{name}": amount for name, amount in given.items() if not name.startswith(QUOTA_FORMS)}
    return {"pods": pods, "count/pods": pods, **plain, **given}


def counts(quota: QuotaView, group: GroupView) -> bool:
    """Whether a quota counts the pods of a group, as far as the group tells."""
    return all(_holds(scope, group) for scope in quota.scopes)


def _holds(scope: Scope, group: GroupView) -> bool:
    best_effort = not any(_computes(name) for name in group.min_resources)
    match scope.name:
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "NotTerminating":
            return True
        case str(name) if name == PRIORITY_CLASS:
            return _chosen(scope, group.priority_class)
        case _:
            return False  # deadlines and neighbours stand in pods alone: the API server judges them when they are made


def _computes(name: str) -> bool:
    return name.removeprefix("requests.").removeprefix("limits.") in COMPUTE


def _chosen(scope: Scope, value: str) -> bool:
    match scope.operator:
        case "In":
            return value in scope.values
        case "NotIn":
            return value not in scope.values
        case "DoesNotExist":
            return not value
        case _:
            return bool(value)


def room_grew(before: QuotaView, after: QuotaView) -> bool:
    """Whether more may be had of anything: only then can somebody be let in who was not before."""
    if before.scopes != after.scopes or before.named - after.named:
        return True
    return any(after.left(name) > before.left(name) for name in after.named & before.named)
