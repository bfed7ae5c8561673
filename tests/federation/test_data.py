"""Rounds weigh what a Job reads: where it lies, what bringing it costs and how long that takes."""

from __future__ import annotations

from dataclasses import replace

from federation.dispatch.items import Decide
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case
from policies.offers import OfferView
from policies.reads import SourceView
from tests.federation.test_planner import RULES, case, decisions, member, snapshot
from tests.policies.offering import flat

MEMBERS = (
    member("east", (9, "8"), region="eu"),
    member("north", (40, "8"), region="eu"),
    member("west", (40, "8"), region="us"),
)
EAST_SELLS_DEAR = (
    flat("east", cpu=4, egress=[{"region": "us", "pricePerGiB": "0.1", "bandwidth": "100Mi"}]),
    flat("north", cpu=4),
    flat("west", cpu=1),
)
SOURCES = {"images": SourceView("", "images", size=500 << 30, clusters=("east",))}


def placed(*, step: bool = True, offers: tuple[OfferView, ...] = (), **settings: str) -> Decide:
    """One Job, of a step of a flow where nothing else is said."""
    waiting = case("a")
    assert waiting.job is not None
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    seen = replace(waiting.job, settings=named, created_by_flow="default.flow" if step else "")
    made = plan(snapshot(replace(waiting, job=seen), members=MEMBERS, offers=offers, sources=SOURCES), rules=RULES)
    return decisions(made)["a"]


def test_a_step_goes_to_what_its_target_left() -> None:
    assert placed().clusters != ("east",)
    decided = placed(reads="prepare@east=50Gi")
    assert decided.clusters == ("east",)
    assert decided.decision is not None
    assert decided.decision.data == "of 50Gi that it reads 50Gi are in east (prepare)"


def test_a_step_goes_to_its_data_source_by_name() -> None:
    assert placed(reads="images").clusters == ("east",)


def test_the_greater_share_of_bytes_decides() -> None:
    assert placed(reads="prepare@east=50Gi,labels@north=2Gi").clusters == ("east",)
    assert placed(reads="prepare@east=2Gi,labels@north=50Gi").clusters == ("north",)


def test_money_decides_whether_data_or_work_moves() -> None:
    """Two cores of an hour: 8 in east, 2 in west; a GiB that leaves east for the us costs 0.1."""
    small = placed(reads="prepare@east=10Gi", profile="cost-first", offers=EAST_SELLS_DEAR)
    assert small.clusters == ("west",)
    assert small.decision is not None
    assert small.decision.data == "of 10Gi that it reads 0Gi are in west; the rest comes from east for 1 in 102.4 s"
    assert placed(reads="prepare@east=100Gi", profile="cost-first", offers=EAST_SELLS_DEAR).clusters == ("east",)


def test_time_decides_by_the_bandwidth_of_the_way() -> None:
    offers = (
        flat("east", cpu=1, egress=[{"region": "us", "pricePerGiB": 0, "bandwidth": "1Gi"}]),
        flat("north", cpu=1),
        flat("west", cpu=1, throughput=2),
    )
    assert placed(reads="prepare@east=100Gi", profile="efficiency-first", offers=offers).clusters == ("west",)
    assert placed(reads="prepare@east=10Ti", profile="efficiency-first", offers=offers).clusters == ("east",)


def test_any_job_may_name_the_profile_of_steps() -> None:
    assert placed(step=False, reads="images", profile="data-first").clusters == ("east",)


def test_what_cannot_be_read_is_told_and_holds_up_nobody() -> None:
    decided = placed(reads="prepare@east=lots,images")
    assert decided.clusters == ("east",)
    assert decided.decision is not None and "'prepare@east=lots'" in decided.decision.message


def test_of_steps_made_in_the_same_second_the_one_with_the_longest_path_ahead_goes_first() -> None:
    def waits(name: str, ahead: int, created: str = "2026-01-01T00:00:00Z") -> Case:
        found = case(name, 4, created=created)
        assert found.job is not None
        return replace(found, job=replace(found.job, settings={"path-ahead": str(ahead)}))

    cases = (waits("a-leaf", 1), waits("b-trunk", 7), waits("c-late-trunk", 9, created="2026-01-01T00:00:01Z"))
    made = plan(snapshot(*cases, members=(member("east", (2, "4")),)), rules=RULES)
    assert [name for name, item in decisions(made).items() if item.clusters] == ["b-trunk", "a-leaf"]
