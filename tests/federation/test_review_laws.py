"""Laws of reviews, by rounds: the named change, made for real, lets the Job start; nothing cheaper that was tried does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from apis import kinds
from federation.dispatch.items import Act
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Member, Snapshot
from federation.dispatch.trying import RoundTrier
from federation.reviews.jobs import Findings, JobReview
from federation.reviews.questions import ReviewView, completed
from federation.reviews.rights import Rights
from policies.placements import Affinity, PolicyView, Selector
from policies.relaxing import Change, Scene, changed
from policies.shapes import Taint
from policies.trials import Trial
from policies.views import Projections
from tests.federation.test_planner import QUEUES, RULES, decisions, member

ALL = Rights(clusters=True, profiles=True, queues=frozenset({"default", "narrow"}))
VIEW = ReviewView("default", "review", "uid", "1", created="2026-01-01T00:00:00Z")
SLOW = (HealthCheck.too_slow,)
"""A loaded machine is slow, not wrong: every example is a federation."""
MAINTAINED = Taint("maintenance", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Setting:
    """A Job, the members, and the policy that governs it."""

    manifest: dict[str, Any]
    members: tuple[Member, ...]
    policy: PolicyView


@some.composite
def worlds(draw: some.DrawFn) -> Setting:
    names = ("a", "b", "c")
    members = []
    for name in names:
        taints = (MAINTAINED,) if draw(some.booleans()) else ()
        members.append(member(name, (draw(some.integers(1, 2)), str(draw(some.integers(0, 4)))), taints=taints))
    tasks = []
    for at in range(draw(some.integers(1, 2))):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(draw(some.integers(1, 3)))}}}
        pod: dict[str, Any] = {"containers": [container]}
        if draw(some.integers(0, 4)) == 0:
            pod["nodeSelector"] = {"gpu": "a100"}
        tasks.append({"name": f"t{at}", "replicas": draw(some.integers(1, 5)), "template": {"spec": pod}})
    spec = {"queue": draw(some.sampled_from(["default", "narrow"])), "tasks": tasks}
    notes = {"volcano-federation.io/suspend": "true"} if draw(some.integers(0, 4)) == 0 else {}
    raw = {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": "train", "annotations": notes},
        "spec": spec,
    }
    manifest, problems = completed(raw, view=VIEW)
    assert problems == ()
    allowed = draw(some.lists(some.sampled_from(names), min_size=1, unique=True))
    every = Selector(kinds.JOB.api_version, "Job")
    policy = PolicyView(
        "default", "p", uid="u", version="1", selectors=(every,), affinities=(Affinity(tuple(sorted(allowed))),)
    )
    return Setting(manifest, tuple(members), policy)


def reviewed(world: Setting) -> Findings:
    look = Snapshot(cases=(), members=world.members, queues=QUEUES, policies=(world.policy,))
    trier = RoundTrier(look, rules=RULES, settings={})
    review = JobReview(world.manifest, trier=trier, projections=Projections(), rights=ALL, asked=True, most=60)
    while review.advance():
        pass
    return review.result()


def placed(world: Setting, changes: tuple[Change, ...]) -> bool:
    """Whether a round places the Job once the changes were made."""
    scene = changed(Scene(world.manifest, world.policy), changes)
    job = Projections().job(msgspec.json.encode(scene.manifest))
    case = Case(job.key, job=job)
    look = Snapshot(cases=(case,), members=world.members, queues=QUEUES, policies=(scene.policy,))
    return decisions(plan(look, rules=RULES))["train"].act is Act.PLACE


@settings(max_examples=25, suppress_health_check=SLOW)
@given(worlds())
def test_the_named_change_starts_it_and_the_cheaper_ones_that_were_tried_do_not(world: Setting) -> None:
    found = reviewed(world)
    assert found.answer.starts == placed(world, ())
    if found.cheapest is not None:
        assert not found.answer.starts
        assert placed(world, found.cheapest.changes)
    for tried in found.tried:
        assert tried.starts == placed(world, tried.changes)
        assert not tried.starts or (found.cheapest is not None and tried.cost >= found.cheapest.cost)


@settings(max_examples=10, suppress_health_check=SLOW)
@given(worlds())
def test_the_same_snapshot_gives_the_same_findings(world: Setting) -> None:
    assert msgspec.json.encode(reviewed(world).tried) == msgspec.json.encode(reviewed(world).tried)


@settings(max_examples=20, suppress_health_check=SLOW)
@given(worlds())
def test_asking_changes_nothing(world: Setting) -> None:
    look = Snapshot(cases=(), members=world.members, queues=QUEUES, policies=(world.policy,))
    trier = RoundTrier(look, rules=RULES, settings={})
    trial = Trial(Projections().job(msgspec.json.encode(world.manifest)))
    first = trier.answer(trial)
    for _ in range(3):
        trier.starts(trial)
    assert trier.answer(trial) == first
