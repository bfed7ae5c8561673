"""Claims and volumes: where a pod may go for them, and what is promised to whom before it does."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from machinery.informer import Change
from member_agent.scheduling.decisions import Plan
from member_agent.views import NodeView, PodView
from member_agent.views.meta import Named
from member_agent.views.volumes import (
    project_attach_limits,
    project_claim,
    project_storage_class,
    project_volume,
)
from member_agent.volumes import Assignment, Volumes
from policies.selectors import NODE_NAME, Requirement
from policies.volumes import Wanted, reaches
from tests.member_agent.scheduling.build import Made, configuration, decide, gang, places, started, why
from tests.member_agent.scheduling.storing import (
    SINGLE,
    claim,
    feed,
    in_zone,
    limit,
    mounting,
    on_host,
    storage_class,
    stored,
    volume,
)
from tests.member_agent.test_room import node, pod, shape

PACKING = configuration("gang", "predicates", actions="allocate, backfill")
MADE = storage_class("fast", provisioner="csi.example")


def machines(*zones: str, cpu: int = 8) -> list[NodeView]:
    return [node(f"n{index}", cpu=cpu, zone=zone) for index, zone in enumerate(zones)]


def plan_of(made: Made, *objects: Named, on: list[NodeView], beside: tuple[Made, ...] = ()) -> Plan:
    return decide(on, *beside, made, by=PACKING, told=stored(*objects))


# --- claims that are bound -------------------------------------------------------------------------------------------


def test_a_pod_goes_where_its_volume_is() -> None:
    objects = claim("data", volume="pv"), volume("pv", reach=on_host("n1"))
    assert places(plan_of(mounting(gang("g", pods=2), "data"), *objects, on=machines("a", "b"))) == {"n1": 2}


def test_a_pod_goes_to_the_zone_of_its_volume() -> None:
    objects = claim("data", volume="pv"), volume("pv", zones=(in_zone("b", "c"),))
    assert places(plan_of(mounting(gang("g"), "data"), *objects, on=machines("a", "b"))) == {"n1": 1}
    found = plan_of(mounting(gang("g"), "data"), *objects, on=machines("a", "a"))
    assert "2 in another zone than its volumes" in why(found, "g")


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ((), "claim data does not exist"),
        ((claim("data"), storage_class(waits=False)), "claim data is not bound yet"),
        ((claim("data"),), "claim data is not bound yet"),
        ((claim("data", volume="gone"),), "volume gone of claim data does not exist"),
        ((claim("data", deleting=True),), "claim data is being deleted"),
        ((claim("data", lost=True),), "claim data has lost its volume"),
        ((claim("data"), storage_class(), volume("pv", claim=("ns", "data", ""))), "claim data is being bound to volume pv"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_claim_that_is_not_there_or_bound_by_others_keeps_the_pod_waiting(objects: tuple[Named, ...], said: str) -> None:
    found = plan_of(mounting(gang("g"), "data"), *objects, on=machines("a"))
    assert started(found) == {}
    assert f"1 cannot have its volumes ({said})" in why(found, "g")


def test_nothing_is_said_of_volumes_that_nobody_watches() -> None:
    assert started(decide(machines("a"), mounting(gang("g"), "data"), by=PACKING)) == {"g": 1}


# --- claims that wait for their first consumer -----------------------------------------------------------------------


def test_every_pod_of_a_gang_gets_a_volume_of_its_own() -> None:
    claims = [claim(f"data-{index}") for index in range(3)]
    volumes = [volume(f"pv{index}", reach=on_host(name)) for index, name in enumerate(("n0", "n0", "n2"))]
    made = mounting(gang("g", pods=3), each="data")
    assert places(plan_of(made, storage_class(), *claims, *volumes, on=machines("a", "b", "c"))) == {"n0": 2, "n2": 1}
    short = plan_of(made, storage_class(), *claims, *volumes[:2], on=machines("a", "b", "c"))
    assert started(short) == {}
    assert "room for 2 of 3 pods" in why(short, "g")
    assert "2 without a volume to have" in why(short, "g")


def test_pods_that_share_a_claim_share_its_volume() -> None:
    made = mounting(gang("g", pods=3), "data")
    volumes = volume("pv0", size=9, reach=on_host("n0")), volume("pv1", reach=on_host("n1"))
    assert places(plan_of(made, claim("data"), storage_class(), *volumes, on=machines("a", "b"))) in ({"n0": 3}, {"n1": 3})
    zonal = volume("pv", reach=in_zone("b"))
    spread = plan_of(made, claim("data"), storage_class(), zonal, on=machines("a", "b", "b", cpu=2))
    assert places(spread) == {"n1": 2, "n2": 1}
    anywhere = plan_of(made, claim("data", of="fast"), MADE, on=machines("a", "b", cpu=2))
    assert started(anywhere) == {"g": 3}


def test_a_volume_that_reaches_many_nodes_is_taken_once() -> None:
    claims = [claim(f"data-{index}") for index in range(3)]
    shared = [volume(f"pv{index}", reach=in_zone("a")) for index in range(2)]
    made = dataclasses.replace(mounting(gang("g", pods=3, minimum=1), each="data"))
    found = plan_of(made, storage_class(), *claims, *shared, on=machines("a", "a", "b"))
    assert started(found) == {"g": 2}
    assert places(found).keys() <= {"n0", "n1"}


@pytest.mark.parametrize(
    "other",
    [{"size": 1}, {"of": "other"}, {"modes": ("ReadOnlyMany",)}, {"block": True}, {"labels": (("disk", "hdd"),)}],
    ids=str,
)
def test_a_volume_must_match_in_class_size_modes_kind_and_labels(other: dict[str, Any]) -> None:
    wanted = claim("data", size=2, labels=(Requirement("disk", "In", ("ssd",)),))
    fitting: dict[str, Any] = {"size": 2, "labels": (("disk", "ssd"),)}
    made = mounting(gang("g"), "data")
    assert started(plan_of(made, wanted, storage_class(), volume("pv", **fitting), on=machines("a"))) == {"g": 1}
    assert started(plan_of(made, wanted, storage_class(), volume("pv", **(fitting | other)), on=machines("a"))) == {}


def test_two_claims_of_one_pod_take_two_volumes_of_one_node() -> None:
    objects = claim("small"), claim("large", size=5), storage_class()
    made = mounting(gang("g"), "small", "large")
    apart = volume("pv0", size=9, reach=on_host("n0")), volume("pv1", reach=on_host("n1"))
    assert started(plan_of(made, *objects, *apart, on=machines("a", "b"))) == {}
    beside = *apart, volume("pv2", size=2, reach=on_host("n0"))
    assert places(plan_of(made, *objects, *beside, on=machines("a", "b"))) == {"n0": 1}


def test_a_volume_is_made_where_the_class_may() -> None:
    zonal = storage_class("fast", provisioner="csi.example", reach=in_zone("b"))
    claims = [claim(f"data-{index}", of="fast") for index in range(3)]
    found = plan_of(mounting(gang("g", pods=3), each="data"), zonal, *claims, on=machines("a", "b"))
    assert places(found) == {"n1": 3}


def test_a_claim_that_was_promised_a_node_stays_there() -> None:
    chosen = claim("data", of="fast", selected_node="n1")
    assert places(plan_of(mounting(gang("g"), "data"), MADE, chosen, on=machines("a", "b"))) == {"n1": 1}


def test_a_claim_for_one_pod_is_used_by_one() -> None:
    data = claim("data", volume="pv", modes=SINGLE)
    objects = data, volume("pv")
    assert started(plan_of(mounting(gang("g", pods=2, minimum=1), "data"), *objects, on=machines("a"))) == {"g": 1}
    user = mounting(gang("old", on=["n0"]), "data")
    found = plan_of(mounting(gang("g"), "data"), *objects, on=machines("a"), beside=(user,))
    assert "claim data is for one pod and another one uses it" in why(found, "g")


def test_who_waits_for_a_volume_keeps_no_node_from_others() -> None:
    waits = mounting(gang("first", priority=5), "data")
    found = decide(machines("a"), waits, gang("second", pods=8), told=stored(claim("data"), storage_class()))
    assert started(found) == {"second": 8}


# --- limits ----------------------------------------------------------------------------------------------------------


def attachable(*names: str) -> list[Named]:
    found: list[Named] = []
    for name in names:
        found += [claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", driver="csi", handle=name)]
    return found


def test_a_node_takes_as_many_volumes_as_its_driver_attaches() -> None:
    made = mounting(gang("g", pods=4, minimum=1), each="data")
    claims = [claim(f"data-{index}", of="fast") for index in range(4)]
    limited = storage_class("fast", provisioner="csi")
    assert places(plan_of(made, limited, *claims, limit("n0", csi=3), on=machines("a"))) == {"n0": 3}


def test_a_volume_that_is_attached_already_counts_once() -> None:
    user = mounting(gang("old", on=["n0"]), "shared")
    objects = (*attachable("shared", "own"), limit("n0", csi=1))
    same, other = mounting(gang("g", pods=3), "shared"), mounting(gang("g"), "own")
    assert started(plan_of(same, *objects, on=machines("a"), beside=(user,))) == {"g": 3}
    found = plan_of(other, *objects, on=machines("a"), beside=(user,))
    assert "1 with as many volumes as the driver attaches" in why(found, "g")


# --- promises --------------------------------------------------------------------------------------------------------


def book(*objects: Named) -> Volumes:
    found = Volumes()
    feed(found, objects)
    return found


def promised(found: Volumes, to: PodView, **labels: str) -> tuple[Assignment, ...]:
    """What is promised to a pod; there must be enough."""
    given = found.assign(to, labels=labels)
    assert not isinstance(given, str)
    return given


def user(name: str, *claims: str) -> PodView:
    return dataclasses.replace(pod(name, shape(1)), claims=claims)


def test_the_smallest_volume_that_matches_is_promised_and_nobody_else_gets_it() -> None:
    found = book(storage_class(), claim("a"), claim("b"), volume("large", size=9), volume("small", size=3))
    first, second = (promised(found, user(name, name)) for name in ("a", "b"))
    assert [each.volume for each in first] == ["small"]
    assert [each.volume for each in second] == ["large"]
    found.withdraw(first)
    assert [each.name for each in found.freeze().offers] == ["small"]


def test_the_second_pod_of_a_claim_is_promised_nothing_and_must_reach_what_the_first_was() -> None:
    found = book(storage_class(), claim("a"), volume("pv", reach=on_host("n0")))
    host = "kubernetes.io/hostname"
    assert [each.volume for each in promised(found, user("p", "a"), **{host: "n0"})] == ["pv"]
    assert promised(found, user("q", "a"), **{host: "n0"}) == ()
    assert found.assign(user("r", "a"), labels={host: "n1"}) == "volume pv of claim a is elsewhere"
    assert found.needs_of(user("s", "a")).problem == "claim a is being bound for another pod"


def test_only_the_first_pod_of_a_claim_says_where_its_volume_is_made() -> None:
    found = book(MADE, claim("a", of="fast"))
    first, second = (promised(found, user(name, "a")) for name in ("p", "q"))
    assert [each.first for each in (*first, *second)] == [True, False]
    found.withdraw(first)
    assert found.needs_of(user("r", "a")).problem == "claim a is being bound for another pod"
    found.withdraw(second)
    assert found.needs_of(user("r", "a")).problem == ""


def test_a_pod_gets_all_its_volumes_or_none() -> None:
    found = book(storage_class(), claim("a"), claim("b", size=7), volume("pv"))
    assert found.assign(user("p", "a", "b"), labels={}) == "no volume is left for claim b"
    assert [each.name for each in found.freeze().offers] == ["pv"]


def test_a_promise_ends_when_the_claim_is_bound_or_its_volume_goes() -> None:
    found = book(storage_class(), claim("a"), volume("pv"))
    promised(found, user("p", "a"))
    assert found.freeze().offers == ()
    found.claim_changed(Change(("ns", "a"), claim("a"), claim("a", volume="pv")))
    found.volume_changed(Change(("", "pv"), volume("pv"), volume("pv", claim=("ns", "a", "uid-a"))))
    assert found.freeze().offers == ()
    assert found.settled(user("p", "a"))


def test_a_claim_whose_volume_is_made_names_none() -> None:
    found = book(MADE, claim("a", of="fast"))
    (only,) = promised(found, user("p", "a"))
    assert only.volume == ""
    assert not found.settled(user("p", "a"))


hosts = some.sampled_from(["n0", "n1", "n2"])


@given(
    some.lists(some.tuples(hosts, some.integers(1, 3)), max_size=6),
    some.lists(some.integers(1, 3), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=60)
def test_what_a_plan_gives_out_can_be_promised_one_by_one(there: list[tuple[str, int]], sizes: list[int]) -> None:
    """Whatever pods the plan binds, each finds a volume on its node that no other has."""
    objects: list[Named] = [storage_class()]
    objects += [volume(f"pv{index}", size=size, reach=on_host(host)) for index, (host, size) in enumerate(there)]
    objects += [claim(f"data{index}-0", size=size) for index, size in enumerate(sizes)]
    gangs = [mounting(gang(f"g{index}"), each=f"data{index}") for index in range(len(sizes))]
    found = decide(machines("a", "a", "b"), *gangs, by=PACKING, told=stored(*objects))
    kept = book(*objects)
    for binding in found.bindings:
        labels = {"kubernetes.io/hostname": binding.node, NODE_NAME: binding.node}
        assert not isinstance(kept.assign(binding.pod, labels=labels), str)
    bound = {binding.pod.group for binding in found.bindings}
    left = [each.size for each in kept.freeze().offers]
    assert all(size > max(left, default=0) for index, size in enumerate(sizes) if f"g{index}" not in bound)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_objects_are_read_as_they_are_written() -> None:
    meta = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Ki"}},
        "volumeName": "pv",
        "selector": {"matchLabels": {"disk": "ssd"}},
    }
    found = project_claim(orjson.dumps({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}))
    assert (found.storage_class, found.size, found.bound, found.volume) == ("fast", 1024_000, True, "pv")
    assert found.labels == (Requirement("disk", "In", ("ssd",)),)
    assert not project_claim(orjson.dumps({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})).bound

    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    spec = {
        "capacity": {"storage": "2Ki"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": "ns", "name": "x", "uid": "u"},
        "csi": {"driver": "csi", "volumeHandle": "h"},
    }
    labels = {"topology.kubernetes.io/zone": "a__b"}
    kept = project_volume(
        orjson.dumps({"metadata": {**meta, "labels": labels}, "spec": spec, "status": {"phase": "Available"}})
    )
    assert (kept.size, kept.claim, kept.driver, kept.handle) == (2048_000, ("ns", "x", "u"), "csi", "h")
    assert reaches(kept.reach, {"kubernetes.io/hostname": "n1"})
    assert [reaches(each, {"topology.kubernetes.io/zone": "b"}) for each in kept.zones] == [True]

    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    body = {"metadata": meta, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": allowed}
    made = project_storage_class(orjson.dumps(body))
    assert (made.waits, made.provisioner, reaches(made.reach, {"zone": "a"}), reaches(made.reach, {})) == (
        True,
        "p",
        True,
        False,
    )

    drivers = [{"name": "csi", "allocatable": {"count": 5}}, {"name": "free"}]
    assert project_attach_limits(orjson.dumps({"metadata": meta, "spec": {"drivers": drivers}})).counts == (("csi", 5),)


def test_amounts_that_nobody_can_read_count_as_none() -> None:
    body = {"metadata": {"name": "x"}, "spec": {"resources": {"requests": {"storage": "much"}}}}
    assert project_claim(orjson.dumps(body)).size == 0
    assert Wanted("a", 0, ()).made is None
