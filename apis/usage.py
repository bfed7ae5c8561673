"""volcano-federation.io/v1alpha1: UsageReport, what a namespace used of a cluster from one queue on one day (design.md 4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import Amount, served


class UsageSpec(Model):
    """Which day (UTC), queue and cluster."""

    day: Annotated[str, served(maxLength=10)]
    queue: str
    cluster: str


class RunTimes(Model):
    """Runs of one template that completed, the newest last: whole seconds as on nodes of throughput 1."""

    template: str
    seconds: list[int] | None = None


class UsageStatus(Model):
    """Sums over runs that ended that day; the hub writes them."""

    runs: int = 0
    resource_hours: dict[str, Amount] | None = None
    """Core-hours, device-hours, GiB-hours."""
    money: Amount | None = None
    currency: str | None = None
    unpriced: list[str] | None = None
    """Resources without a price in the cluster's offer, or `offer` where it has none: money is less than it cost."""
    run_times: list[RunTimes] | None = None
    counted: str | None = None
    """Short names of the runs that were counted last, with commas: a hub that starts anew counts none twice."""
    counted_through: str | None = None
    """Runs that ended until then are counted, whether they are still named or not."""


class UsageReport(Resource):
    """One namespace, queue, cluster and day."""

    served_as: ClassVar[kinds.Kind] = kinds.USAGE_REPORT

    spec: UsageSpec
    status: UsageStatus | None = None
