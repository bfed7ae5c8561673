"""Queues that are for certain namespaces."""

from __future__ import annotations

import pytest

from policies.queue_doors import NAMESPACES, UnreadableSelector, door_of, requirements

TEAM_A = {"kubernetes.io/metadata.name": "a", "team": "research", "env": "prod"}


@pytest.mark.parametrize(
    ("selector", "admits"),
    [
        ("team=research", True),
        ("team == research", True),
        ("team!=research", False),
        ("team in (research, sales)", True),
        ("team notin (research,sales)", False),
        ("team in (sales),env=prod", False),
        ("team in (research,sales),env", True),
        ("!retired", True),
        ("retired", False),
        ("kubernetes.io/metadata.name in (a, b)", True),
        ("team=", False),
    ],
)
def test_a_queue_admits_the_namespaces_that_its_selector_selects(selector: str, admits: bool) -> None:
    door = door_of({NAMESPACES: selector})
    assert door is not None
    assert door.admits(TEAM_A) is admits


def test_a_queue_without_the_annotation_is_for_everybody() -> None:
    assert door_of({}) is None


@pytest.mark.parametrize("text", ["", "team in", "a b", "team=(x)", "team in (a b)", ",", "=x", "x=y=z"])
def test_what_is_no_selector_selects_nobody_and_is_named(text: str) -> None:
    door = door_of({NAMESPACES: text})
    assert door is not None
    assert not door.admits(TEAM_A)
    assert "cannot be read" in door.why_not("gpu", namespace="a")
    with pytest.raises(UnreadableSelector):
        requirements(text)


def test_who_is_kept_out_is_told_for_whom_it_is() -> None:
    door = door_of({NAMESPACES: "team=sales"})
    assert door is not None
    assert door.why_not("gpu", namespace="a") == "queue gpu is not for namespace a: it is for namespaces with team=sales"
