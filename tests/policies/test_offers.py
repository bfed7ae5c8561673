"""Reading offers, run times, and what a Job would cost and when it would be done, option by option."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from apis.vectors import ResourceVector
from policies import fit
from policies.estimates import Market, Option, Read, class_rows, locality, options, with_restarts
from policies.offers import OfferView, Route, hourly
from policies.run_times import Source, expected, remembered, template_hash
from tests.policies.build import cluster, gang, nodes, shape
from tests.policies.offering import by_cluster, demand, flat, offer, site

POOL = {"name": "burst", "nodeClass": "gpu", "size": {"cpu": 4, "pods": 110}, "max": 2, "provisionTime": "3m"}


def only(found: tuple[Option, ...]) -> Option:
    (one,) = found
    return one


# --- reading ---------------------------------------------------------------------------------------------------------
def test_an_offer_is_read_as_people_write_it() -> None:
    spot = {"prices": {"cpu": "10m"}, "interruptionsPerHour": "0.05"}
    read = offer(
        classes=[
            {"name": "gpu", "labels": {"gpu": "a100"}, "prices": {"cpu": "0.04", "memory": "5m"}, "spot": spot, "throughput": 2}
        ],
        pools=[POOL],
        egress=[{"region": "us", "pricePerGiB": "0.09", "bandwidth": "1Gi"}],
        carbonIntensity=300,
    )
    kind = read.classes[0]
    assert kind.prices == {"cpu": 0.04, "memory": 0.005} and kind.spot is not None
    assert (kind.spot.prices, kind.spot.interruptions, kind.throughput) == ({"cpu": 0.01}, 0.05, 2.0)
    assert (read.pools[0].most, read.pools[0].delay, read.pools[0].size) == (
        2,
        180,
        ResourceVector({"cpu": 4000, "pods": 110000}),
    )
    assert read.routes == {"us": Route(0.09, float(1 << 30))}
    assert (read.cluster, read.currency, read.carbon, read.problems) == ("east", "EUR", 300.0, ())


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"classes": [{"name": "x", "prices": {"cpu": "much"}}]}, "spec.classes[0].prices.cpu"),
        ({"classes": [{"name": "x", "prices": {"cpu": -1}}]}, "spec.classes[0].prices.cpu"),
        ({"classes": [{"name": "x", "prices": {}, "throughput": 0}]}, "spec.classes[0].throughput"),
        ({"classes": [{"name": "x", "prices": {}}, {"name": "x", "prices": {}}]}, "spec.classes"),
        ({"pools": [POOL]}, "spec.pools[0].nodeClass"),
        (
            {"classes": [{"name": "gpu", "prices": {}}], "pools": [{**POOL, "provisionTime": "soon"}]},
            "spec.pools[0].provisionTime",
        ),
        ({"classes": [{"name": "gpu", "prices": {}}], "pools": [{**POOL, "size": {"cpu": "big"}}]}, "spec.pools[0].size"),
        ({"egress": [{"region": "us", "bandwidth": "fast"}]}, "spec.egress[0].bandwidth"),
    ],
)
def test_what_is_wrong_with_an_offer_is_told_where_and_the_rest_counts(spec: dict[str, Any], field: str) -> None:
    assert [each.field for each in offer(**spec).problems] == [field]


def test_prices_count_cores_devices_and_gibibytes() -> None:
    asked = ResourceVector.from_quantities({"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 1, "pods": 3})
    assert hourly(asked, {"cpu": 1.0, "memory": 0.5, "nvidia.com/gpu": 4.0}) == (1.5 + 1.0 + 4.0, ())
    assert hourly(asked, {"cpu": 1.0})[1] == ("memory", "nvidia.com/gpu")


# --- money and time --------------------------------------------------------------------------------------------------
def test_money_is_resources_times_hours_over_throughput() -> None:
    east = flat("east", cpu="0.5", throughput=2)
    found = only(options(demand(3), site(east), offers=by_cluster(east)))
    assert (found.money, found.finish, found.run) == (2 * 0.5 * 1.5, 1.5 * 3600, 1.5 * 3600)


def test_the_end_comes_after_queue_wait_provision_transfer_and_run() -> None:
    source = flat("store", cpu=1, egress=[{"region": "eu", "pricePerGiB": 2, "bandwidth": "1Gi"}])
    kind = {"name": "gpu", "labels": {"kind": "gpu"}, "prices": {"cpu": 1}}
    east = offer(classes=[kind], pools=[POOL])
    reads = (Read("images", 60 << 30, "store", "us"),)
    there, burst = options(demand(reads=reads), site(east, wait=500, region="eu"), offers=by_cluster(source, east))
    assert (there.finish, burst.finish) == (500 + 60 + 3600, 180 + 60 + 3600)
    assert (there.money, there.egress) == (2 + 120, 120)
    assert (burst.pool, burst.provision, burst.wait, burst.transfer) == ("burst", 180, 0, 60)


def test_a_gang_on_spot_nodes_pays_for_being_interrupted_at_each_of_its_pods() -> None:
    spot = {"prices": {"cpu": "0.1"}, "interruptionsPerHour": "0.1"}
    east = offer(classes=[{"name": "all", "spot": spot}])
    found = only(options(demand(5), site(east), offers=by_cluster(east)))
    assert found.market is Market.SPOT and found.interruptions == pytest.approx(1.0)
    hours = (math.e - 1) / 0.2
    assert found.money == pytest.approx(2 * 0.1 * hours) and found.finish == pytest.approx(hours * 3600)


def test_expected_hours_with_restarts_agree_with_a_sum_over_failures() -> None:
    """E = sum over n of P(n failures) x time: each failed try takes E[X | X < T], each try fails with 1 - exp(-rT)."""
    rate, hours = 0.3, 2.0
    fails = 1 - math.exp(-rate * hours)
    lost = 1 / rate - hours * math.exp(-rate * hours) / fails
    by_sum = sum(fails**n * (1 - fails) * (n * lost + hours) for n in range(200))
    assert with_restarts(hours, rate) == pytest.approx(by_sum)
    assert with_restarts(hours, 0) == hours
    assert with_restarts(1000, 1) is None


def test_what_never_ends_or_has_no_price_is_unknown_and_says_why() -> None:
    endless = offer(classes=[{"name": "all", "spot": {"prices": {"cpu": 1}, "interruptionsPerHour": 40}}])
    found = only(options(demand(), site(endless), offers={}))
    assert (found.money, found.finish) == (None, None) and "interrupted too often" in found.missing[-1]
    unpriced = flat("east", cpu=1)
    gpu = gang(("work", 1, shape("1")), ("big", 1, fit_gpu()))
    found = only(options(demand(of=gpu), site(unpriced), offers={}))
    assert (found.money, found.finish, found.missing) == (None, 3600, ("price of nvidia.com/gpu",))
    nothing = only(options(demand(), site(None), offers={}))
    assert (nothing.money, nothing.finish, nothing.missing) == (None, 3600, ("prices",))
    foreign = only(options(demand(), site(flat("east", cpu=1)), offers={}, rates={"USD": 1.0}))
    assert (foreign.money, foreign.missing) == (None, ("exchange rate of EUR",))
    assert only(options(demand(), site(flat("east", cpu=1)), offers={}, rates={"EUR": 1.5})).money == 3.0


def fit_gpu() -> Any:
    return type(shape())(requests=ResourceVector.from_quantities({"nvidia.com/gpu": 1, "pods": 1}))


def test_data_is_free_where_it_is_and_unknown_where_nobody_said_what_moving_costs() -> None:
    east, store = flat("east", cpu=1), flat("store", cpu=1)
    known = by_cluster(east, store)

    def ask(read: Read, region: str = "eu") -> Option:
        return only(options(demand(reads=(read,)), site(east, region=region), offers=known))

    assert ask(Read("d", 1 << 40, "east", "eu")).money == 2
    assert ask(Read("d", 1 << 40, "store", "eu")).money == 2
    far = ask(Read("d", 1 << 40, "store", "us"))
    assert (far.money, far.finish) == (None, None)
    assert far.missing == ("price to bring d here", "bandwidth to bring d here")
    assert ask(Read("d", 0, "store", "us")).money == 2


def test_of_several_copies_the_cheapest_that_is_known_is_brought() -> None:
    dear = flat("dear", cpu=1, egress=[{"region": "eu", "pricePerGiB": 5, "bandwidth": "1Gi"}])
    cheap = flat("cheap", cpu=1, egress=[{"region": "eu", "pricePerGiB": 1, "bandwidth": "1Gi"}])
    east = flat("east", cpu=1)
    read = Read("d", 10 << 30, "dear", "us", copies=(("cheap", "us"), ("silent", "us")))
    found = only(options(demand(reads=(read,)), site(east, region="eu"), offers=by_cluster(dear, cheap, east)))
    assert (found.egress, found.transfer, found.missing) == (10, 10, ())
    at_home = only(options(demand(reads=(read,)), site(cheap, name="cheap"), offers=by_cluster(dear, cheap)))
    assert at_home.egress == 0
    assert locality((read,), cluster("cheap", region="us")) == 100.0
    assert locality((read,), cluster("other", region="us")) == 50.0


def test_pools_count_only_where_the_gang_fits_on_their_nodes_and_either_market_is_offered() -> None:
    spot = {"prices": {"cpu": "0.1"}, "interruptionsPerHour": 0}
    kind = {"name": "gpu", "labels": {"zone": "a"}, "prices": {"cpu": 1}, "spot": spot}
    east = offer(classes=[kind], pools=[{**POOL, "prices": {"cpu": 2}}])
    full = site(east, fits=False)
    bought = options(demand(), full, offers={})
    assert [(each.market, each.money) for each in bought] == [(Market.ON_DEMAND, 4.0), (Market.SPOT, 0.2)]
    assert only(options(demand(), full, offers={}, markets=[Market.SPOT])).market is Market.SPOT
    large = gang(("work", 9, shape()))
    assert only(options(demand(of=large), full, offers={})).missing == ("prices",)
    picky = gang(("work", 1, shape(node_selector=(("zone", "b"),))))
    assert only(options(demand(of=picky), full, offers={})).pool == ""
    assert options(demand(), site(flat("east", cpu=1)), offers={}, markets=[Market.SPOT]) == ()


def test_the_room_of_a_class_is_that_of_nodes_with_all_its_labels() -> None:
    rows = fit.rows(
        [fit.NodeClass("0", {"gpu": "a100", "zone": "a"}), fit.NodeClass("1", {"gpu": "t4"})],
        [(0, ResourceVector({"cpu": 1000}), 2), (1, ResourceVector({"cpu": 1000}), 5)],
    )
    east: OfferView = offer(classes=[{"name": "big", "labels": {"gpu": "a100"}}, {"name": "any"}])
    assert [class_rows(rows, each).total.get("cpu") for each in east.classes] == [2000, 7000]
    assert class_rows(nodes((1, "1")), east.classes[0]).total.get("cpu") == 0


# --- data and run times ----------------------------------------------------------------------------------------------
def test_locality_is_the_share_of_bytes_that_are_near() -> None:
    east = cluster("east", region="eu")
    reads = (Read("a", 30, "east", "eu"), Read("b", 20, "west", "eu"), Read("c", 50, "far", "us"))
    assert locality(reads, east) == 40.0
    assert locality((), east) == 100.0
    assert locality((Read("x", 5),), east) == 0.0


@pytest.mark.parametrize(
    ("said", "seconds", "source"),
    [
        ({"annotation": "10m", "estimate": "1h", "history": [5.0]}, 600, Source.ANNOTATION),
        ({"estimate": "1h30m", "history": [5.0]}, 5400, Source.ESTIMATE),
        ({"history": [1.0, 9.0, 5.0]}, 5, Source.HISTORY),
        ({"history": [1.0, 3.0]}, 2, Source.HISTORY),
        ({"annotation": "soon", "estimate": "0"}, 3600, Source.DEFAULT),
    ],
)
def test_a_duration_is_what_people_say_else_what_equal_jobs_took(said: Any, seconds: float, source: Source) -> None:
    found = expected(**said, default=3600)
    assert (found.seconds, found.source) == (seconds, source)


def test_run_times_are_remembered_as_on_nodes_of_throughput_one() -> None:
    history: tuple[float, ...] = ()
    for seconds in range(1, 41):
        history = remembered(history, seconds=seconds, throughput=2.0)
    assert (len(history), history[-1], history[0]) == (32, 80.0, 18.0)
    assert remembered(history, seconds=0, throughput=1) == history


def test_jobs_that_do_the_same_work_have_the_same_hash() -> None:
    def spec(image: str, queue: str) -> bytes:
        template = {"spec": {"containers": [{"name": "c", "image": image}]}}
        return msgspec.json.encode({"queue": queue, "tasks": [{"name": "w", "replicas": 2, "template": template}]})

    assert template_hash(spec("x", "q")) == template_hash(spec("x", "r"))
    assert template_hash(spec("x", "q")) != template_hash(spec("y", "q"))
    assert template_hash(b'{"tasks": 3}') == ""
