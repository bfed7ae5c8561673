"""The needs of all runs, the Works that they ask for, and what is in these: decisions only."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as some

from apis import keys, kinds
from federation.dependencies import documents
from federation.dependencies.documents import CompanionWork
from federation.dependencies.needs import Needs
from federation.dependencies.planner import Plan, Snapshot, plan
from policies.claims import Conflict
from policies.dependencies import Companion, Parent, Reference, References, companions
from policies.placements import PolicyView

SECRET = Reference("v1", "Secret", "team", "key")
SOURCE = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "team"}, "data": {"a": "eA=="}}
OBJECTS = [Reference("v1", "Secret", "team", name) for name in "abc"]


def needed(*clusters: str, conflict: Conflict = Conflict.ABORT, preserve: bool = False) -> Companion:
    return Companion(dict.fromkeys(clusters, 1), conflict, preserve)


def work_in(cluster: str, *, digest: str = "", **given: Any) -> CompanionWork:
    return CompanionWork(
        keys.execution_namespace(cluster), "key-1", f"uid-{cluster}", "7", cluster, SECRET, digest, finalized=True, **given
    )


def decide(**given: Any) -> Plan:
    return plan(Snapshot(SECRET, **{"source": SOURCE, "clusters": ("east", "west"), **given}), linger=60)


parents = some.builds(
    Parent,
    clusters=some.frozensets(some.sampled_from(["east", "west", "north"])),
    references=some.builds(
        References,
        always=some.lists(some.sampled_from(OBJECTS[:2]), unique=True).map(tuple),
        asked=some.lists(some.sampled_from(OBJECTS[2:]), unique=True).map(tuple),
    ),
    policy=some.builds(
        PolicyView,
        namespace=some.just("team"),
        name=some.just("p"),
        overwrites=some.booleans(),
        preserves=some.booleans(),
        carries=some.booleans(),
    ),
)


@settings(max_examples=60, deadline=None)
@given(some.lists(some.tuples(some.integers(0, 3), some.none() | parents), max_size=12))
def test_what_is_kept_by_changes_is_what_looking_at_all_of_them_says(changes: list[tuple[int, Parent | None]]) -> None:
    needs, live = Needs(), dict[int, Parent]()
    for who, parent in changes:
        before = {each: needs.companion(each) for each in OBJECTS}
        told = needs.put(("team", str(who)), parent)
        live.pop(who, None)
        if parent is not None:
            live[who] = parent
        whole = companions(live.values())
        for each in OBJECTS:
            now = needs.companion(each)
            assert now == whole.get(each)
            if each not in told:
                assert (now is None) == (before[each] is None)
                assert now is None or now.clusters == before[each].clusters  # type: ignore[union-attr]


def test_one_work_in_every_cluster_that_needs_it() -> None:
    found = decide(wanted=needed("west", "east"))
    assert found.create == ("east", "west") and not found.update and not found.delete
    assert decide(wanted=needed("west", "gone")).create == ("west",)


def test_a_changed_object_rewrites_its_works_and_an_unchanged_one_does_not() -> None:
    first = decide(wanted=needed("west"))
    assert first.spec is not None
    there = {"west": work_in("west", digest=documents.digest(first.spec))}
    assert decide(wanted=needed("west"), works=there) == Plan(spec=first.spec)
    changed = {**SOURCE, "data": {"a": "eQ=="}}
    assert decide(wanted=needed("west"), works=there, source=changed).update == (there["west"],)
    assert decide(wanted=needed("west", conflict=Conflict.OVERWRITE), works=there).update == (there["west"],)


def test_what_nobody_needs_lingers_and_goes() -> None:
    there = {"west": work_in("west")}
    assert decide(works=there, unneeded={"uid-west": 20.0}) == Plan(again=40.0)
    assert decide(works=there, unneeded={"uid-west": 60.0}).delete == (there["west"],)


def test_what_was_deleted_at_the_hub_stays_where_runs_need_it() -> None:
    there = {"west": work_in("west", digest="old")}
    assert decide(wanted=needed("west"), works=there, source=None) == Plan(missing=True)


def test_nobody_waits_for_a_cluster_that_has_left() -> None:
    there = {"north": work_in("north")}
    assert decide(works=there).delete == (there["north"],)
    leaving = {"north": work_in("north", deleting=True)}
    assert decide(works=leaving).forsaken == (leaving["north"],)


def test_members_get_nothing_that_is_the_hubs_own() -> None:
    queue = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": "research", "uid": "u", "managedFields": [], "annotations": {"kubectl.kubernetes.io/x": "y"}},
        "spec": {"weight": 3, "guarantee": {"resource": {"cpu": "9"}}, "deserved": {"cpu": "9"}},
        "status": {"state": "Open"},
    }
    made = documents.manifest(queue, conflict=Conflict.ABORT)
    assert made["spec"] == {"weight": 3} and "status" not in made and "uid" not in made["metadata"]
    assert not documents.travels({**SOURCE, "type": "kubernetes.io/service-account-token"})


def test_a_claim_stays_with_what_it_holds() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"volumeName": "pv-1"}}
    reference = Reference("v1", "PersistentVolumeClaim", "team", "data")
    body = documents.spec(claim, reference=reference, companion=needed("west"))
    assert body["preserveResourcesOnDeletion"] is True and "spec" not in body["workload"]["manifests"][0]


def test_what_is_read_back_of_a_work_holds_no_contents() -> None:
    body = documents.work(SECRET, cluster="west", spec=documents.spec(SOURCE, reference=SECRET, companion=needed("west")))
    body["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    read = documents.project_companion(orjson.dumps(body))
    assert (read.reference, read.cluster, read.finalized) == (SECRET, "west", True)
    assert "eA==" not in repr(read)
