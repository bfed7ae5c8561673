"""A JobFlow reviewed: where each step would run, when, for how much, and which path is the longest; nothing is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apis import kinds
from federation.dispatch.snapshot import Member, Snapshot
from federation.dispatch.trying import RoundTrier
from federation.reviews import graphs
from federation.reviews.flows import FlowFindings, FlowReview
from federation.reviews.questions import BadQuestion, ReviewView
from policies.views import Projections
from tests.federation.test_planner import QUEUES, RULES, member
from tests.federation.test_reviews import Asker, denying, named, offer, told
from tests.federation.world import Tree, World
from tests.policies.offering import flat

VIEW = ReviewView("team", "review", "uid", "1", created="2026-01-01T00:00:00Z")


def template(name: str, *, pods: int = 1, cpu: str = "1", takes: str = "10m", reads: str = "") -> Tree:
    """A JobTemplate."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    task = {"name": "work", "replicas": pods, "template": {"spec": {"containers": [container]}}}
    notes = {"volcano-federation.io/estimated-duration": takes, **({"volcano-federation.io/reads": reads} if reads else {})}
    made = named(kinds.JOB_TEMPLATE, name, spec={"minAvailable": pods, "tasks": [task]})
    made["metadata"]["annotations"] = notes
    return made


def flow(steps: Mapping[str, Iterable[str]], **spec: Any) -> Tree:
    """A JobFlow: step to the steps it waits for."""
    flows = [{"name": name, **({"dependsOn": {"targets": [*targets]}} if targets else {})} for name, targets in steps.items()]
    return named(kinds.JOB_FLOW, "f", spec={"flows": flows, **spec})


def reviewed(
    manifest: Tree, *templates: Tree, members: tuple[Member, ...], flows: Iterable[Tree] = (), **look: Any
) -> FlowFindings:
    """The whole review."""
    trier = RoundTrier(Snapshot(cases=(), members=members, queues=QUEUES, **look), rules=RULES, settings={})
    unfolded = graphs.unfolded(
        graphs.flow_of(manifest, namespace="team"),
        templates={each["metadata"]["name"]: each for each in templates},
        flows={each["metadata"]["name"]: each for each in flows},
    )
    review = FlowReview(unfolded, view=VIEW, trier=trier, projections=Projections())
    while review.advance():
        pass
    return review.result()


def times(found: FlowFindings) -> dict[str, tuple[float | None, float | None]]:
    return {each.node.step: (each.start, each.finish) for each in found.steps}


def test_steps_begin_when_their_targets_end_and_the_longest_path_is_told() -> None:
    diamond = flow({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")})
    work = [template(name, takes=takes) for name, takes in (("a", "10m"), ("b", "30m"), ("c", "5m"), ("d", "1m"))]
    found = reviewed(diamond, *work, members=(member("east", (1, "8")),), offers=(flat("east", cpu=6),))
    assert times(found) == {"a": (0, 600), "b": (600, 2400), "c": (600, 900), "d": (2400, 2460)}
    assert ([name.removeprefix("f-") for name in found.path], found.finish) == (["a", "b", "d"], 2460)
    assert found.money == pytest.approx(6 * 46 / 60)


def test_what_does_not_fit_beside_the_others_waits_for_an_end_the_longest_way_first() -> None:
    two = flow({"short": (), "long": (), "after": ("long",)})
    work = [template(name, cpu="3", takes=takes) for name, takes in (("short", "10m"), ("long", "10m"), ("after", "20m"))]
    found = reviewed(two, *work, members=(member("east", (1, "4")),))
    assert times(found) == {"long": (0, 600), "short": (1800, 2400), "after": (600, 1800)}


def test_no_more_jobs_run_at_once_than_the_flow_says() -> None:
    wide = flow({"a": (), "b": (), "c": ()}, maxParallel=2)
    found = reviewed(wide, *(template(name) for name in "abc"), members=(member("east", (1, "8")),))
    assert sorted(start or 0 for start, _ in times(found).values()) == [0, 0, 600]


def test_a_step_without_a_place_holds_up_what_waits_for_it_and_nothing_else() -> None:
    steps = flow({"big": (), "after": ("big",), "other": ()})
    work = [template("big", cpu="99"), template("after"), template("other")]
    found = reviewed(steps, *work, members=(member("east", (1, "8")),))
    assert {each.node.step: each.reason for each in found.steps} == {
        "big": "NoClusterFits",
        "after": "WaitsForSteps",
        "other": "Placed",
    }
    assert ([each.node.step for each in found.blocked], found.finish, found.path) == (["big"], None, ())


def test_a_step_goes_where_what_it_reads_will_be() -> None:
    """`prepare` has room in one cluster alone; `train` would rather go to the roomier one, if it were not for the data."""
    steps = flow({"prepare": (), "train": ("prepare",)})
    egress = [{"region": region, "pricePerGiB": "1", "bandwidth": "1Gi"} for region in ("near", "far")]
    offers = (flat("near", cpu=1, egress=egress), flat("far", cpu=1, egress=egress))
    members = (member("near", (1, "9"), region="near"), member("far", (9, "8"), region="far"))
    reading = template("train", reads="prepare=50Gi")
    plain = reviewed(steps, template("prepare", cpu="9"), template("train"), members=members, offers=offers)
    near = reviewed(steps, template("prepare", cpu="9"), reading, members=members, offers=offers)
    assert {each.node.step: each.clusters for each in plain.steps} == {"prepare": ("near",), "train": ("far",)}
    assert {each.node.step: each.clusters for each in near.steps} == {"prepare": ("near",), "train": ("near",)}
    assert "of 50Gi that it reads 50Gi are in near" in (near.steps[1].answer.data if near.steps[1].answer else "")


def test_fan_outs_are_unfolded_and_nested_flows_put_in_place() -> None:
    inner = flow({"x": (), "y": ("x",)})
    inner["metadata"]["name"] = "inner"
    outer = named(
        kinds.JOB_FLOW,
        "f",
        spec={
            "flows": [
                {"name": "prepare", "with": {"items": [1, 2, 3]}},
                {"name": "nested", "flow": {"name": "inner"}, "dependsOn": {"targets": ["prepare"]}},
                {"name": "last", "dependsOn": {"targets": ["nested"]}, "when": "true"},
            ],
            "onExit": [{"name": "tell"}],
        },
    )
    work = [template(name) for name in ("prepare", "x", "y", "last", "tell")]
    found = reviewed(outer, *work, members=(member("east", (1, "8")),), flows=[inner])
    assert sorted((each.node.step, each.start) for each in found.steps) == [
        ("last", 1800),
        ("nested/x", 600),
        ("nested/y", 1200),
        ("prepare", 0),
        ("prepare", 0),
        ("prepare", 0),
        ("tell", 2400),
    ]
    assert any("condition" in note for note in found.notes)


def test_a_flow_that_explodes_is_reckoned_in_part() -> None:
    inner = named(kinds.JOB_FLOW, "inner", spec={"flows": [{"name": "x", "with": {"items": list(range(1000))}}]})
    outer = named(
        kinds.JOB_FLOW, "f", spec={"flows": [{"name": "n", "flow": {"name": "inner"}, "with": {"items": list(range(1000))}}]}
    )
    flows = {"inner": inner}
    found = graphs.unfolded(graphs.flow_of(outer, namespace="team"), templates={"x": template("x")}, flows=flows)
    assert len(found.nodes) == graphs.MOST_JOBS
    assert any("the first are reckoned" in note for note in found.notes)


def test_what_is_only_known_while_it_runs_is_said_to_be_taken_for_granted() -> None:
    steps = named(
        kinds.JOB_FLOW,
        "f",
        spec={
            "flows": [
                {"name": "a", "outputs": [{"name": "shards"}], "retry": {"limit": 2}},
                {
                    "name": "b",
                    "dependsOn": {"targets": ["a"]},
                    "with": {"fromOutput": "a.shards"},
                    "parameters": [{"name": "shard", "value": "{{item}}"}],
                },
            ]
        },
    )
    found = reviewed(steps, template("a"), template("b"), members=(member("east", (1, "8")),))
    assert len(found.steps) == 2
    assert len(found.notes) == 3


def test_a_missing_template_and_a_broken_one_are_told_at_their_steps() -> None:
    steps = flow({"a": (), "b": (), "c": ()})
    broken = template("b")
    broken["spec"]["tasks"][0]["replicas"] = -1
    found = reviewed(steps, broken, template("c"), members=(member("east", (1, "8")),))
    assert {each.node.step: each.reason for each in found.steps} == {"a": "NotMade", "b": "InvalidSpec", "c": "Placed"}


@pytest.mark.parametrize(
    "manifest",
    [
        flow({"a": ("b",), "b": ("a",)}),
        flow({"a": ("nobody",)}),
        named(kinds.JOB_FLOW, "f", spec={"flows": "x"}),
        named(kinds.JOB_FLOW, "f", spec={"flows": []}),
    ],
)
def test_a_flow_that_is_no_flow_is_refused(manifest: Tree) -> None:
    with pytest.raises(BadQuestion):
        graphs.flow_of(manifest, namespace="team")


@some.composite
def dags(draw: some.DrawFn) -> Tree:
    """A flow of a few steps, each after some of those before."""
    names = [f"s{at}" for at in range(draw(some.integers(1, 7)))]
    steps = {name: draw(some.sets(some.sampled_from(names[:at]), max_size=2)) if at else () for at, name in enumerate(names)}
    return flow({name: sorted(targets) for name, targets in steps.items()}, maxParallel=draw(some.integers(0, 3)))


@settings(max_examples=60)
@given(dags(), some.lists(some.integers(1, 4), min_size=7, max_size=7), some.integers(4, 9))
def test_no_step_begins_before_its_targets_end_and_no_cluster_runs_more_than_it_has(
    manifest: Tree, sizes: list[int], room: int
) -> None:
    work = [template(f"s{at}", cpu=str(size), takes=f"{size}m") for at, size in enumerate(sizes)]
    found = reviewed(manifest, *work, members=(member("east", (1, str(room))),))
    planned = {each.node.name: each for each in found.steps}
    assert all(each.start is not None and each.finish is not None for each in planned.values())
    for each in planned.values():
        for target in each.node.targets:
            assert (planned[target].finish or 0) <= (each.start or 0)
    limit = manifest["spec"]["maxParallel"] or 99
    for moment in {each.start for each in planned.values()}:
        now = [each for each in planned.values() if (each.start or 0) <= (moment or 0) < (each.finish or 0)]
        assert sum(sizes[int(each.node.step[1:])] for each in now) <= room
        assert len(now) <= limit
    again = reviewed(manifest, *work, members=(member("east", (1, str(room))),))
    assert msgspec.json.encode(times(again)) == msgspec.json.encode(times(found))


# --- at a hub --------------------------------------------------------------------------------------------------------
def test_a_flow_is_reviewed_with_templates_from_the_file_and_from_the_namespace_and_nothing_is_made() -> None:
    async def tell(world: World, ann: Asker) -> None:
        for name, price in (("east", 2.0), ("west", 1.0)):
            await world.port.create(kinds.CLUSTER_OFFER, offer(name, price))
        await world.port.create(kinds.JOB_TEMPLATE, template("train", pods=2, takes="30m"), namespace="default")
        await world.clock.sleep(1.0)
        manifest = flow({"prepare": (), "train": ("prepare",)})
        status = await ann.ask(manifest=manifest, templates=[template("prepare")])
        assert (status["outcome"], status["message"]) == ("Starts", "every step would run")
        assert [(each["step"], each["startSeconds"], each["finishSeconds"]) for each in status["steps"]] == [
            ("prepare", 0, 600),
            ("train", 600, 2400),
        ]
        assert (status["criticalPath"], status["currency"]) == (["f-prepare", "f-train"], "EUR")
        assert float(status["cost"]) > 0
        for kind in (kinds.JOB, kinds.JOB_FLOW, kinds.RESOURCE_BINDING):
            assert (await world.port.list(kind)).items == []

    told(tell)


def test_where_data_lies_is_told_to_those_who_may_see_clusters() -> None:
    async def tell(world: World, ann: Asker) -> None:
        source = {"system": "s3", "type": "bucket", "name": "images", "size": "50Gi", "locality": {"clusterNames": ["west"]}}
        await world.port.create(kinds.DATA_SOURCE, named(kinds.DATA_SOURCE, "images", spec=source))
        await world.clock.sleep(1)
        ask = {"manifest": flow({"train": ()}), "templates": [template("train", reads="images", cpu="3")]}
        seen = await ann.ask("a", **ask)
        assert "west" in json.dumps(seen)
        denying(world, ("list", "clusters"))
        hidden = await ann.ask("b", **ask)
        assert (hidden["steps"][0]["clusters"], "west" in json.dumps(hidden)) == (["east"], False)

    told(tell)


def test_a_flow_whose_templates_may_not_be_read_is_not_answered() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.port.create(kinds.JOB_TEMPLATE, template("train"), namespace="default")
        world.server.access = lambda review: review["resourceAttributes"]["resource"] != "jobtemplates"
        status = await ann.ask(manifest=flow({"train": ()}))
        assert (status["reason"], "steps" in status) == ("Denied", False)
        world.server.access = lambda review: review["resourceAttributes"]["resource"] != "clusters"
        status = await ann.ask("b", manifest=flow({"train": (), "big": ()}), templates=[template("big", pods=9)])
        assert status["outcome"] == "Waits"
        assert "west" not in json.dumps(status)

    told(tell)
