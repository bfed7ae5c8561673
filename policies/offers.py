"""What clusters cost and how fast they are, as their ClusterOffers say (design.md 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from apis.quantities import NANO, InvalidQuantity, parse
from apis.vectors import MILLI, ResourceVector, counts_bytes
from policies import durations
from policies.views import Meta, Problem

GIB: Final = 1 << 30
Prices = Mapping[str, float]
"""Money for an hour of one unit of a resource: one core, one device, one GiB."""


@dataclass(frozen=True, slots=True)
class SpotOffer:
    """Nodes that may be taken away: `interruptions` are expected for one pod in an hour."""

    prices: Prices
    interruptions: float


@dataclass(frozen=True, slots=True)
class ClassOffer:
    """Nodes that have all of `labels`. `prices` None: only as spot, or not for money at all (then `spot` is None too).

    `throughput` 2 does in one hour what 1 does in two.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    prices: Prices | None = None
    spot: SpotOffer | None = None
    throughput: float = 1.0


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """Up to `most` nodes of one class, each with `size`, that are there `delay` seconds after they are asked for."""

    name: str
    node_class: str
    size: ResourceVector
    most: int
    delay: int
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """To bring data to a region: money for a GiB, and bytes a second (None: not said)."""

    price: float | None = None
    bandwidth: float | None = None


@dataclass(frozen=True, slots=True)
class OfferView:
    """A ClusterOffer. What could not be read is a problem and counts as not said."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    cluster: str = ""
    currency: str = ""
    classes: tuple[ClassOffer, ...] = ()
    pools: tuple[PoolOffer, ...] = ()
    routes: Mapping[str, Route] = field(default_factory=dict)
    carbon: float | None = None
    problems: tuple[Problem, ...] = ()
    deleting: bool = False

    def class_of(self, name: str) -> ClassOffer | None:
        """The class of that name."""
        return next((each for each in self.classes if each.name == name), None)


def units(resource: str, milli: int) -> float:
    """An amount of a vector in the unit that prices count: GiB for bytes."""
    return milli / MILLI / (GIB if counts_bytes(resource) else 1)


def hourly(requests: ResourceVector, prices: Prices) -> tuple[float, tuple[str, ...]]:
    """Money for an hour of all of it, and the resources that have no price. Pods cost nothing unless they are priced."""
    unpriced = tuple(name for name in requests if name not in prices and name != "pods")
    return sum(units(name, amount) * prices.get(name, 0.0) for name, amount in requests.items()), unpriced


# --- reading ---------------------------------------------------------------------------------------------------------
class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class _Spot(_Wire, frozen=True):
    prices: dict[str, Any] | None = None
    interruptions_per_hour: Any = 0


class _Class(_Wire, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None
    prices: dict[str, Any] | None = None
    spot: _Spot | None = None
    throughput: Any = None


class _Pool(_Wire, frozen=True):
    name: str = ""
    node_class: str = ""
    size: dict[str, Any] | None = None
    max: int = 0
    provision_time: str = ""
    prices: dict[str, Any] | None = None


class _Egress(_Wire, frozen=True):
    region: str = ""
    price: Any = msgspec.field(name="pricePerGiB", default=None)
    bandwidth: Any = None


class _Spec(_Wire, frozen=True):
    cluster: str | None = None
    currency: str = ""
    classes: list[_Class] | None = None
    pools: list[_Pool] | None = None
    egress: list[_Egress] | None = None
    carbon_intensity: Any = None


class _Offer(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Offer)


def project_offer(document: bytes) -> OfferView:
    """A ClusterOffer."""
    read = _decoder.decode(document)
    meta, spec = read.metadata, read.spec
    reader = _Reader()
    classes = tuple(reader.node_class(each, at=at) for at, each in enumerate(spec.classes or []))
    reader.twice([each.name for each in classes], field="spec.classes")
    pools = [reader.pool(each, at=at, classes=[each.name for each in classes]) for at, each in enumerate(spec.pools or [])]
    return OfferView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        cluster=spec.cluster or meta.name,
        currency=spec.currency,
        classes=classes,
        pools=tuple(each for each in pools if each is not None),
        routes={each.region: reader.route(each, at=at) for at, each in enumerate(spec.egress or [])},
        carbon=reader.number(spec.carbon_intensity, field="spec.carbonIntensity"),
        problems=tuple(reader.problems),
        deleting=meta.deletion_timestamp is not None,
    )


class _Reader:
    """Reads amounts, and keeps what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def number(self, text: Any, *, field: str) -> float | None:
        """An amount of at least 0; None where it is not said or cannot be read."""
        if text is None:
            return None
        try:
            amount = parse(text).nano / NANO
        except InvalidQuantity as error:
            self.problems.append(Problem(field, str(error)))
            return None
        if amount < 0:
            self.problems.append(Problem(field, f"{text} is less than nothing"))
            return None
        return amount

    def prices(self, listed: Mapping[str, Any] | None, *, field: str) -> Prices | None:
        if listed is None:
            return None
        read = {name: self.number(text, field=f"{field}.{name}") for name, text in sorted(listed.items())}
        return {name: price for name, price in read.items() if price is not None}

    def twice(self, names: list[str], *, field: str) -> None:
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.problems.append(Problem(field, f"{name} is given twice: the first counts"))

    def node_class(self, read: _Class, *, at: int) -> ClassOffer:
        place = f"spec.classes[{at}]"
        speed = self.number(read.throughput, field=f"{place}.throughput")
        if speed == 0:
            self.problems.append(Problem(f"{place}.throughput", "0 would never end: 1 is taken"))
        prices = self.prices(read.prices, field=f"{place}.prices")
        spot = None
        if read.spot is not None:
            rate = self.number(read.spot.interruptions_per_hour, field=f"{place}.spot.interruptionsPerHour")
            spot = SpotOffer(self.prices(read.spot.prices, field=f"{place}.spot.prices") or {}, rate or 0.0)
        return ClassOffer(read.name, read.labels or {}, prices, spot, speed or 1.0)

    def pool(self, read: _Pool, *, at: int, classes: list[str]) -> PoolOffer | None:
        """None where it is of no class, or nobody knows when its nodes come."""
        place = f"spec.pools[{at}]"
        if read.node_class not in classes:
            self.problems.append(Problem(f"{place}.nodeClass", f"{read.node_class!r} is not one of spec.classes"))
            return None
        try:
            delay, size = durations.parse(read.provision_time), ResourceVector.from_quantities(read.size)
        except durations.InvalidDuration as error:
            self.problems.append(Problem(f"{place}.provisionTime", str(error)))
            return None
        except InvalidQuantity as error:
            self.problems.append(Problem(f"{place}.size", str(error)))
            return None
        prices = self.prices(read.prices, field=f"{place}.prices")
        return PoolOffer(read.name, read.node_class, size, max(read.max, 0), delay, prices)

    def route(self, read: _Egress, *, at: int) -> Route:
        place = f"spec.egress[{at}]"
        bandwidth = self.number(read.bandwidth, field=f"{place}.bandwidth")
        return Route(self.number(read.price, field=f"{place}.pricePerGiB"), bandwidth or None)
