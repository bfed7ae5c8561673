"""All ways to run a Job in all clusters, in columns: the same money and times as `policies.estimates.options` finds cluster by
cluster (a law holds that), worked out for every offer at once.

A row is one way: a class of nodes of an offer, or a pool of it, as it is paid for; each cluster has one more, for when nobody
says anything of it or nothing that is named fits.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from apis.vectors import ResourceVector
from policies import estimates
from policies.estimates import HOUR, Demand, Market, Option, Site
from policies.fit import Array, Room
from policies.ground import Fit, Floats, Ground, Mask, fits, merged, spans
from policies.members import ClusterView
from policies.offers import ClassOffer, OfferView, PoolOffer, Prices, units
from policies.shapes import Gang, PodShape

UNKNOWN = float("inf")
"""Money or seconds that nobody knows."""


class _Nodes(enum.IntEnum):
    ANY, CLASS, POOL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Way:
    member: int
    nodes: _Nodes = _Nodes.ANY
    source: int = 0
    """Which class or pool, counted over all offers."""
    name: str = ""
    market: Market = Market.ON_DEMAND
    pool: str = ""
    prices: Prices = field(default_factory=dict)
    throughput: float = 1.0
    risk: float = 0.0
    rate: float | None = 1.0
    provision: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """The ways that there are, by row: the member, money and seconds until the end (`UNKNOWN` where nobody knows)."""

    rows: Array
    member: Array
    money: Floats
    finish: Floats


class Ways:
    """Of the offers of clusters, which come in a fixed order by name. Frozen: what it remembers changes no answer."""

    def __init__(self, names: Sequence[str], offers: Mapping[str, OfferView], *, rates: Mapping[str, float]) -> None:
        self.offers, self.rates = offers, rates
        self.names = tuple(names)
        self._classes: list[tuple[int, ClassOffer]] = []
        self._pools: list[tuple[int, PoolOffer, ClassOffer]] = []
        ways = [way for at, name in enumerate(names) for way in self._named(at, offers.get(name))]
        ways += [_Way(at) for at in range(len(names))]
        ways.sort(key=lambda each: (each.member, each.name, each.market, each.pool))
        self._ways = ways
        self._member = np.array([each.member for each in ways], dtype=np.int64)
        self._of = {kind: np.flatnonzero([each.nodes is kind for each in ways]) for kind in _Nodes}
        self._is = {kind: np.array([each.nodes is kind for each in ways], dtype=np.bool_) for kind in _Nodes}
        self._source = {kind: np.array([ways[at].source for at in rows], np.int64) for kind, rows in self._of.items()}
        self._throughput = np.array([each.throughput for each in ways])
        self._risk = np.array([each.risk for each in ways])
        self._rate = np.array([np.nan if each.rate is None else each.rate for each in ways])
        self._provision = np.array([each.provision for each in ways])
        self._sold = {market: np.array([each.market is market for each in ways], np.bool_) for market in Market}
        self._class_of = np.array([at for at, _ in self._classes], dtype=np.int64)
        self._pool_of = np.array([at for at, _, _ in self._pools], dtype=np.int64)
        self._twins = _twins(self._classes)
        self._whole = np.array([not each.labels for _, each in self._classes], dtype=np.bool_)
        self._prices: dict[str, tuple[Floats, Mask]] = {}
        self._stand: _Stand | None = None
        self._pool_ground = Ground([estimates.pool_rows(pool, kind) for _, pool, kind in self._pools])
        self._pool_fits: dict[tuple[object, ...], Mask] = {}

    def _named(self, at: int, offer: OfferView | None) -> Iterable[_Way]:
        if offer is None or not offer.classes:
            return
        rate = self.rates.get(offer.currency) if self.rates else 1.0
        for kind in offer.classes:
            market = Market.SPOT if kind.prices is None and kind.spot is not None else Market.ON_DEMAND
            yield _way(at, _Nodes.CLASS, len(self._classes), kind, None, market, rate)
            self._classes.append((at, kind))
        for pool in offer.pools:
            of = offer.class_of(pool.node_class)
            if of is None:
                continue
            for market in Market:
                if estimates.prices_of(of, pool, market) is not None:
                    yield _way(at, _Nodes.POOL, len(self._pools), of, pool, market, rate)
            self._pools.append((at, pool, of))

    def is_of(self, names: Sequence[str], offers: Mapping[str, OfferView], rates: Mapping[str, float]) -> bool:
        """Whether these are the very offers that it was made from."""
        return (
            self.names == tuple(names)
            and self.rates == rates
            and self.offers.keys() == offers.keys()
            and all(self.offers[name] is each for name, each in offers.items())
        )

    # --- answering ---------------------------------------------------------------------------------------------------

    def find(
        self,
        demand: Demand,
        clusters: Sequence[ClusterView],
        *,
        among: Mask,
        ground: Ground,
        waits: Mapping[str, float],
        markets: Collection[Market],
    ) -> Found:
        """Every way in the clusters of a mask; those whose nodes may not be paid for as `markets` say have none."""
        by_class, by_pool = self._class_fits(demand.gang, ground), self._fits_pools(demand.gang)
        fit = np.zeros(len(self._ways), dtype=np.bool_)
        fit[self._of[_Nodes.CLASS]] = by_class[self._source[_Nodes.CLASS]]
        fit[self._of[_Nodes.POOL]] = by_pool[self._source[_Nodes.POOL]]
        named = np.zeros(len(self.names), dtype=np.bool_)
        named[self._class_of[by_class]] = True
        named[self._pool_of[by_pool]] = True
        bare = self._of[_Nodes.ANY]
        for market in Market:
            if market not in markets:
                fit &= ~self._sold[market]
        fit[bare] = ~named[self._member[bare]]
        rows = np.flatnonzero(fit & among[self._member])
        return self._told(demand, clusters, rows, waits=waits)

    def option(self, row: int, demand: Demand, cluster: ClusterView, *, wait: float) -> Option:
        """One way in words and numbers."""
        way = self._ways[row]
        site = Site(cluster, self.offers.get(cluster.name), wait=wait)
        if way.nodes is _Nodes.ANY:
            return estimates.without_offer(demand, site, offers=self.offers, rates=self.rates)
        if way.nodes is _Nodes.CLASS:
            pool, kind = None, self._classes[way.source][1]
        else:
            _, pool, kind = self._pools[way.source]
        return estimates.option(demand, site, kind, pool, way.market, offers=self.offers, rates=self.rates)

    def _told(self, demand: Demand, clusters: Sequence[ClusterView], rows: Array, *, waits: Mapping[str, float]) -> Found:
        """In the order of `estimates.option`: sums of floats depend on it."""
        member = self._member[rows]
        price, unpriced = self._hourly(demand.gang.requests, rows)
        alone = demand.seconds / self._throughput[rows] / HOUR
        risk = self._risk[rows] * demand.gang.replicas
        hours = alone.copy()
        for at in np.flatnonzero(risk > 0).tolist():
            hours[at] = _or_unknown(estimates.with_restarts(float(alone[at]), float(risk[at])))
        moved_money, moved_seconds = self._moved(demand, clusters, member)
        bare = self._is[_Nodes.ANY][rows]
        wait = np.zeros(len(rows))
        if waits:
            known = np.array([waits.get(name, 0.0) for name in self.names])
            wait = np.where(self._is[_Nodes.POOL][rows], 0.0, known[member])
        rate = self._rate[rows]
        endless = np.isinf(hours)
        finite = np.where(endless, 0.0, hours)
        money = price * finite * rate + np.where(np.isinf(moved_money), 0.0, moved_money)
        finish = wait + self._provision[rows] + moved_seconds + finite * HOUR
        if bare.any():
            finish[bare] = wait[bare] + moved_seconds[bare] + demand.seconds
        unknown = np.isnan(rate) | unpriced | np.isinf(moved_money) | endless | bare
        return Found(rows, member, np.where(unknown, UNKNOWN, money), np.where(endless, UNKNOWN, finish))

    def _hourly(self, requests: ResourceVector, rows: Array) -> tuple[Floats, Mask]:
        """As `offers.hourly`."""
        price, unpriced = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
        for name, amount in requests.items():
            known = self._prices.get(name)
            if known is None:
                listed = [each.prices.get(name) for each in self._ways]
                known = (
                    np.array([0.0 if each is None else each for each in listed]),
                    np.array([each is None for each in listed], dtype=np.bool_),
                )
                self._prices[name] = known
            price = price + units(name, amount) * known[0][rows]
            if name != "pods":
                unpriced |= known[1][rows]
        return price, unpriced

    def _moved(self, demand: Demand, clusters: Sequence[ClusterView], member: Array) -> tuple[Floats, Floats]:
        """Money and seconds to bring what it reads, by row."""
        money, seconds = np.zeros(len(clusters)), np.zeros(len(clusters))
        for at in np.unique(member).tolist() if demand.reads else ():
            moved = estimates.transfer(demand.reads, clusters[at], offers=self.offers, rates=self.rates)
            money[at], seconds[at] = _or_unknown(moved.money), _or_unknown(moved.seconds)
        return money[member], seconds[member]

    # --- what fits ---------------------------------------------------------------------------------------------------

    def _class_fits(self, gang: Gang, ground: Ground) -> Mask:
        """By class of all offers, whether the gang's minimum fits on its nodes by what is published."""
        if self._stand is None or self._stand.ground is not ground:
            self._stand = _Stand(ground, self._classes)
        counts = merged(gang.least())
        key = tuple(counts.items())
        known = self._stand.known.get(key)
        if known is None:
            found = self._stand.fits(counts)
            answer = found == int(Fit.YES)
            for at in np.flatnonzero((found == int(Fit.MAYBE)) & ~self._whole).tolist():
                member, kind = self._classes[at]
                rows = ground.published(member)
                answer[at] = rows is not None and Room(estimates.class_rows(rows, kind)).take_all(gang.least()) is None
            answer |= self._whole
            for alike in self._twins:
                answer[alike] = answer[alike].any()
            known = self._stand.known[key] = answer
        return known

    def _fits_pools(self, gang: Gang) -> Mask:
        """By pool of all offers, whether the gang's minimum fits on its nodes alone."""
        counts = merged(gang.least())
        key = tuple(counts.items())
        known = self._pool_fits.get(key)
        if known is None:
            ground = self._pool_ground
            found = fits(
                counts,
                alone=lambda shape: ground.by_member(ground.placed(shape)),
                within=lambda size, mask: ground.by_member(ground.pods(size) * mask),
                accepting=ground.accepting,
            )
            known = found == int(Fit.YES)
            for at in np.flatnonzero(found == int(Fit.MAYBE)).tolist():
                _, pool, kind = self._pools[at]
                known[at] = estimates.pool_fits(gang, pool, kind)
            self._pool_fits[key] = known
        return known


class _Stand:
    """Which groups of a ground are of which class of the offers."""

    def __init__(self, ground: Ground, classes: Sequence[tuple[int, ClassOffer]]) -> None:
        self.ground = ground
        self.known: dict[tuple[object, ...], Mask] = {}
        picked: dict[tuple[tuple[str, str], ...], tuple[int, Array]] = {}
        end = 0
        for _, kind in classes:
            key = tuple(sorted(kind.labels.items()))
            if key not in picked:
                groups = np.flatnonzero(ground.kinds.labelled(kind.labels)[ground.kind])
                picked[key] = (end, groups)
                end += len(groups)
        self._groups = np.concatenate([np.zeros(0, np.int64), *(groups for _, groups in picked.values())])
        self._starts = np.zeros(len(classes), dtype=np.int64)
        self._ends = np.zeros(len(classes), dtype=np.int64)
        by_key: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for at, (_, kind) in enumerate(classes):
            by_key.setdefault(tuple(sorted(kind.labels.items())), []).append(at)
        members = np.array([member for member, _ in classes], dtype=np.int64)
        for key, listed in by_key.items():
            offset, groups = picked[key]
            those = np.array(listed, dtype=np.int64)
            self._starts[those] = offset + np.searchsorted(groups, ground.first[members[those]])
            self._ends[those] = offset + np.searchsorted(groups, ground.first[members[those] + 1])

    def fits(self, counts: Mapping[PodShape, int]) -> Array:
        """By class: `Fit` numbers."""
        ground = self.ground
        return fits(
            counts,
            alone=lambda shape: self._sums(ground.placed(shape)),
            within=lambda size, mask: self._sums(ground.pods(size) * mask),
            accepting=ground.accepting,
        )

    def _sums(self, groups: Array) -> Array:
        return spans(groups[self._groups], self._starts, self._ends)


def _way(
    at: int, nodes: _Nodes, source: int, kind: ClassOffer, pool: PoolOffer | None, market: Market, rate: float | None
) -> _Way:
    risky = market is Market.SPOT and kind.spot is not None
    return _Way(
        member=at,
        nodes=nodes,
        source=source,
        name=kind.name,
        market=market,
        pool=pool.name if pool is not None else "",
        prices=estimates.prices_of(kind, pool, market) or {},
        throughput=kind.throughput,
        risk=kind.spot.interruptions if risky and kind.spot is not None else 0.0,
        rate=rate,
        provision=float(pool.delay) if pool is not None else 0.0,
    )


def _twins(classes: Sequence[tuple[int, ClassOffer]]) -> list[list[int]]:
    """Classes of one offer that have one name: what fits one of them fits the name."""
    named: dict[tuple[int, str], list[int]] = {}
    for at, (member, kind) in enumerate(classes):
        named.setdefault((member, kind.name), []).append(at)
    return [each for each in named.values() if len(each) > 1]


def _or_unknown(value: float | None) -> float:
    return UNKNOWN if value is None else value
