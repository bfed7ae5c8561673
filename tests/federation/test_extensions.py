"""Filters and scores of other packages: the example that comes along, installed, used, and what becomes of broken ones."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest

from federation import extensions
from federation.dispatch.planner import plan
from policies import extending, filters, scores
from policies.profiles import Profile, project_profile
from tests.federation.test_planner import RULES, case, decisions, member, snapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "placement-rules"


@dataclass(frozen=True)
class Point:
    """An entry point, as an installed package would have it."""

    name: str
    rule: Callable[[], object]

    def load(self) -> object:
        return self.rule()


def points(group: str) -> list[Point]:
    """Those that the example's pyproject names."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    found = []
    for name, target in project["entry-points"][group].items():
        module, _, attribute = target.partition(":")
        found.append(Point(name, lambda module=module, attribute=attribute: getattr(import_module(module), attribute)))  # type: ignore[misc]
    return found


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, installed."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    extensions.install(points(extending.FILTER_ENTRY_POINTS), points(extending.SCORE_ENTRY_POINTS))
    yield
    filters.FILTERS.remove("green-only")
    scores.SCORES.remove("near-home")
    sys.modules.pop("green_places", None)


GREEN = {"example.com/energy": "green"}


def home(*, labels: dict[str, str], **given: object) -> str:
    waiting = case("a")
    assert waiting.job is not None
    waiting = replace(waiting, job=replace(waiting.job, labels=labels, settings={"profile": str(given.pop("profile", ""))}))
    members = (member("coal", (1, "64"), region="us"), member("wind", (1, "8"), region="eu", labels=GREEN))
    rules = replace(RULES, filters=(*RULES.filters[:4], "green-only", *RULES.filters[4:]))
    made = decisions(plan(snapshot(waiting, members=members, **given), rules=rules))["a"]
    return ",".join(made.clusters)


@pytest.mark.usefixtures("installed")
def test_a_filter_of_another_package_keeps_jobs_where_it_says() -> None:
    assert home(labels={}) == "coal"
    assert home(labels={"example.com/green": "true"}) == "wind"


@pytest.mark.usefixtures("installed")
def test_a_score_of_another_package_decides_where_a_profile_weighs_it() -> None:
    document = b'{"metadata": {"name": "near"}, "spec": {"weights": {"near-home": 5}}}'
    near = project_profile(document)
    assert near.weights == {"near-home": 5} and not near.problems
    profiles: dict[str, Profile] = {"near": near}
    assert home(labels={"example.com/home": "eu"}, profile="near", profiles=profiles) == "wind"
    assert home(labels={"example.com/home": "us"}, profile="near", profiles=profiles) == "coal"


def test_a_score_that_is_not_installed_is_told_and_weighs_nothing() -> None:
    found = project_profile(b'{"metadata": {"name": "near"}, "spec": {"weights": {"near-home": 5, "cost": 1}}}')
    assert found.weights == {"cost": 1} and [each.field for each in found.problems] == ["spec.weights.near-home"]


def test_a_rule_that_breaks_says_no_or_nothing_and_holds_up_nobody() -> None:
    def breaks(question: object) -> object:
        raise LookupError("no such label")

    verdict = extending.guarded_filter("mine", breaks)(None)
    assert (verdict.code, verdict.passes) == ("FilterFailed", False) and "no such label" in verdict.text
    assert extending.guarded_filter("mine", lambda question: True)(None).code == "FilterFailed"
    assert extending.guarded_score("mine", breaks)(None) == 0
    assert [extending.guarded_score("mine", lambda question, each=each: each)(None) for each in (-5, 33.4, 1e9, "x")] == [  # type: ignore[misc]
        0,
        33,
        100,
        0,
    ]


@pytest.mark.parametrize(
    ("name", "rule", "why"),
    [
        ("health", lambda: print, "is there already"),
        ("Bad Name", lambda: print, "is no name of a rule"),
    ],
)
def test_a_name_that_is_taken_or_is_none_is_refused(name: str, rule: Callable[[], object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        extensions.install([Point(name, rule)], [])


def test_the_hub_says_which_rule_it_cannot_use() -> None:
    def missing() -> object:
        raise ImportError("no module named green")

    with pytest.raises(extensions.Unusable, match="green-only cannot be loaded: no module named green"):
        extensions.install([Point("green-only", missing)], [])
    with pytest.raises(extensions.Unusable, match="is no function but int"):
        extensions.install([], [Point("three", lambda: 3)])
    with pytest.raises(extensions.Unusable, match="no filter unheard-of is installed"):
        extensions.check(["health", "unheard-of"])
