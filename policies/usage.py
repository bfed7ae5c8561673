"""What runs used: UsageReports, one per namespace, queue, cluster and day, kept by changes of single runs (design.md 4).

A run is charged for all its pods from when its minimum first ran until its end. Money is by the clusters' prices on demand at
the time it is counted. Times go into the history of equal Jobs as on nodes of throughput 1.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis import kinds
from apis.quantities import NANO, InvalidQuantity, parse
from apis.vectors import ResourceVector
from policies import run_times
from policies.offers import ClassOffer, OfferView, hourly, units
from policies.views import Meta

HOUR: Final = 3600.0
NAMED: Final = 256
"""Runs that a report names as counted; of older ones it keeps the time."""
TEMPLATES: Final = 128
"""Templates that a report keeps times of: those that ran last."""
_DIGITS: Final = 6
LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Ran:
    """One run that ended in one cluster. `seconds` of its gang; `completed`: it did what it was to do."""

    id: str
    ended: str
    seconds: float
    requests: ResourceVector
    template: str = ""
    completed: bool = True


@dataclass(frozen=True, slots=True)
class UsageView:
    """A UsageReport. `money` None: nobody said a price; `times` by template in the order of their last run."""

    namespace: str
    name: str
    day: str
    queue: str
    cluster: str
    uid: str = ""
    version: str = ""
    runs: int = 0
    hours: Mapping[str, float] = field(default_factory=dict)
    money: float | None = None
    currency: str = ""
    unpriced: tuple[str, ...] = ()
    times: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    counted: str = ""
    through: str = ""

    def has(self, ran: Ran) -> bool:
        """Whether this run is counted."""
        return f",{ran.id}," in f",{self.counted}," or bool(self.through and ran.ended <= self.through)


def run_id(job: str, *, epoch: int, cluster: str, ended: datetime.datetime) -> str:
    """A short name for a run, with the second of the day in which it ended."""
    second = ended.hour * 3600 + ended.minute * 60 + ended.second
    return hashlib.blake2b(f"{job}/{epoch}/{cluster}".encode(), digest_size=4).hexdigest() + f"{second:05x}"


def report_name(*, day: str, queue: str, cluster: str) -> str:
    """One per day, cluster and queue in a namespace; names of queues and clusters have no two hyphens in a row by custom, and a
    hash tells those apart that do."""
    name = f"{day}--{cluster}--{queue}"
    if len(name) <= LONGEST_NAME and "--" not in queue and "--" not in cluster:
        return name
    exact = hashlib.blake2b(f"{day}/{cluster}/{queue}".encode(), digest_size=5).hexdigest()
    return f"{name[:200].rstrip('-.')}-{exact}"


# --- counting --------------------------------------------------------------------------------------------------------
def counted(report: UsageView, runs: Iterable[Ran], *, offer: OfferView | None) -> UsageView:
    """The report with these runs, each once."""
    for ran in sorted(runs, key=lambda each: (each.ended, each.id)):
        if not report.has(ran):
            report = _with(report, ran, offer=offer)
    return report


def _with(report: UsageView, ran: Ran, *, offer: OfferView | None) -> UsageView:
    hours = dict(report.hours)
    for name, amount in ran.requests.items():
        if name != "pods":
            hours[name] = round(hours.get(name, 0.0) + units(name, amount) * ran.seconds / HOUR, _DIGITS)
    price, unpriced, throughput = price_of(ran.requests, offer=offer)
    money = report.money
    if price is not None:
        money = round((money or 0.0) + price * ran.seconds / HOUR, _DIGITS)
    times = dict(report.times)
    if ran.completed and ran.template:
        known = times.pop(ran.template, ())
        times[ran.template] = run_times.remembered(known, seconds=ran.seconds, throughput=throughput)
        while len(times) > TEMPLATES:
            del times[next(iter(times))]
    names = [*filter(None, report.counted.split(",")), ran.id]
    through = report.through
    if len(names) > NAMED:
        through = max(through, _end_of(names[0], day=report.day))
        names = names[-NAMED:]
    return dataclasses.replace(
        report,
        runs=report.runs + 1,
        hours=hours,
        money=money,
        currency=report.currency or (offer.currency if offer is not None and price is not None else ""),
        unpriced=tuple(sorted({*report.unpriced, *unpriced})),
        times=times,
        counted=",".join(names),
        through=through,
    )


def _end_of(name: str, *, day: str) -> str:
    """When the run of a short name ended: its last five digits are the second of the day."""
    try:
        second = int(name[-5:], 16)
    except ValueError:
        return ""
    return f"{day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def price_of(requests: ResourceVector, *, offer: OfferView | None) -> tuple[float | None, tuple[str, ...], float]:
    """Money for an hour on demand, what has no price, and the throughput: by the class of nodes that prices the most of it, the
    cheapest of these. Which nodes a run had the hub does not know."""
    if offer is None or not offer.classes:
        return None, ("offer",), 1.0
    found: list[tuple[int, float, str, tuple[str, ...], ClassOffer]] = []
    for each in offer.classes:
        if each.prices is not None:
            money, unpriced = hourly(requests, each.prices)
            found.append((len(unpriced), money, each.name, unpriced, each))
    if not found:
        return None, ("offer",), 1.0
    _, money, _, unpriced, best = min(found, key=lambda each: each[:3])
    return money, unpriced, best.throughput


# --- history ---------------------------------------------------------------------------------------------------------
class History:
    """Run times of equal Jobs over all reports, kept by changes of single ones."""

    def __init__(self) -> None:
        self._times: dict[str, dict[tuple[str, str, str], tuple[float, ...]]] = {}

    def put(self, old: UsageView | None, new: UsageView | None) -> None:
        """A report as it is now."""
        if old is not None:
            for template in old.times:
                kept = self._times.get(template, {})
                kept.pop((old.day, old.namespace, old.name), None)
                if not kept:
                    self._times.pop(template, None)
        if new is not None:
            for template, times in new.times.items():
                self._times.setdefault(template, {})[(new.day, new.namespace, new.name)] = times

    def of(self, template: str) -> tuple[float, ...]:
        """The last run times of a template, oldest day first; none for one that never completed."""
        by_report = self._times.get(template)
        if not by_report:
            return ()
        return tuple(time for key in sorted(by_report) for time in by_report[key])[-run_times.KEPT :]


# --- reading and writing ---------------------------------------------------------------------------------------------
class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Spec(_Wire, frozen=True):
    day: str = ""
    queue: str = ""
    cluster: str = ""


class _Times(_Wire, frozen=True):
    template: str = ""
    seconds: list[float] | None = None


class _Status(_Wire, frozen=True):
    runs: int = 0
    resource_hours: dict[str, Any] | None = None
    money: Any = None
    currency: str = ""
    unpriced: list[str] | None = None
    run_times: list[_Times] | None = None
    counted: str = ""
    counted_through: str = ""


class _Report(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_report = msgspec.json.Decoder(_Report)


def project_usage(document: bytes) -> UsageView:
    """A UsageReport."""
    read = _report.decode(document)
    meta, spec, status = read.metadata, read.spec, read.status
    return UsageView(
        namespace=meta.namespace,
        name=meta.name,
        day=spec.day,
        queue=spec.queue,
        cluster=spec.cluster,
        uid=meta.uid,
        version=meta.resource_version,
        runs=status.runs,
        hours={name: _number(value) or 0.0 for name, value in (status.resource_hours or {}).items()},
        money=_number(status.money),
        currency=status.currency,
        unpriced=tuple(status.unpriced or ()),
        times={each.template: tuple(each.seconds or ()) for each in status.run_times or []},
        counted=status.counted,
        through=status.counted_through,
    )


def _number(value: Any) -> float | None:
    try:
        return None if value is None else parse(str(value)).nano / NANO
    except InvalidQuantity:
        return None


def _text(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def document(report: UsageView) -> dict[str, Any]:
    """The report as it is written."""
    status: dict[str, Any] = {
        "runs": report.runs,
        "resourceHours": {name: _text(value) for name, value in sorted(report.hours.items())},
        "runTimes": [{"template": name, "seconds": [round(each) for each in times]} for name, times in report.times.items()],
        "counted": report.counted,
    }
    if report.money is not None:
        status["money"] = _text(report.money)
    for name, value in (("currency", report.currency), ("countedThrough", report.through)):
        if value:
            status[name] = value
    if report.unpriced:
        status["unpriced"] = list(report.unpriced)
    meta: dict[str, Any] = {"name": report.name, "namespace": report.namespace}
    if report.version:
        meta["resourceVersion"] = report.version
    return {
        "apiVersion": kinds.USAGE_REPORT.api_version,
        "kind": kinds.USAGE_REPORT.kind,
        "metadata": meta,
        "spec": {"day": report.day, "queue": report.queue, "cluster": report.cluster},
        "status": status,
    }
