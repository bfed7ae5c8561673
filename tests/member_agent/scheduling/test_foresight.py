"""Dry runs about gangs that wait at the hub: what the scheduler would do, and nothing is changed by asking."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.capacity import MOST_FITS, ShapeAnswer
from machinery.informer import Change, Key
from member_agent.asking import End
from member_agent.inventory import Held, Inventory
from member_agent.room import Spot
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.earmarks import Earmark
from member_agent.scheduling.earmarks import Place as Marked
from member_agent.scheduling.foresight import Foreseer
from member_agent.scheduling.planner import BUILT_IN, plan
from member_agent.scheduling.reservations import Reservation
from member_agent.scheduling.snapshot import Gangs
from member_agent.views import NodeView, PodView
from policies import asked
from policies.asked import Asked, Shape
from tests.member_agent import test_room
from tests.member_agent.scheduling.build import USUAL, Made, configuration, gang, nodes, queue


def question(*, pods: int = 2, cpu: int = 2, name: str = "shape", **spec: Any) -> Asked:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [container], **spec}}
    job = {"metadata": {"name": "train", "namespace": "team"}, "spec": {"tasks": [{"name": "work", "replicas": pods}]}}
    job["spec"]["tasks"][0]["template"] = template  # type: ignore[index]
    wanted = asked.requirements_of(json.dumps(job).encode())
    return asked.read(Shape(name, msgspec.Raw(msgspec.json.encode(wanted)), minimum=pods, queue="default"))


def beside(app: str, kind: str = "podAffinity") -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


class Place:
    """Some nodes, pods on them, and the scheduler's foresight."""

    def __init__(
        self,
        machines: Sequence[NodeView],
        pods: Sequence[PodView] = (),
        *,
        kept: tuple[str, ...] = (),
        gangs: Sequence[Made] = (),
        by: Configuration = USUAL,
        earmarks: Sequence[Earmark] = (),
        berths: Mapping[Key, Sequence[Held]] = {},
    ) -> None:
        self.earmarks = earmarks
        self.inventory: Inventory = test_room.inventory(list(machines))
        self.gangs = Gangs(self.inventory, scheduler="volcano")
        self.groups = {(each.group.namespace, each.group.name): each.group for each in gangs}
        for key, group in self.groups.items():
            self.gangs.group_changed(Change(key, None, group))
        for pod in (*pods, *(pod for each in gangs for pod in each.pods)):
            change = Change((pod.namespace, pod.name), None, pod)
            self.inventory.pod_changed(change)
            self.gangs.pod_changed(change)
        places = tuple(Marked(name, test_room.shape(1), 1) for name in kept)
        self.foreseer = Foreseer(
            inventory=self.inventory,
            neighbourhood=self.gangs.neighbourhood,
            scheduler="volcano",
            freeze=self.freeze,
            held=self.gangs.held_by_queue,
            reservation=lambda: Reservation(("ns", "big"), "big", places, whole=True) if kept else None,
            configuration=lambda: by,
            registry=BUILT_IN,
        )

    def freeze(self) -> Any:
        return self.gangs.freeze(
            groups=self.groups.get,
            pending={},
            priority=lambda name: int(name.removeprefix("p") or 0),
            queues={"default": queue("default")},
            held_back=lambda pod: False,
            earmarks=self.earmarks,
        )

    def answer(self, shape: Asked, *, promised: Sequence[Spot] = (), ends: Sequence[End] = ()) -> ShapeAnswer:
        return self.foreseer.stand([shape], promised=promised, ends=ends).ask(shape)


def busy(name: str, *, cpu: int, on: str, owner: str = "") -> PodView:
    return test_room.pod(name, test_room.shape(cpu), on=on, group=f"g-{name}", owner=owner)


def test_gangs_of_which_no_row_tells_are_counted_one_after_the_other() -> None:
    apart = beside("train", "podAntiAffinity")
    other = beside("nobody", "podAntiAffinity")
    assert Place(nodes(4, 4)).answer(question(pods=2, cpu=2, affinity=other)).fits == 2
    assert Place(nodes(4, 3)).answer(question(pods=2, cpu=2, affinity=other)).fits == 1
    assert Place(nodes(4, 4, 4)).answer(question(pods=1, cpu=2, affinity=apart)).fits == 3
    assert Place(nodes(*[64] * 4)).answer(question(pods=1, cpu=1, affinity=other)).fits == MOST_FITS
    assert Place(nodes(*[64] * 4)).answer(question(pods=1, cpu=1)).fits == 1  # rows tell the rest


def test_what_does_not_fit_says_why_with_numbers() -> None:
    found = Place(nodes(3, 3)).answer(question(pods=3, cpu=2))
    assert (found.fits, found.wait) == (0, None)
    assert "room for 2 of 3 pods" in found.reason


def test_asking_changes_nothing_and_the_same_question_gets_the_same_answer() -> None:
    place = Place(nodes(4, 4), [busy("a", cpu=1, on="n0")])
    before = place.inventory.room.free.copy()
    first = place.answer(question())
    assert place.answer(question()) == first
    assert np.array_equal(place.inventory.room.free, before)
    assert not place.inventory.room.taken


def test_room_that_is_promised_is_nobody_elses() -> None:
    place = Place(nodes(4))
    assert place.answer(question(pods=2)).fits == 1
    assert place.answer(question(pods=2), promised=[Spot(0, test_room.shape(1), 1)]).fits == 0


def test_nodes_that_wait_for_a_gang_are_left_to_it() -> None:
    assert Place(nodes(4, 4), kept=("n0",)).answer(question(pods=2)).fits == 1
    assert Place(nodes(4), kept=("n0",)).answer(question(pods=2)).fits == 0


def test_the_expected_wait_is_the_first_enforced_end_that_makes_room() -> None:
    pods = [busy("a", cpu=3, on="n0", owner="soon"), busy("b", cpu=3, on="n1", owner="later"), busy("c", cpu=1, on="n1")]
    place = Place(nodes(4, 4), pods)
    ends = [End(60.0, "soon"), End(600.0, "later")]
    assert place.answer(question(pods=2), ends=ends).wait == 60
    assert place.answer(question(pods=3), ends=ends).wait == 600
    assert place.answer(question(pods=4), ends=ends).wait is None  # what nobody ends is never counted on
    assert place.answer(question(pods=2)).wait is None


@pytest.mark.parametrize("pods, fits", [(1, 1), (2, 1), (3, 0)])
def test_one_pod_per_host_port_and_node(pods: int, fits: int) -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    found = Place(nodes(64, 64)).answer(question(pods=pods, containers=[container]))
    assert found.fits == fits


def labelled(name: str, *, on: str, app: str) -> PodView:
    return dataclasses.replace(busy(name, cpu=1, on=on), namespace="team", labels=(("app", app),))


def test_pods_that_must_be_apart_are_counted_on_nodes_of_their_own() -> None:
    apart = beside("train", "podAntiAffinity")
    assert Place(nodes(16, 16)).answer(question(pods=2, cpu=1, affinity=apart)).fits == 1
    found = Place(nodes(16, 16)).answer(question(pods=3, cpu=1, affinity=apart))
    assert found.fits == 0
    assert "one per" in found.reason


def test_pods_that_run_already_count_for_whom_is_asked_about_and_no_longer_than_that() -> None:
    place = Place(nodes(16, 4), [labelled("db", on="n1", app="db")])
    assert place.answer(question(pods=3, cpu=1, affinity=beside("db"))).fits == 1
    assert place.answer(question(pods=4, cpu=1, affinity=beside("db"))).fits == 0
    assert place.answer(question(pods=1, cpu=1, affinity=beside("nobody"))).fits == 0
    assert place.gangs.neighbourhood.freeze().members
    place.foreseer.stand([], promised=(), ends=())
    assert not place.gangs.neighbourhood.freeze().members


EVICTING = configuration(
    "priority", "gang", "conformance", "predicates", "nodeorder", actions="enqueue, allocate, backfill, preempt"
)


@pytest.mark.parametrize(
    "priority, by, evicts",
    [(100, EVICTING, True), (10, EVICTING, False), (100, USUAL, False)],
    ids=["above", "equal", "no action"],
)
def test_evictions_are_told_where_the_scheduler_would_make_them(priority: int, by: Configuration, evicts: bool) -> None:
    low = gang("low", pods=4, minimum=1, on=["n0", "n0", "n1", "n1"], priority=10, phase="Running")
    place = Place(nodes(2, 2), gangs=[low], by=by)
    wanted = dataclasses.replace(question(pods=2, cpu=1), priority=priority)
    found = place.answer(wanted)
    assert (found.fits, found.after_eviction) == (0, evicts)
    assert len(place.inventory.held()) == 4


def test_nobody_would_go_where_that_is_not_enough() -> None:
    low = gang("low", pods=2, minimum=1, on=["n0", "n0"], priority=10, phase="Running")
    found = Place(nodes(2), gangs=[low], by=EVICTING).answer(dataclasses.replace(question(pods=2, cpu=2), priority=100))
    assert (found.fits, found.after_eviction) == (0, False)


@settings(max_examples=30, deadline=None)
@given(
    machines=some.lists(some.integers(1, 9), min_size=1, max_size=5),
    used=some.lists(some.integers(1, 4), max_size=5),
    pods=some.integers(1, 5),
    cpu=some.integers(1, 5),
    spread=some.booleans(),
)
def test_the_answer_is_what_a_round_would_do_with_the_gang(
    machines: list[int], used: list[int], pods: int, cpu: int, spread: bool
) -> None:
    there = [busy(f"b{index}", cpu=each, on=f"n{index % len(machines)}") for index, each in enumerate(used)]
    more: dict[str, Any] = {"affinity": beside("train", "podAntiAffinity")} if spread else {}
    place = Place(nodes(*machines), there)
    wanted = question(pods=pods, cpu=cpu, **more)
    ground = place.foreseer.stand([wanted], promised=(), ends=())
    real = ground.shapes[wanted.hash].gang(0)
    decided = plan(dataclasses.replace(place.freeze(), waiting=(real,)), configuration=USUAL)
    assert (len(decided.bindings) == pods) == (ground.ask(wanted).fits > 0)


def cpus_left(place: Place, *promised: Spot) -> list[int]:
    left = place.foreseer.stand([], promised=promised, ends=()).left
    return [int(each) // 1000 for each in left[:, place.inventory.room.layout.columns["cpu"]]]


def test_room_that_is_cleared_or_held_for_somebody_is_not_left() -> None:
    low = gang("low", pods=1, cpu=1, on=["n0"], phase="Running")
    high = gang("high", pods=1, cpu=2, priority=9)
    mark = Earmark(("ns", "high"), "default", (Marked("n0", high.pods[0].shape, 1),))
    assert cpus_left(Place(nodes(4, 4), gangs=[low, high], earmarks=[mark])) == [1, 4]
    held = Place(nodes(4, 4), gangs=[low])
    held.inventory.reserve("hold", Held("n1", test_room.shape(3), "job-part", "work", ("ns", "part")))
    assert cpus_left(held) == [3, 1]
    assert held.answer(question(pods=1, cpu=4)).fits == 0


def test_what_is_left_is_what_nobody_has_a_word_on() -> None:
    place = Place(nodes(4, 4), [busy("a", cpu=1, on="n0")])
    assert cpus_left(place, Spot(1, test_room.shape(2), 1)) == [3, 2]


def test_pods_that_ask_for_nothing_have_an_answer_too() -> None:
    found = Place(nodes(4)).answer(question(pods=2, containers=[{"name": "main", "image": "busybox"}]))
    assert found.fits == 1


def test_a_template_that_is_none_is_told_and_harms_nobody() -> None:
    place = Place(nodes(4))
    broken = question(name="broken", containers=[{"name": "main", "resources": {"requests": {"cpu": "much"}}}])
    found = place.answer(broken)
    assert (found.hash, found.fits) == ("broken", 0)
    assert place.answer(question()).fits == 1
