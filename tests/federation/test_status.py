"""What bindings say: small with a hundred clusters, with generation and times, and how well each cluster's part is."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec

from apis.runs import BindingRun, Part, Share
from federation.collection.telling import tell
from federation.dispatch import documents
from federation.dispatch.items import Decide
from federation.dispatch.planner import plan
from policies.placements import PolicyView, Selector
from policies.views import Stage
from tests.federation.test_planner import RULES, case, member, snapshot
from tests.policies.build import job
from tests.policies.test_folding import NOW, binding, work

MANIFEST: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "default", "uid": "0" * 36, "resourceVersion": "123456"},
    "spec": {"tasks": [{"name": "work", "replicas": 2}]},
}


def decided(*, cpu: str) -> dict[str, Any]:
    """The binding of a Job that is judged for a hundred clusters with long names."""
    members = tuple(member(f"member-with-quite-a-long-name-{number:03}", (4, "2")) for number in range(100))
    policy = PolicyView(
        "default", "p", "p", selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),), placement=b'{"clusterTolerations": []}'
    )
    made = plan(snapshot(case("a", cpu=cpu), members=members, policies=(policy,)), rules=RULES)
    (item,) = [each for each in made.items if isinstance(each, Decide)]
    return documents.new_binding(item, job=MANIFEST, replicas=2)


def test_a_binding_with_a_hundred_clusters_to_choose_from_has_at_most_four_kibibytes() -> None:
    for cpu in ("1", "64"):
        assert len(msgspec.json.encode(decided(cpu=cpu))) + 600 <= 4096, "with what the API server adds, and its status"


def test_conditions_carry_the_generation_they_speak_of_and_keep_their_time() -> None:
    view = dataclasses.replace(binding("east"), generation=3)
    first = tell(job(), binding=view, works=(work("east", "Pending"),), seen_end=None, now=NOW)
    assert first.binding_status is not None and first.stage is Stage.SCHEDULED
    assert {each["observedGeneration"] for each in first.binding_status["conditions"]} == {3}
    told = dataclasses.replace(view, stage=(1, Stage.SCHEDULED), scheduled=NOW)
    later = tell(job(), binding=told, works=(work("east", "Running", running=1),), seen_end=None, now="2026-01-01T01:00:00Z")
    assert later.binding_status is not None
    times = {each["type"]: each["lastTransitionTime"] for each in later.binding_status["conditions"]}
    assert times["Scheduled"] == NOW and later.binding_status["lastScheduledTime"] == NOW
    assert times["Started"] == "2026-01-01T01:00:00Z"


def test_each_cluster_has_its_health_and_why_it_refused() -> None:
    refused = dataclasses.replace(work("west", "Running"), applied=False, message="no room", encoded=None)
    view = binding("east", "north", "west")
    told = tell(job(), binding=view, works=(work("east", "Running"), work("north", "Failed"), refused), seen_end=None, now=NOW)
    assert told.binding_status is not None
    items = {each["clusterName"]: each for each in told.binding_status["aggregatedStatus"]}
    assert {name: each["health"] for name, each in items.items()} == {
        "east": "Healthy",
        "north": "Unhealthy",
        "west": "Unknown",
    }
    assert items["west"]["appliedMessage"] == "no room"


def test_the_status_of_a_binding_with_many_parts_tells_as_much_as_fits() -> None:
    names = [f"member-{number:03}" for number in range(20)]
    run = BindingRun(job="uid-a", epoch=1, parts={name: Part(name, 1, shares={"w": Share(1, 1, 0, 20)}) for name in names})
    view = dataclasses.replace(binding(*names), run=run)
    works = tuple(work(name, "Running", message="m" * 200, running=1) for name in names)
    told = tell(job(), binding=view, works=works, seen_end=None, now=NOW)
    assert told.binding_status is not None
    assert len(told.binding_status["aggregatedStatus"]) == 20
    assert len(json.dumps([each.get("status") for each in told.binding_status["aggregatedStatus"]])) < 3000
    assert "and 15 more" in told.binding_status["conditions"][0]["message"]
