"""Laws of the pieces that the Job controller decides with."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as some

from member_agent.jobs import ranges
from member_agent.jobs.floors import Floors
from member_agent.jobs.places import order, places
from member_agent.jobs.roster import Roster
from member_agent.views import JobView, PodView, Projector
from tests.member_agent.test_room import pod, shape
from tests.member_agent.world import job as manifest_of

PHASES = ("Pending", "Running", "Succeeded", "Failed")
ONE = shape(1)


def member(index: int, *, phase: str = "Running", version: int = 0, task: str = "work", **more: object) -> PodView:
    made = pod(f"train-{task}-{index}", ONE, task=task, on="n")
    return dataclasses.replace(made, phase=phase, index=index, job_version=version, **more)  # type: ignore[arg-type]


def view(replicas: int, *, memory: dict[str, object] | None = None, **spec: Any) -> JobView:
    manifest = manifest_of("train", replicas=replicas, minimum=0, **spec)
    meta = {**manifest["metadata"], "uid": "uid-1", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"state": {"phase": "Running"}, "memory": memory or {}}
    return Projector().job(orjson.dumps({**manifest, "metadata": meta, "status": status}))


@given(some.sets(some.integers(min_value=0, max_value=300)))
def test_a_set_of_indices_is_read_as_it_was_written(indices: set[int]) -> None:
    assert ranges.read(ranges.text(indices)) == indices


@given(some.text(alphabet="0123456789-, x", max_size=30))
def test_no_text_of_indices_is_too_strange_to_read(text: str) -> None:
    assert all(index >= 0 for index in ranges.read(text))


changes = some.lists(
    some.tuples(
        some.integers(min_value=0, max_value=6),
        some.sampled_from([*PHASES, "gone", "anew"]),
        some.booleans(),
        some.integers(min_value=0, max_value=2),
        some.booleans(),
    ),
    max_size=60,
)


@given(changes)
def test_a_roster_kept_by_changes_is_one_made_at_once(steps: list[tuple[int, str, bool, int, bool]]) -> None:
    roster, there = Roster(), dict[str, PodView]()
    for number, (index, what, deleting, restarts, ready) in enumerate(steps):
        name = f"train-work-{index}"
        if what == "gone" and name in there:
            roster.remove(there.pop(name))
        elif what != "gone":
            fresh = what == "anew" or name not in there
            uid = f"uid-{number}" if fresh else there[name].uid
            phase = "Pending" if what == "anew" else what
            if fresh and name in there:
                roster.remove(there.pop(name))
            there[name] = member(index, phase=phase, deleting=deleting, restarts=restarts, ready=ready, uid=uid)
            roster.add(there[name])
    whole = Roster(there.values())
    for kept in ("pods", "deleting", "failed", "early", "stuck"):
        assert getattr(roster, kept) == getattr(whole, kept)
    for counted in ("phases", "ready", "restarts", "versions"):
        assert +getattr(roster, counted) == +getattr(whole, counted)
    assert roster.there("work") == whole.there("work")
    assert roster.succeeded.get("work", set()) == whole.succeeded.get("work", set())
    assert roster.unfinished == whole.unfinished
    count = len(roster.there("work"))
    assert roster.fills("work", first=0, count=count) == (set(roster.there("work")) == set(range(count)))
    assert all(slot not in {(pod.task, pod.index) for pod in there.values()} for slot in roster.lost)


@settings(max_examples=200)
@given(
    some.integers(min_value=0, max_value=8),
    some.dictionaries(some.integers(min_value=0, max_value=12), some.sampled_from(PHASES), max_size=10),
    some.sets(some.integers(min_value=0, max_value=12)),
    some.booleans(),
)
def test_a_task_comes_to_its_replicas_and_stays_there(
    replicas: int, phases: dict[int, str], made: set[int], plain: bool
) -> None:
    plugins: dict[str, Any] = {} if plain else {"plugins": {"env": []}}
    job = view(replicas, memory={"pods": {"work": ranges.text(made)}}, **plugins)
    roster = Roster(member(index, phase=phase) for index, phase in phases.items())
    (found,) = places(job, roster=roster, floors=Floors(job))
    kept = {index for index in phases if roster.pods[order(job, "work", index).name] not in found.surplus}
    after = kept | {each.index for each in found.missing}
    assert len(after) == replicas
    assert not kept & {each.index for each in found.missing}
    if not plain:
        assert after == set(range(replicas))
    if any(phases[index] == "Pending" for index in kept) and plain and not made:
        assert not any(phases[each.index] in ("Running", "Succeeded") for each in found.surplus)
    settled = Roster(member(index, phase=phases.get(index, "Pending")) for index in after)
    (again,) = places(view(replicas, memory={"pods": {"work": found.kept}}, **plugins), roster=settled, floors=Floors(job))
    assert (again.missing, again.surplus) == ((), ())


@given(some.lists(some.sampled_from(["", "work", "work#2", "work/1", "other", "work#3"]), max_size=6))
def test_a_pod_counts_from_the_highest_floor_that_means_it(scopes: list[str]) -> None:
    floors = {scope: number + 1 for number, scope in enumerate(scopes)}
    manifest = {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
    job = view(4, memory={"floors": floors})
    roles = tuple(dataclasses.replace(role, partition=manifest["partitionPolicy"]["partitionSize"]) for role in job.rules.roles)
    job = dataclasses.replace(job, rules=dataclasses.replace(job.rules, roles=roles))
    means = {0: ("", "work"), 1: ("", "work"), 2: ("", "work", "work/1", "work#2"), 3: ("", "work", "work/1", "work#3")}
    for index, names in means.items():
        highest = max((floors.get(name, 0) for name in names), default=0)
        for version in range(highest + 2):
            assert Floors(job).stale(member(index, version=version)) == (version < highest)


def test_counting_knows_every_phase() -> None:
    roster = Roster(member(index, phase=phase) for index, phase in enumerate(PHASES))
    assert roster.phases == Counter({("work", phase): 1 for phase in PHASES})
