"""volcano-federation.io/v1alpha1: ClusterOffer, what a cluster costs and how fast it is, and PlacementProfile, what counts how
much when one is chosen (design.md 4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import Amount, one_of, served

Prices = Annotated[dict[str, Amount], served(maxProperties=64)]
"""Money for one hour of one unit of a resource; memory and storage count in GiB."""
Labels = Annotated[dict[str, str], served(maxProperties=32)]


class Spot(Model):
    """The same nodes while nobody else wants them."""

    prices: Prices
    interruptions_per_hour: Amount
    """Expected interruptions of one pod in an hour."""


class NodeClassOffer(Model):
    """Nodes of one price and speed: those with all these labels."""

    name: Annotated[str, served(minLength=1, maxLength=63)]
    labels: Labels | None = None
    prices: Prices | None = None
    spot: Spot | None = None
    throughput: Amount | None = None
    """How fast work goes here: 2 takes half of the time that 1 takes. 1 when not given."""


class ElasticPool(Model):
    """Nodes that can be had: `max` of them in all, each as large as `size`, after `provisionTime`."""

    name: Annotated[str, served(minLength=1, maxLength=63)]
    node_class: Annotated[str, served(minLength=1, maxLength=63)]
    size: Annotated[dict[str, Amount], served(maxProperties=64)]
    min: Annotated[int | None, served(minimum=0)] = None
    max: Annotated[int, served(minimum=0)]
    provision_time: Annotated[str, served(maxLength=32)]
    """As `90s`, `10m`."""
    prices: Prices | None = None
    """Those of the class when not given."""


class Egress(Model):
    """What it takes to bring data from this cluster to a region."""

    region: Annotated[str, served(minLength=1, maxLength=63)]
    price_per_gib: Annotated[Amount | None, Field(alias="pricePerGiB")] = None
    bandwidth: Amount | None = None
    """Bytes a second."""


class OfferSpec(Model):
    cluster: Annotated[str | None, served(maxLength=63)] = None
    """The object's own name when not given."""
    currency: Annotated[str, served(minLength=1, maxLength=16)]
    classes: Annotated[list[NodeClassOffer] | None, served(maxItems=256)] = None
    pools: Annotated[list[ElasticPool] | None, served(maxItems=256)] = None
    egress: Annotated[list[Egress] | None, served(maxItems=256)] = None
    carbon_intensity: Amount | None = None
    """Grams of CO2 for one kWh."""


class ClusterOffer(Resource):
    """Prices, speed, elastic pools and egress of one cluster."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_OFFER

    spec: OfferSpec


class ProfileSpec(Model):
    weights: Annotated[
        dict[str, Annotated[int, served(minimum=0, maximum=1000)]],
        served(minProperties=1, maxProperties=32),
    ]
    """How much each rule counts: cost, efficiency, balance, packing, locality, stability, or one that is installed."""
    market: Annotated[str | None, one_of("Any", "OnDemand", "Spot", default="Any")] = None
    """Which prices are looked at."""


class PlacementProfile(Resource):
    """What counts how much when a cluster is chosen."""

    served_as: ClassVar[kinds.Kind] = kinds.PLACEMENT_PROFILE

    spec: ProfileSpec
