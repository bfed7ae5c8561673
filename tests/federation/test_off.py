"""For each filter and each score a plan that changes when it is turned off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apis.vectors import ResourceVector
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Member
from policies.capacities import MemberQueue
from policies.company import Resident
from policies.filters import FILTERS
from policies.placements import Affinity, PolicyView, Selector
from policies.profiles import RULES as SCORE_RULES
from policies.profiles import Profile
from policies.scores import SCORES
from policies.shapes import Taint
from tests.federation.test_planner import RULES, case, decisions, member, snapshot
from tests.policies import test_profiles
from tests.policies.offering import flat

JOBS = (Selector("batch.volcano.sh/v1alpha1", "Job"),)
CHEAPEST = {"balanced": Profile("balanced", {"cost": 1})}
OFFERS = (flat("bad", cpu=1), flat("good", cpu=9))
"""By money alone every Job goes to `bad`, unless a filter says no."""


def bad(**given: Any) -> Member:
    return member("bad", (1, "64"), **given)


def closed_there() -> Member:
    found = bad()
    assert found.capacity is not None
    queue = MemberQueue("default", "", open=False, used=ResourceVector(), limit=None)
    return replace(found, capacity=replace(found.capacity, queues={"default": queue}))


def full() -> Member:
    return member("bad", (1, "1"))


STORIES: dict[str, dict[str, Any]] = {
    "health": {"members": replace(bad(), cluster=replace(bad().cluster, ready="False"))},
    "affinity": {"policies": (PolicyView("default", "p", "p", selectors=JOBS, affinities=(Affinity(names=("good",)),)),)},
    "taints": {"members": bad(taints=(Taint("gpu", "", "NoSchedule"),))},
    "apis": {"members": bad(kinds=frozenset({("v1", "Pod")}))},
    "company": {
        "policies": (PolicyView("default", "p", "p", selectors=JOBS, apart_by="team"),),
        "residents": (Resident("uid-other", "default", {"team": "physics"}, frozenset({"bad"})),),
    },
    "refused": {"closed": "uid-a"},
    "queue": {"members": closed_there()},
    "capacity": {"members": full()},
}
"""Of each filter, what it says no to in the cluster `bad`."""


def home(story: dict[str, Any], *, filters: tuple[str, ...]) -> str:
    waiting = case("a")
    assert waiting.job is not None
    waiting = replace(waiting, job=replace(waiting.job, labels={"team": "physics"}))
    members = (story.get("members", bad()), member("good", (1, "64")))
    closed = {(story["closed"], "bad"): "it refused"} if "closed" in story else {}
    look = snapshot(
        waiting,
        members=members,
        offers=OFFERS,
        profiles=CHEAPEST,
        closed=closed,
        policies=story.get("policies", ()),
        residents=story.get("residents", ()),
    )
    return ",".join(decisions(plan(look, rules=replace(RULES, filters=filters)))["a"].clusters)


@pytest.mark.parametrize("name", STORIES)
def test_turning_a_filter_off_changes_the_plan(name: str) -> None:
    assert home({}, filters=RULES.filters) == "bad", "where nothing speaks against it money decides"
    assert home(STORIES[name], filters=RULES.filters) == "good"
    assert home(STORIES[name], filters=tuple(each for each in RULES.filters if each != name)) == "bad"


def test_no_filter_is_forgotten() -> None:
    assert set(STORIES) == set(FILTERS) == set(RULES.filters)


def test_no_score_is_forgotten() -> None:
    """Each is turned off in `tests/policies/test_profiles.py::test_turning_a_rule_off_changes_the_choice`."""
    marked: Any = test_profiles.test_turning_a_rule_off_changes_the_choice
    (marks,) = (each for each in marked.pytestmark if each.name == "parametrize")
    assert set(marks.args[1]) == set(SCORE_RULES) >= set(SCORES)
