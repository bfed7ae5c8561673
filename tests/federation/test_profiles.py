"""Rounds weigh money, time and room as profiles say, with what clusters offer at that moment."""

from __future__ import annotations

from dataclasses import replace

from apis import keys, kinds
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Member
from machinery.port import PatchType
from policies.placements import PolicyView, Selector
from policies.profiles import Profile
from tests.federation.test_planner import RULES, case, decisions, member, snapshot
from tests.federation.world import World, job, story
from tests.policies.offering import flat

SLOW, FAST = flat("slow", cpu=1), flat("fast", cpu=6, throughput=4)
MEMBERS = (member("fast", (1, "64")), member("slow", (1, "64")))


def home(*, members: tuple[Member, ...] = MEMBERS, profiles: dict[str, Profile] | None = None, **settings: str) -> str:
    waiting = case("a")
    assert waiting.job is not None
    waiting = replace(waiting, job=replace(waiting.job, settings=settings))
    made = plan(snapshot(waiting, members=members, offers=(FAST, SLOW), profiles=profiles or {}), rules=RULES)
    return ",".join(decisions(made)["a"].clusters)


def test_the_profile_that_a_job_names_decides() -> None:
    assert home(profile="cost-first") == "slow"
    assert home(profile="efficiency-first") == "fast"


def test_a_profile_of_ones_own_replaces_the_one_that_comes_along() -> None:
    assert home(profile="cost-first", profiles={"cost-first": Profile("cost-first", {"efficiency": 1})}) == "fast"
    assert home(profiles={"balanced": Profile("balanced", {"cost": 1})}) == "slow"


def test_the_policy_and_the_namespace_may_name_it_too() -> None:
    governed = PolicyView(
        "default", "p", "p", selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),), settings={"profile": "cost-first"}
    )
    made = plan(snapshot(case("a"), members=MEMBERS, offers=(FAST, SLOW), policies=(governed,)), rules=RULES)
    assert decisions(made)["a"].clusters == ("slow",)
    told = replace(case("a"), settings={"profile": "efficiency-first"})
    made = plan(snapshot(told, members=MEMBERS, offers=(FAST, SLOW)), rules=RULES)
    assert decisions(made)["a"].clusters == ("fast",)


def test_a_profile_that_nobody_knows_is_told_and_holds_up_nobody() -> None:
    waiting = replace(case("a"), settings={"profile": "chep"})
    decision = decisions(plan(snapshot(waiting, members=MEMBERS), rules=RULES))["a"].decision
    assert decision is not None
    assert decision.message.endswith("there is no PlacementProfile chep: balanced is used")


def test_a_price_that_changes_counts_from_the_next_job_on() -> None:
    async def prices(world: World, **cores: str) -> None:
        for name, price in cores.items():
            body = {
                "apiVersion": "volcano-federation.io/v1alpha1",
                "kind": "ClusterOffer",
                "metadata": {"name": name},
                "spec": {"currency": "EUR", "classes": [{"name": "all", "prices": {"cpu": price}}]},
            }
            await world.port.patch(kinds.CLUSTER_OFFER, name, body, type=PatchType.APPLY, field_manager="test", force=True)

    async def tell(world: World) -> None:
        for name in ("east", "west"):
            world.member(name)
        world.hub()
        await prices(world, east="1", west="2")
        await world.submit(job("first", annotations={keys.PROFILE: "cost-first"}))
        await world.until_phase("first", "Completed")
        await prices(world, east="3")
        await world.clock.sleep(1)
        await world.submit(job("second", annotations={keys.PROFILE: "cost-first"}))
        await world.until_phase("second", "Completed")
        assert [stint.cluster for stint in world.journal.stints] == ["east", "west"]

    story(tell)
