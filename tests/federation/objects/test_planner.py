"""What becomes of one object: decisions only."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some

from apis import keys, kinds
from federation.objects import folding
from federation.objects.planner import Plan, plan
from federation.objects.snapshot import Around, Rules, Site, Snapshot
from federation.objects.views import ObjectWork
from policies.dependencies import Reference
from policies.division import Strategy
from policies.members import ClusterView
from policies.placements import Affinity, PolicyView, ReplicaRule, Selector

NOW = "2026-01-01T00:00:00Z"
NAMES = ("east", "north", "west")
CONFIG = Reference("v1", "ConfigMap", "team", "settings")


def cluster(name: str) -> ClusterView:
    return ClusterView(namespace="", name=name, uid=name, version="1", ready="True")


def policy(**given: Any) -> PolicyView:
    selectors = (Selector("v1", "ConfigMap"), Selector("batch/v1", "Job"))
    return PolicyView(namespace="team", name="all", uid="p", generation=1, selectors=selectors, **given)


def source(**given: Any) -> dict[str, Any]:
    meta = {"name": "settings", "namespace": "team", "uid": "u", "resourceVersion": "5", **given}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}


def work_in(name: str, **given: Any) -> ObjectWork:
    where = keys.execution_namespace(name)
    return ObjectWork(where, "settings-1", f"work-{name}", "7", name, ("team", "settings-configmap"), **given)


def look(**given: Any) -> Plan:
    around = given.pop("around", Around(policies=(policy(),), sites=tuple(Site(cluster(name)) for name in NAMES)))
    snapshot = Snapshot(CONFIG, kinds.CONFIGMAP, around, **{"source": source(), **given})
    return plan(snapshot, rules=Rules(), now=NOW)


def bound(made: Plan, **meta: Any) -> dict[str, Any]:
    """The binding as the API server would have it."""
    assert made.create_binding is not None
    found = made.create_binding
    return {**found, "metadata": {**found["metadata"], "uid": "b", "resourceVersion": "6", "generation": 1, **meta}}


def test_the_binding_comes_first_with_the_decision_in_it_and_the_object_is_marked() -> None:
    found = look()
    assert found.create_binding is not None
    assert [each["name"] for each in found.create_binding["spec"]["clusters"]] == list(NAMES)
    assert {each["metadata"]["namespace"] for each in found.create} == {f"karmada-es-{name}" for name in NAMES}
    assert found.marks["annotations"][keys.POLICY_NAME] == "all"


def test_what_is_as_it_should_be_is_left_alone() -> None:
    first = look()
    digests = {
        each["metadata"]["namespace"].removeprefix("karmada-es-"): each["metadata"]["annotations"][keys.SOURCE_DIGEST]
        for each in first.create
    }
    works = {name: work_in(name, digest=digest, applied=True) for name, digest in digests.items()}
    labels = first.marks["labels"]
    again = look(binding=bound(first), works=works, source=source(labels=labels, annotations=first.marks["annotations"]))
    assert again.binding is None and not again.create and not again.update and not again.delete and not again.marks
    assert again.binding_status is not None
    told = {**bound(first), "status": again.binding_status}
    last = look(binding=told, works=works, source=source(labels=labels, annotations=first.marks["annotations"]))
    assert last == Plan()


def test_a_binding_goes_only_when_its_works_are_gone() -> None:
    binding = bound(look(), deletionTimestamp=NOW)
    assert [each.cluster for each in look(binding=binding, works={"east": work_in("east")}).delete] == ["east"]
    waiting = look(binding=binding, works={"east": work_in("east", deleting=True)})
    assert not waiting.delete and not waiting.release
    assert look(binding=binding).release


def test_the_binding_of_another_object_of_that_name_is_discarded_first() -> None:
    binding = bound(look())
    assert look(binding=binding, source=source(uid="another")) == Plan(discard=True)
    assert look(binding=binding, source=None) == Plan(discard=True)


def test_an_object_that_nobody_selects_or_that_is_anothers_is_left_alone() -> None:
    sites = tuple(Site(cluster(name)) for name in NAMES)
    assert look(around=Around(sites=sites)) == Plan()
    assert look(source=source(labels={"resourcetemplate.karmada.io/claimed-by": "mcs"})) == Plan()


def job(parallelism: int) -> dict[str, Any]:
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"parallelism": parallelism, "completions": parallelism * 2, "managedBy": "x", "template": template}
    meta = {"name": "j", "namespace": "team", "uid": "u", "resourceVersion": "5"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@settings(max_examples=60, deadline=None)
@given(pods=some.integers(1, 40), weights=some.lists(some.integers(0, 5), min_size=3, max_size=3))
def test_no_pod_and_no_completion_is_lost_or_doubled_by_division(pods: int, weights: list[int]) -> None:
    rules = tuple((Affinity(names=(name,)), weight) for name, weight in zip(NAMES, weights, strict=True) if weight)
    divided = policy(replicas=ReplicaRule(Strategy.STATIC, rules))
    reference = Reference("batch/v1", "Job", "team", "j")
    around = Around(policies=(divided,), sites=tuple(Site(cluster(name)) for name in NAMES))
    snapshot = Snapshot(reference, kinds.BATCH_JOB, around, source=job(pods))
    found = plan(snapshot, rules=Rules(filters=("affinity",)), now=NOW)
    specs = [each["spec"]["workload"]["manifests"][0]["spec"] for each in found.create]
    assert sum(each["parallelism"] for each in specs) == pods
    assert sum(each["completions"] for each in specs) == pods * 2
    assert found == plan(snapshot, rules=Rules(filters=("affinity",)), now=NOW), "the same snapshot, the same plan"
    charged = [msgspec.json.decode(each["metadata"]["annotations"][keys.DEMAND])["tasks"] for each in found.create]
    assert sum(task["replicas"] for tasks in charged for task in tasks) == pods


def test_the_end_of_a_kubernetes_job_comes_home_without_the_books_of_its_controller() -> None:
    """An API server takes no Job that is complete and still counts pods; what was told before has to be taken back."""
    books = {"uncountedTerminatedPods": {"succeeded": ["pod-uid"]}}
    done = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}], **books}
    reference = Reference("batch/v1", "Job", "team", "j")
    around = Around(policies=(policy(),), sites=(Site(cluster("east")),))
    told = {**job(1), "status": {"active": 1, **books}}
    works = {"east": work_in("east", status=msgspec.json.encode(done))}
    found = folding.object_status(Snapshot(reference, kinds.BATCH_JOB, around, source=told, works=works), {"east": 1})
    assert found is not None and found["uncountedTerminatedPods"] is None and found["succeeded"] == 1
