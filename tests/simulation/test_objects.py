"""Objects of other kinds than Volcano's Job go where policies say, are run by what runs them there, and come back as status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from apis import keys, kinds, naming
from apis.kinds import Kind
from machinery.port import PatchType
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import job, phase, state


def typed(kind: Kind, name: str, *, annotations: Mapping[str, str] | None = None, **body: Any) -> Doc:
    meta: Doc = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
    if annotations:
        meta["annotations"] = dict(annotations)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}


def sends(
    name: str, kind: Kind, *names: str, clusters: Iterable[str] = (), placement: Mapping[str, Any] | None = None, **spec: Any
) -> Doc:
    """A policy that selects objects of one kind."""
    selectors = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **({"name": each} if each else {})} for each in names or [""]
    ]
    where: Doc = {**({"clusterAffinity": {"clusterNames": [*clusters]}} if clusters else {}), **(placement or {})}
    kind_of_policy = kinds.PROPAGATION_POLICY if kind.namespaced else kinds.CLUSTER_PROPAGATION_POLICY
    return typed(kind_of_policy, name, spec={"resourceSelectors": selectors, "placement": where, **spec})


def batch_job(name: str, *, pods: int = 2, cpu: int = 1, **spec: Any) -> Doc:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    whole = {"parallelism": pods, "completions": pods, "managedBy": f"{keys.GROUP}/hub", "template": template, **spec}
    return typed(kinds.BATCH_JOB, name, spec=whole)


def spark(name: str, *, executors: int = 2, cores: int = 1) -> Doc:
    role = {"cores": cores, "memory": "512m"}
    spec = {"type": "Scala", "driver": role, "executor": {**role, "instances": executors}}
    return typed(kinds.SPARK_APPLICATION, name, spec=spec)


def places(world: World, kind: Kind, name: str, *, members: Iterable[str] = ("east", "west")) -> list[str]:
    """Members that have it."""
    return [each for each in members if world.get(kind, name, server=each) is not None]


def binding(world: World, kind: Kind, name: str) -> Doc:
    where = kinds.RESOURCE_BINDING if kind.namespaced else kinds.CLUSTER_RESOURCE_BINDING
    return world.get(where, naming.binding_name(name, kind=kind)) or {}


def why(world: World, kind: Kind, name: str) -> tuple[str, str]:
    """Status and reason of the binding's condition Scheduled."""
    listed = (binding(world, kind, name).get("status") or {}).get("conditions") or []
    found: Doc = next((each for each in listed if each["type"] == "Scheduled"), {})
    return str(found.get("status", "")), str(found.get("reason", ""))


def healths(world: World, kind: Kind, name: str) -> list[str]:
    """What the binding says of each cluster."""
    listed = (binding(world, kind, name).get("status") or {}).get("aggregatedStatus") or []
    return [each["health"] for each in listed]


async def says(world: World, kind: Kind, name: str, *, member: str, status: Doc) -> None:
    """What runs it in a member writes its status."""
    where = world.client(member)
    await where.patch(kind, name, {"status": status}, type=PatchType.MERGE, namespace="default", subresource="status")


async def edit(world: World, kind: Kind, name: str, body: Doc) -> None:
    namespace = "default" if kind.namespaced else None
    await world.client().patch(kind, name, body, type=PatchType.MERGE, namespace=namespace)


def test_plain_objects_go_everywhere_their_policy_means_follow_edits_and_go_with_the_object() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.CONFIGMAP, "settings", data={"a": "1"}))
        await world.apply(sends("all", kinds.CONFIGMAP, "settings"))
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east", "west"], timeout=20)
        await world.until(lambda: why(world, kinds.CONFIGMAP, "settings") == ("True", "Success"), timeout=20)

        def items() -> list[tuple[str, bool, str]]:
            listed = (binding(world, kinds.CONFIGMAP, "settings").get("status") or {}).get("aggregatedStatus") or []
            return [(each["clusterName"], each["applied"], each["health"]) for each in listed]

        await world.until(lambda: items() == [("east", True, "Healthy"), ("west", True, "Healthy")], timeout=20)
        await edit(world, kinds.CONFIGMAP, "settings", {"data": {"a": "2"}})
        await world.until(
            lambda: (world.get(kinds.CONFIGMAP, "settings", server="west") or {}).get("data") == {"a": "2"}, timeout=20
        )
        await edit(
            world, kinds.PROPAGATION_POLICY, "all", {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["east"]}}}}
        )
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east"], timeout=20)
        await world.client().delete(kinds.CONFIGMAP, "settings", namespace="default")
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == [], timeout=30)
        await world.until(lambda: binding(world, kinds.CONFIGMAP, "settings") == {}, timeout=30)

    play(story)


def test_an_object_without_a_namespace_is_sent_by_a_policy_of_the_cluster() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.PRIORITY_CLASS, "urgent", value=100))
        await world.apply(sends("classes", kinds.PRIORITY_CLASS, "urgent", clusters=["west"]))
        await world.until(lambda: places(world, kinds.PRIORITY_CLASS, "urgent") == ["west"], timeout=20)
        await world.client().delete(kinds.PRIORITY_CLASS, "urgent")
        await world.until(lambda: places(world, kinds.PRIORITY_CLASS, "urgent") == [], timeout=30)

    play(story)


def test_a_workload_runs_in_one_cluster_with_room_and_its_status_comes_home() -> None:
    async def story(world: World) -> None:
        await world.apply(sends("spark", kinds.SPARK_APPLICATION))
        await world.apply(spark("pi", executors=3, cores=2))
        await world.until(
            lambda: places(world, kinds.SPARK_APPLICATION, "pi") == ["west"], timeout=20, what="east is too small"
        )
        state = {"applicationState": {"state": "RUNNING"}, "executorState": {"e1": "RUNNING"}}
        await says(world, kinds.SPARK_APPLICATION, "pi", member="west", status=state)
        await world.until(
            lambda: (world.get(kinds.SPARK_APPLICATION, "pi") or {}).get("status") == state,
            timeout=20,
            what="status at the hub",
        )
        work = world.all(kinds.WORK, namespace=keys.execution_namespace("west"))[0]
        assert "demand" in str(work["metadata"]["annotations"])
        await says(world, kinds.SPARK_APPLICATION, "pi", member="west", status={"applicationState": {"state": "FAILED"}})

        await world.until(lambda: healths(world, kinds.SPARK_APPLICATION, "pi") == ["Unhealthy"], timeout=20)

        def charged() -> bool:
            works = world.all(kinds.WORK, namespace=keys.execution_namespace("west"))
            return any(keys.DEMAND in each["metadata"]["annotations"] for each in works)

        await world.until(lambda: not charged(), timeout=20, what="what has ended asks for nothing any more")

    play(story, cpus={"east": 2, "west": 8}, nodes=1)


def test_a_workload_uses_its_queue_as_jobs_do_until_it_has_ended() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.QUEUE, "narrow", spec={"weight": 1, "capability": {"cpu": "3"}}))
        await world.apply(sends("spark", kinds.SPARK_APPLICATION))
        for name in ("first", "second"):
            made = spark(name, executors=1)
            made["metadata"]["labels"] = {keys.QUEUE_NAME: "narrow"}
            await world.apply(made)
            await world.until(lambda name=name: why(world, kinds.SPARK_APPLICATION, name)[0] != "", timeout=20)  # type: ignore[misc]
        assert why(world, kinds.SPARK_APPLICATION, "second") == ("False", "QueueFull")
        await world.apply(job("train", pods=2, queue="narrow"))
        await world.advance(10)
        assert state(world, "train")["phase"] == "Pending" and state(world, "train")["reason"] == "QueueFull"
        await world.client().delete(kinds.SPARK_APPLICATION, "second", namespace="default")
        member = places(world, kinds.SPARK_APPLICATION, "first")[0]
        ended = {"applicationState": {"state": "COMPLETED"}}
        await says(world, kinds.SPARK_APPLICATION, "first", member=member, status=ended)
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)

    play(story)


def test_a_kubernetes_job_is_divided_with_its_completions_and_its_counts_are_added_up() -> None:
    async def story(world: World) -> None:
        divided = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}
        divided["replicaScheduling"]["weightPreference"] = {  # type: ignore[assignment]
            "staticWeightList": [
                {"targetCluster": {"clusterNames": ["east"]}, "weight": 2},
                {"targetCluster": {"clusterNames": ["west"]}, "weight": 1},
            ]
        }
        await world.apply(sends("split", kinds.BATCH_JOB, "count", placement=divided))
        await world.apply(batch_job("count", pods=3, completions=9))
        await world.until(lambda: places(world, kinds.BATCH_JOB, "count") == ["east", "west"], timeout=20)
        shares = {each: world.get(kinds.BATCH_JOB, "count", server=each) or {} for each in ("east", "west")}
        assert {name: (doc["spec"]["parallelism"], doc["spec"]["completions"]) for name, doc in shares.items()} == {
            "east": (2, 6),
            "west": (1, 3),
        }
        assert all("managedBy" not in doc["spec"] for doc in shares.values())
        started = {"startTime": "2026-01-01T00:00:00Z"}
        done = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-01-01T00:01:00Z"}
        await says(world, kinds.BATCH_JOB, "count", member="east", status={"succeeded": 6, **started, **done})
        await says(world, kinds.BATCH_JOB, "count", member="west", status={"succeeded": 1, "active": 1, **started})

        def told() -> Doc:
            return (world.get(kinds.BATCH_JOB, "count") or {}).get("status") or {}

        await world.until(lambda: told().get("succeeded") == 7, timeout=20, what="a sum at the hub")
        assert told()["active"] == 1 and not told()["conditions"]
        await says(world, kinds.BATCH_JOB, "count", member="west", status={"succeeded": 3, "active": 0, **started, **done})
        await world.until(lambda: [each["type"] for each in told()["conditions"]] == ["Complete"], timeout=20)

    play(story)


@pytest.mark.parametrize("kind", [kinds.BATCH_JOB, kinds.DEPLOYMENT], ids=lambda kind: str(kind.kind))
def test_what_the_hub_runs_itself_is_not_sent_and_the_binding_says_what_to_do(kind: Kind) -> None:
    async def story(world: World) -> None:
        made = batch_job("mine")
        if kind == kinds.BATCH_JOB:
            del made["spec"]["managedBy"]
        else:
            made = typed(kind, "mine", spec={"replicas": 1, "selector": {}, "template": made["spec"]["template"]})
        await world.apply(sends("mine", kind, "mine"))
        await world.apply(made)
        await world.until(lambda: why(world, kind, "mine") == ("False", "ActingKind"), timeout=20)
        assert places(world, kind, "mine") == []

    play(story)


def test_a_hub_that_only_stores_sends_deployments_divided_and_takes_them_back() -> None:
    async def story(world: World) -> None:
        template = batch_job("x")["spec"]["template"]
        aggregated = {
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            }
        }
        await world.apply(sends("web", kinds.DEPLOYMENT, "web", placement=aggregated))
        await world.apply(typed(kinds.DEPLOYMENT, "web", spec={"replicas": 4, "selector": {}, "template": template}))

        def replicas() -> dict[str, int]:
            found = {each: world.get(kinds.DEPLOYMENT, "web", server=each) for each in ("east", "west")}
            return {name: doc["spec"]["replicas"] for name, doc in found.items() if doc is not None}

        await world.until(lambda: replicas() == {"east": 2, "west": 2}, timeout=20)
        await edit(world, kinds.DEPLOYMENT, "web", {"spec": {"replicas": 6}})
        await world.until(lambda: replicas() == {"east": 3, "west": 3}, timeout=20, what="nobody lost a pod")
        await edit(world, kinds.DEPLOYMENT, "web", {"spec": {"replicas": 1}})
        await world.until(lambda: list(replicas().values()) == [1], timeout=20)

    play(story, hub_settings={"hub_runs_workloads": False})


def test_a_workload_is_gone_from_where_it_is_refused_before_it_is_anywhere_else() -> None:
    async def story(world: World) -> None:
        taken = typed(kinds.SPARK_APPLICATION, "pi", spec={"type": "Python"})
        await world.apply(taken, server="east")
        await world.apply(sends("spark", kinds.SPARK_APPLICATION))
        await world.apply(spark("pi", executors=2))
        await world.until(
            lambda: binding(world, kinds.SPARK_APPLICATION, "pi").get("spec", {}).get("clusters") == [{"name": "west"}],
            timeout=40,
            what="east has one of its own",
        )
        await world.until(lambda: places(world, kinds.SPARK_APPLICATION, "pi") == ["east", "west"], timeout=20)
        mine = world.get(kinds.SPARK_APPLICATION, "pi", server="east") or {}
        assert mine["spec"] == {"type": "Python"}, "what is the member's own stays as it was"

    play(story, cpus={"east": 8, "west": 4}, nodes=1)


def test_a_job_that_somebody_deletes_in_its_member_is_not_run_again() -> None:
    async def story(world: World) -> None:
        await world.apply(sends("spark", kinds.SPARK_APPLICATION, clusters=["east"]))
        await world.apply(spark("pi"))
        await world.until(lambda: places(world, kinds.SPARK_APPLICATION, "pi") == ["east"], timeout=20)
        await world.advance(3)
        await world.client("east").delete(kinds.SPARK_APPLICATION, "pi", namespace="default")
        await world.advance(400)
        assert places(world, kinds.SPARK_APPLICATION, "pi") == []

    play(story)


def test_what_an_object_refers_to_goes_with_it() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.SECRET, "key", data={"token": "eA=="}))
        made = batch_job("uses")
        made["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "key"}}]
        await world.apply(sends("with-deps", kinds.BATCH_JOB, "uses", clusters=["west"], propagateDeps=True))
        await world.apply(made)
        await world.until(lambda: places(world, kinds.BATCH_JOB, "uses") == ["west"], timeout=20)
        await world.until(lambda: places(world, kinds.SECRET, "key") == ["west"], timeout=20)

    play(story)


def test_overrides_change_an_object_by_cluster_and_are_made_anew_when_they_change() -> None:
    async def story(world: World) -> None:
        rule = {
            "targetCluster": {"clusterNames": ["west"]},
            "overriders": {"plaintext": [{"path": "/data/a", "operator": "replace", "value": "western"}]},
        }
        chosen = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}]
        await world.apply(typed(kinds.OVERRIDE_POLICY, "west", spec={"resourceSelectors": chosen, "overrideRules": [rule]}))
        await world.apply(typed(kinds.CONFIGMAP, "settings", data={"a": "1"}))
        await world.apply(sends("all", kinds.CONFIGMAP, "settings"))

        def values() -> dict[str, str]:
            found = {each: world.get(kinds.CONFIGMAP, "settings", server=each) for each in ("east", "west")}
            return {name: doc["data"]["a"] for name, doc in found.items() if doc is not None}

        await world.until(lambda: values() == {"east": "1", "west": "western"}, timeout=20)
        rule["overriders"]["plaintext"][0]["value"] = "new"  # type: ignore[index]
        await edit(world, kinds.OVERRIDE_POLICY, "west", {"spec": {"overrideRules": [rule]}})
        await world.until(lambda: values() == {"east": "1", "west": "new"}, timeout=20)

    play(story)


def test_suspension_holds_updates_back_and_removes_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.CONFIGMAP, "settings", data={"a": "1"}))
        held = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["west"]}}}
        await world.apply(sends("all", kinds.CONFIGMAP, "settings"))
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east", "west"], timeout=20)
        await edit(world, kinds.PROPAGATION_POLICY, "all", {"spec": held})
        await world.advance(3)
        await edit(world, kinds.CONFIGMAP, "settings", {"data": {"a": "2"}})
        await world.advance(10)

        def value(member: str) -> str:
            found = world.get(kinds.CONFIGMAP, "settings", server=member)
            assert found is not None, f"{member}: {world.story()}"
            return str(found["data"]["a"])

        assert (value("east"), value("west")) == ("2", "1")
        await edit(world, kinds.PROPAGATION_POLICY, "all", {"spec": {"suspension": None}})
        await world.until(lambda: value("west") == "2", timeout=20)

    play(story)


def test_claims_are_marks_on_the_object_change_hands_by_preemption_and_go_with_the_policy() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.CONFIGMAP, "settings", data={"a": "1"}))
        await world.apply(sends("first", kinds.CONFIGMAP, "settings", clusters=["east"]))
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east"], timeout=20)

        def claimed() -> str:
            meta = (world.get(kinds.CONFIGMAP, "settings") or {})["metadata"]
            return str((meta.get("annotations") or {}).get(keys.POLICY_NAME, ""))

        assert claimed() == "first"
        await world.apply(sends("stronger", kinds.CONFIGMAP, "settings", clusters=["west"], priority=5))
        await world.advance(5)
        assert claimed() == "first", "a claimed object is not taken by a policy that does not preempt"
        await edit(world, kinds.PROPAGATION_POLICY, "stronger", {"spec": {"preemption": "Always"}})
        await world.until(lambda: claimed() == "stronger", timeout=20)
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["west"], timeout=20)
        await world.client().delete(kinds.PROPAGATION_POLICY, "first", namespace="default")
        await world.client().delete(kinds.PROPAGATION_POLICY, "stronger", namespace="default")
        await world.until(lambda: claimed() == "", timeout=20)
        await world.advance(5)
        assert places(world, kinds.CONFIGMAP, "settings") == ["west"], "what is there stays until the object itself goes"

    play(story)


def test_a_lazy_policy_claims_at_once_and_acts_with_the_next_change_of_the_object() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.CONFIGMAP, "settings", data={"a": "1"}))
        await world.apply(sends("lazy", kinds.CONFIGMAP, "settings", clusters=["east"], activationPreference="Lazy"))
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east"], timeout=20)
        wider = {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["east", "west"]}}}}
        await edit(world, kinds.PROPAGATION_POLICY, "lazy", wider)
        await world.advance(10)
        assert places(world, kinds.CONFIGMAP, "settings") == ["east"]
        await edit(world, kinds.CONFIGMAP, "settings", {"data": {"a": "2"}})
        await world.until(lambda: places(world, kinds.CONFIGMAP, "settings") == ["east", "west"], timeout=20)

    play(story)


def test_a_kind_of_peoples_own_runs_by_the_rules_they_give() -> None:
    async def story(world: World) -> None:
        rules = {
            "componentResource": {
                "cel": "[{'name': 'head', 'replicas': 1, 'template': object.spec.headGroupSpec.template}]",
            },
            "healthInterpretation": {"cel": "has(object.status) && object.status.ready"},
        }
        target = {"apiVersion": kinds.RAY_CLUSTER.api_version, "kind": kinds.RAY_CLUSTER.kind}
        await world.apply(typed(kinds.INTERPRETER, "ray", spec={"target": target, "customizations": rules}))
        await world.apply(sends("ray", kinds.RAY_CLUSTER))
        template = {"spec": {"containers": [{"name": "ray", "resources": {"requests": {"cpu": "6"}}}]}}
        await world.apply(typed(kinds.RAY_CLUSTER, "ray", spec={"headGroupSpec": {"template": template}}))
        await world.until(lambda: places(world, kinds.RAY_CLUSTER, "ray") == ["west"], timeout=20)
        await says(world, kinds.RAY_CLUSTER, "ray", member="west", status={"ready": False})
        await world.until(lambda: healths(world, kinds.RAY_CLUSTER, "ray") == ["Unhealthy"], timeout=20)

    play(story, cpus={"east": 4, "west": 8}, nodes=1)


@pytest.mark.parametrize("when", [1, 3, 5, 10, 40, 110])
def test_a_hub_that_dies_in_between_leaves_no_workload_twice_and_none_behind(when: int) -> None:
    """East refuses it, so that it moves; the hub is killed so many hundredths of a second after each step."""

    async def story(world: World) -> None:
        both: list[str] = []

        def mine(member: str) -> bool:
            found = world.get(kinds.SPARK_APPLICATION, "pi", server=member)
            return found is not None and keys.WORK_NAME in (found["metadata"].get("annotations") or {})

        def looked() -> bool:
            if mine("east") and mine("west"):
                both.append(f"{world.clock.boot():.1f}")
            return mine("west")

        await world.apply(sends("spark", kinds.SPARK_APPLICATION))
        await world.apply(typed(kinds.SPARK_APPLICATION, "pi", spec={"type": "Python"}), server="east")
        await world.apply(spark("pi", executors=2))
        await world.advance(when / 100)
        world.kill("hub")
        await world.until(looked, timeout=90, what="it runs where it is taken")
        await world.client().delete(kinds.SPARK_APPLICATION, "pi", namespace="default")
        await world.advance(when / 100)
        world.kill("hub")
        await world.until(lambda: not mine("west") and binding(world, kinds.SPARK_APPLICATION, "pi") == {}, timeout=90)
        await world.until(lambda: not world.all(kinds.WORK), timeout=30)
        assert both == []

    play(story, cpus={"east": 8, "west": 4}, nodes=1)
