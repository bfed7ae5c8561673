"""What a Job would cost in a cluster, and when it would be done: one Option for each kind of nodes it could run on.

Money: resources x hours x prices, the expected cost of interruptions, and egress of what it reads. Time: queue wait, provision,
transfer, and its run time over the throughput. A gang that loses one pod starts anew, so that work of T hours that is
interrupted r times an hour takes (exp(rT) - 1) / r hours (restart from the beginning, arrivals of Poisson; Duda, 1983).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies import fit
from policies.fit import NodeClass, Room
from policies.members import ClusterView
from policies.offers import GIB, ClassOffer, OfferView, PoolOffer, Prices, Route, hourly
from policies.shapes import Gang

HOUR: Final = 3600.0
LARGEST: Final = 50.0
"""Expected interruptions of one uninterrupted run above which it will never be done (exp(50) times as long)."""


class Market(enum.StrEnum):
    """How nodes are paid for."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


@dataclass(frozen=True, slots=True)
class Read:
    """Data that a Job reads: so many bytes, which are in a cluster of a region ("": nobody knows where), and once more each in
    `copies`, as (cluster, region)."""

    source: str
    size: int
    cluster: str = ""
    region: str = ""
    copies: tuple[tuple[str, str], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Clusters, with their regions, from where it may be read."""
        return ((self.cluster, self.region), *self.copies)


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be done: a gang, seconds on nodes of throughput 1, and what it reads."""

    gang: Gang
    seconds: float
    reads: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that passed the filters. `fits` are the classes of its offer on whose nodes the gang fits now, and `wait` the
    seconds it would wait in the member's queue before it starts there."""

    cluster: ClusterView
    offer: OfferView | None = None
    fits: frozenset[str] = frozenset()
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run it. Money is in the federation's currency, times in seconds; None: nobody knows, `missing` says what."""

    cluster: str
    node_class: str = ""
    market: Market = Market.ON_DEMAND
    pool: str = ""
    money: float | None = None
    finish: float | None = None
    wait: float = 0.0
    provision: float = 0.0
    transfer: float = 0.0
    run: float = 0.0
    interruptions: float = 0.0
    egress: float = 0.0
    missing: tuple[str, ...] = ()


def options(
    demand: Demand,
    site: Site,
    *,
    offers: Mapping[str, OfferView],
    rates: Mapping[str, float] = {},
    markets: Iterable[Market] = tuple(Market),
) -> tuple[Option, ...]:
    """Every way to run a Job in a cluster.

    `offers` are those of all clusters, by cluster: what data costs is said where it lies. `rates` are units of the federation's
    currency for one of another; without any rates all money is the federation's. Nodes that are there are paid on demand where
    their class has such prices, else as spot; those of a pool either way. Empty where none may be paid for as `markets` say.
    """
    allowed = frozenset(markets)
    offer = site.offer
    if offer is None or not offer.classes:
        return (without_offer(demand, site, offers=offers, rates=rates),)
    found, nodes = [], False
    for each in offer.classes:
        if each.name in site.fits:
            nodes = True
            market = Market.SPOT if each.prices is None and each.spot is not None else Market.ON_DEMAND
            if market in allowed:
                found.append(option(demand, site, each, None, market, offers=offers, rates=rates))
    for pool in offer.pools:
        kind = offer.class_of(pool.node_class)
        if kind is None or not pool_fits(demand.gang, pool, kind):
            continue
        nodes = True
        for market in Market:
            if market in allowed and prices_of(kind, pool, market) is not None:
                found.append(option(demand, site, kind, pool, market, offers=offers, rates=rates))
    # It passed the filters, so it fits somewhere: on nodes of several classes, or of one that the offer does not name.
    return tuple(found) if nodes else (without_offer(demand, site, offers=offers, rates=rates),)


def pool_fits(gang: Gang, pool: PoolOffer, kind: ClassOffer) -> bool:
    """Whether a gang's minimum fits on nodes of a pool alone."""
    return Room(pool_rows(pool, kind)).take_all(gang.least()) is None


def pool_rows(pool: PoolOffer, kind: ClassOffer) -> fit.Rows:
    """All nodes of a pool, empty."""
    return fit.rows([NodeClass(kind.name, kind.labels, allocatable=pool.size)], [(0, pool.size, pool.most)])


def class_rows(rows: fit.Rows, offered: ClassOffer) -> fit.Rows:
    """The rows of a member whose nodes have all labels of a class: what of its room is of that price."""
    of_class = [all(each.labels.get(key) == value for key, value in offered.labels.items()) for each in rows.classes]
    keep = [at for at, kind in enumerate(rows.kind.tolist()) if of_class[kind]]
    return fit.Rows(rows.classes, rows.resources, rows.kind[keep], rows.free[keep], rows.count[keep])


def prices_of(kind: ClassOffer, pool: PoolOffer | None, market: Market) -> Prices | None:
    """By which nodes of a class, or of a pool of it, are paid for; None where they are not to be had so."""
    if market is Market.SPOT:
        return kind.spot.prices if kind.spot is not None else None
    return pool.prices if pool is not None and pool.prices is not None else kind.prices


def without_offer(demand: Demand, site: Site, *, offers: Mapping[str, OfferView], rates: Mapping[str, float]) -> Option:
    """A cluster of which nobody said anything: it does the work as others do, for nobody knows what."""
    moved = transfer(demand.reads, site.cluster, offers=offers, rates=rates)
    return Option(
        cluster=site.cluster.name,
        finish=None if moved.seconds is None else site.wait + moved.seconds + demand.seconds,
        wait=site.wait,
        transfer=moved.seconds or 0.0,
        run=demand.seconds,
        missing=("prices", *moved.missing),
    )


def option(
    demand: Demand,
    site: Site,
    kind: ClassOffer,
    pool: PoolOffer | None,
    market: Market,
    *,
    offers: Mapping[str, OfferView],
    rates: Mapping[str, float],
) -> Option:
    offer = site.offer or OfferView("", "")
    moved = transfer(demand.reads, site.cluster, offers=offers, rates=rates)
    # Nodes whose class says nothing of money are worked on all the same.
    price, unpriced = hourly(demand.gang.requests, prices_of(kind, pool, market) or {})
    rate = _rate(offer.currency, rates)
    alone = demand.seconds / kind.throughput / HOUR
    risk = kind.spot.interruptions * demand.gang.replicas if market is Market.SPOT and kind.spot is not None else 0.0
    hours = with_restarts(alone, risk)
    provision = float(pool.delay) if pool is not None else 0.0
    wait = 0.0 if pool is not None else site.wait
    missing = (*(f"price of {name}" for name in unpriced), *moved.missing)
    if rate is None:
        missing = (f"exchange rate of {offer.currency}", *missing)
    known = rate is not None and not unpriced and moved.money is not None and hours is not None
    return Option(
        cluster=site.cluster.name,
        node_class=kind.name,
        market=market,
        pool=pool.name if pool is not None else "",
        money=price * (hours or 0.0) * (rate or 0.0) + (moved.money or 0.0) if known else None,
        finish=wait + provision + moved.seconds + hours * HOUR if moved.seconds is not None and hours is not None else None,
        wait=wait,
        provision=provision,
        transfer=moved.seconds or 0.0,
        run=(hours or 0.0) * HOUR,
        interruptions=risk * alone,
        egress=moved.money or 0.0,
        missing=missing if hours is not None else (*missing, "an end: it would be interrupted too often"),
    )


def with_restarts(hours: float, rate: float) -> float | None:
    """Expected hours until `hours` of work were done without an interruption, of which `rate` an hour come; None: never."""
    if rate * hours > LARGEST:
        return None
    return math.expm1(rate * hours) / rate if rate > 0 else hours


def _rate(currency: str, rates: Mapping[str, float]) -> float | None:
    return rates.get(currency) if rates else 1.0


# --- data ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Moved:
    """Money and seconds to bring all data, None where nobody knows."""

    money: float | None = 0.0
    seconds: float | None = 0.0
    missing: tuple[str, ...] = field(default=())


def transfer(
    reads: Sequence[Read], cluster: ClusterView, *, offers: Mapping[str, OfferView], rates: Mapping[str, float]
) -> Moved:
    """One source after the other: they come in over the same line. Within a cluster data is there; within a region it costs
    nothing and takes no time unless its offer says so. Of several copies the one whose way is known, is the cheapest, and then
    the fastest."""
    money: float | None = 0.0
    seconds: float | None = 0.0
    missing: tuple[str, ...] = ()
    for each in reads:
        ways = (_brought(each, place, cluster, offers=offers, rates=rates) for place in each.places)
        best = min(ways, key=lambda moved: (_or_never(moved.money), _or_never(moved.seconds)))
        money = None if money is None or best.money is None else money + best.money
        seconds = None if seconds is None or best.seconds is None else seconds + best.seconds
        missing += best.missing
    return Moved(money, seconds, missing)


def _or_never(amount: float | None) -> float:
    return math.inf if amount is None else amount


def _brought(
    read: Read, place: tuple[str, str], cluster: ClusterView, *, offers: Mapping[str, OfferView], rates: Mapping[str, float]
) -> Moved:
    """One source from one of its places."""
    home, region = place
    if home == cluster.name or not read.size:
        return Moved()
    offer = offers.get(home)
    route = offer.routes.get(cluster.region) if offer is not None else None
    if route is None and region and region == cluster.region:
        return Moved()
    route = route or Route()
    rate = _rate(offer.currency, rates) if offer is not None else None
    missing = []
    if route.price is None or rate is None:
        missing.append(f"price to bring {read.source} here")
    if route.bandwidth is None:
        missing.append(f"bandwidth to bring {read.source} here")
    money = None if route.price is None or rate is None else read.size / GIB * route.price * rate
    return Moved(money, None if route.bandwidth is None else read.size / route.bandwidth, tuple(missing))


def locality(reads: Sequence[Read], cluster: ClusterView) -> float:
    """0..100: the share of the bytes that are in the cluster, those elsewhere in its region counting half. 100 for a Job that
    reads nothing."""
    everything = sum(each.size for each in reads)
    if not everything:
        return 100.0
    return 100 * sum(each.size * _nearness(each, cluster) for each in reads) / everything


def _nearness(read: Read, cluster: ClusterView) -> float:
    """1 in the cluster, a half elsewhere in its region, else 0; of several copies the nearest counts."""
    homes, regions = zip(*read.places, strict=True)
    return 1.0 if cluster.name in homes else 0.5 if cluster.region and cluster.region in regions else 0.0
