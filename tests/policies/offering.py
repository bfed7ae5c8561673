"""Builders of offers and sites for tests of money and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from policies.estimates import Demand, Read, Site
from policies.offers import OfferView, project_offer
from policies.shapes import Gang
from tests.policies.build import cluster, gang, shape


def offer(name: str = "east", *, currency: str = "EUR", **spec: Any) -> OfferView:
    """A ClusterOffer; lists are given as they are written."""
    return project_offer(msgspec.json.encode({"metadata": {"name": name}, "spec": {"currency": currency, **spec}}))


def flat(name: str, *, cpu: Any = None, throughput: Any = None, **spec: Any) -> OfferView:
    """One class of nodes that all are of, at a price for a core."""
    kind = (
        {"name": "all"}
        | ({"prices": {"cpu": cpu}} if cpu is not None else {})
        | ({"throughput": throughput} if throughput else {})
    )
    return offer(name, classes=[kind], **spec)


def site(offered: OfferView | None, *, name: str = "", fits: bool = True, wait: float = 0.0, **more: Any) -> Site:
    """A cluster where the gang fits on every class of its offer, or on none."""
    classes = frozenset(each.name for each in offered.classes) if offered is not None and fits else frozenset[str]()
    return Site(cluster(name or (offered.cluster if offered else "east"), **more), offered, classes, wait)


def demand(hours: float = 1.0, *, of: Gang | None = None, reads: tuple[Read, ...] = ()) -> Demand:
    """Two pods of one core."""
    return Demand(of if of is not None else gang(("work", 2, shape())), hours * 3600, reads)


def by_cluster(*offers: OfferView) -> Mapping[str, OfferView]:
    return {each.cluster: each for each in offers}
