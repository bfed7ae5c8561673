"""Pods that come without a group, told with the real agent: they get one, run, and leave nothing behind."""

from __future__ import annotations

from typing import Any

from apis import keys, kinds
from apis.kinds import Kind
from machinery.port import PatchType
from simulator.faults import Write
from tests.member_agent.world import EAST, Stage, job, play

Doc = dict[str, Any]

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE = "scheduling.volcano.sh/queue-name"

SPARK = Kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications")
PIPELINE = Kind("pipelines.example.com", "v1", "Pipeline", "pipelines")
"""Kinds whose objects the simulated API server keeps and does not tell of in discovery, as if they were closed to us."""


def container(*, cpu: str = "1", command: str = "sleep 1000", limits: Doc | None = None) -> Doc:
    resources: Doc = {"requests": {"cpu": cpu}}
    if limits:
        resources["limits"] = limits
    return {"name": "main", "image": "busybox:1", "command": ["sh", "-c", command], "resources": resources}


def pod(name: str, *, owner: Doc | None = None, scheduler: str = "volcano", **given: Any) -> Doc:
    """A pod; `annotations` and `labels` go to its metadata, the rest to its container."""
    meta: Doc = {"name": name, **{part: given.pop(part) for part in ("annotations", "labels") if part in given}}
    if owner is not None:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    return {
        "metadata": meta,
        "spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container(**given)]},
    }


class Cluster:
    """What people and other controllers do in the member."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.client = stage.world.client(EAST)

    async def create(self, kind: Kind, doc: Doc) -> Doc:
        """The object; for a reference to it see `reference`."""
        await self.client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **doc}, namespace="default")
        return self.get(kind, doc["metadata"]["name"])

    async def owned(self, kind: Kind, name: str, *, replicas: int, annotations: Doc | None = None, **given: Any) -> Doc:
        """An owner with a pod template and the pods that its controller makes."""
        template = pod(name, **given)
        template["metadata"] = {"labels": {"app": name}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        if kind == kinds.STATEFUL_SET:
            spec["serviceName"] = name
        owner = await self.create(kind, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})
        for index in range(replicas):
            await self.create(kinds.POD, pod(f"{name}-{index}", owner=reference(kind, owner), **given))
        return owner

    async def patch(self, kind: Kind, name: str, patch: Doc) -> None:
        await self.client.patch(kind, name, patch, type=PatchType.MERGE, namespace="default")

    async def delete(self, kind: Kind, name: str) -> None:
        await self.client.delete(kind, name, namespace="default")

    def get(self, kind: Kind, name: str) -> Doc:
        return self.stage.world.get(kind, name, server=EAST) or {}

    def groups(self) -> list[Doc]:
        return self.stage.world.all(kinds.POD_GROUP, server=EAST)

    def group(self, uid: str) -> Doc:
        return self.get(kinds.POD_GROUP, f"podgroup-{uid}")

    def group_of(self, name: str) -> str:
        return str((self.get(kinds.POD, name).get("metadata", {}).get("annotations") or {}).get(keys.GROUP_NAME, ""))

    def events(self) -> list[tuple[str, str]]:
        return [(event["reason"], event["message"]) for event in self.stage.world.all(kinds.EVENT, server=EAST)]

    def writes(self, *, since: int = 0) -> list[Write]:
        """The agent's, without leases and status."""
        return [
            write
            for write in self.stage.world.faults.log[since:]
            if write.server == EAST and write.actor == f"agent-{EAST}" and write.kind in ("pods", kinds.POD_GROUP.name)
        ]

    async def running(self, *names: str) -> None:
        await self.stage.until(lambda: set(names) <= set(self.stage.running()), what=f"{names} run")


def reference(kind: Kind, doc: Doc) -> Doc:
    meta = doc["metadata"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": meta["uid"]}


def test_a_bare_pod_gets_a_group_of_its_own_runs_and_takes_it_along() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        annotations = {
            QUEUE: "research",
            "volcano.sh/preemptable": "true",
            "volcano.sh/cooldown-time": "10m",
            "volcano.sh/revocable-zone": "*",
            "volcano.sh/jdb-min-available": "1",
            "volcano.sh/jdb-max-unavailable": "2",
            "volcano.sh/network-topology-mode": "soft",
            "volcano.sh/network-topology-highest-tier": "2",
            "mine": "alone",
        }
        queue = {"metadata": {"name": "research"}, "spec": {"weight": 1}}
        await east.client.create(kinds.QUEUE, {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", **queue})
        one = await east.create(kinds.POD, pod("one", annotations=annotations, limits={"cpu": "2", "memory": "1Gi"}))
        await east.running("one")
        uid = one["metadata"]["uid"]
        group = east.group(uid)
        assert group["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": uid, "controller": True, "blockOwnerDeletion": False}
        ]
        assert group["metadata"]["annotations"] == {name: annotations[name] for name in list(annotations)[1:5]}
        assert group["spec"] == {
            "minMember": 1,
            "queue": "research",
            "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
            "minResources": {
                "cpu": "1",
                "memory": "1Gi",
                "requests.cpu": "1",
                "requests.memory": "1Gi",
                "limits.cpu": "2",
                "limits.memory": "1Gi",
                "pods": "1",
                "count/pods": "1",
            },
        }
        assert east.group_of("one") == group["metadata"]["name"]
        await east.delete(kinds.POD, "one")
        await stage.until(lambda: east.groups() == [])

    play(story)


def test_a_bare_pod_costs_a_group_and_one_patch() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await stage.world.advance(20)
        since = len(stage.world.faults.log)
        await east.create(kinds.POD, pod("one"))
        await east.running("one")
        await stage.world.advance(60)
        made = [(write.verb, write.kind) for write in east.writes(since=since)]
        assert made[:2] == [("create", kinds.POD_GROUP.name), ("patch", "pods")]
        assert sorted(made[2:]) == [("bind", "pods"), *([("patch", kinds.POD_GROUP.name)] * 2)]  # the scheduler's

    play(story)


def test_pods_of_one_owner_share_a_group_and_bind_as_a_gang() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        since = len(stage.world.faults.log)
        kind, note = kinds.REPLICATION_CONTROLLER, {MIN_MEMBER: "3", "team": "blue", "volcano-federation.io/run": "x"}
        owner = await east.owned(kind, "web", replicas=2, annotations=note, cpu="2")
        uid = owner["metadata"]["uid"]
        await stage.until(lambda: bool(east.group_of("web-0") and east.group_of("web-1")))
        await stage.world.advance(30)
        assert stage.running() == []
        await east.create(kinds.POD, pod("web-2", owner=reference(kind, owner), cpu="2"))
        await east.running("web-0", "web-1", "web-2")
        group = east.group(uid)
        assert {east.group_of(f"web-{index}") for index in range(3)} == {f"podgroup-{uid}"}
        assert group["spec"]["minMember"] == 3
        assert group["spec"]["minResources"] == {"cpu": "6", "requests.cpu": "6", "pods": "3", "count/pods": "3"}
        assert group["metadata"]["annotations"] == {MIN_MEMBER: "3", "team": "blue"}
        assert group["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
        named = [write for write in east.writes(since=since) if (write.verb, write.kind) == ("patch", "pods")]
        assert sorted(write.name for write in named) == ["web-0", "web-1", "web-2"]
        await east.delete(kind, "web")
        await stage.until(lambda: east.groups() == [] and stage.pods() == [])

    play(story)


def test_a_group_has_the_priority_of_its_pods() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        high = {"metadata": {"name": "high"}, "value": 1000}
        await east.client.create(kinds.PRIORITY_CLASS, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **high})
        body = pod("one")
        body["spec"]["priorityClassName"] = "high"
        one = await east.create(kinds.POD, body)
        await east.running("one")
        assert east.group(one["metadata"]["uid"])["spec"]["priorityClassName"] == "high"

    play(story)


def test_a_group_takes_nothing_from_its_owner_but_the_minimum_where_that_is_switched_off() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        note = {MIN_MEMBER: "2", "team": "blue", QUEUE: "nowhere"}
        owner = await east.owned(kinds.BATCH_JOB, "web", replicas=2, annotations=note)
        await east.running("web-0", "web-1")
        group = east.group(owner["metadata"]["uid"])
        assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "default")
        assert not group["metadata"].get("annotations")

    play(story, settings={"podgroups": {"inherit_owner_annotations": False}})


def test_owners_of_every_kind_of_kubernetes_have_their_group() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        for kind in (
            kinds.REPLICATION_CONTROLLER,
            kinds.REPLICA_SET,
            kinds.STATEFUL_SET,
            kinds.DAEMON_SET,
            kinds.BATCH_JOB,
        ):
            name = kind.kind.lower()
            owner = await east.owned(kind, name, replicas=2, annotations={MIN_MEMBER: "2"})
            await east.running(f"{name}-0", f"{name}-1")
            group = east.group(owner["metadata"]["uid"])
            assert group["spec"]["minMember"] == 2, kind
            assert group["metadata"]["ownerReferences"][0]["kind"] == kind.kind

    play(story, nodes=4)


def test_a_replica_set_scaled_to_nothing_loses_its_group_and_gets_it_again() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        for kind, name in ((kinds.REPLICA_SET, "web"), (kinds.STATEFUL_SET, "data")):
            owner = await east.owned(kind, name, replicas=1)
            uid = owner["metadata"]["uid"]
            await east.running(f"{name}-0")
            await east.patch(kind, name, {"spec": {"replicas": 0}})
            await stage.until(lambda uid=uid: east.group(uid) == {})  # type: ignore[misc]
            await stage.world.advance(60)  # the pod is still there: nothing makes the group again
            assert east.group(uid) == {}
            await east.delete(kinds.POD, f"{name}-0")
            await east.patch(kind, name, {"spec": {"replicas": 1}})
            await east.create(kinds.POD, pod(f"{name}-1", owner=reference(kind, owner)))
            await east.running(f"{name}-1")
            assert east.group(uid) != {}

    play(story)


def test_a_replica_set_scaled_to_nothing_while_the_agent_was_down_loses_its_group() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        owner = await east.owned(kinds.REPLICA_SET, "web", replicas=1)
        await east.running("web-0")
        stage.world.stop(f"agent-{EAST}")
        await east.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 0}})
        await east.delete(kinds.POD, "web-0")
        await stage.world.advance(5)
        stage.world.resume(f"agent-{EAST}")
        await stage.until(lambda: east.group(owner["metadata"]["uid"]) == {})

    play(story)


def test_an_update_of_a_replica_set_refreshes_its_group_and_a_new_one_makes_one_more() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        note = {MIN_MEMBER: "2", "volcano.sh/network-topology-mode": "hard", QUEUE: "default"}
        owner = await east.owned(kinds.REPLICA_SET, "web", replicas=2, annotations=note)
        uid = owner["metadata"]["uid"]
        await east.running("web-0", "web-1")
        bigger = {"containers": [container(cpu="2")]}
        change = {MIN_MEMBER: "1", "volcano.sh/network-topology-mode": None, "team": "blue"}
        await east.patch(
            kinds.REPLICA_SET, "web", {"metadata": {"annotations": change}, "spec": {"template": {"spec": bigger}}}
        )
        await stage.until(lambda: east.group(uid)["spec"]["minMember"] == 1)
        group = east.group(uid)
        assert group["spec"]["minResources"] == {"cpu": "2", "requests.cpu": "2", "pods": "1", "count/pods": "1"}
        assert "networkTopology" not in group["spec"]
        assert group["metadata"]["annotations"]["team"] == "blue"
        newer = await east.owned(kinds.REPLICA_SET, "web-v2", replicas=1)
        await east.running("web-v2-0")
        assert {each["metadata"]["name"] for each in east.groups()} == {
            f"podgroup-{each['metadata']['uid']}" for each in (owner, newer)
        }
        await east.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 0}})
        await stage.until(lambda: len(east.groups()) == 1)

    play(story)


def test_a_scaling_or_a_restart_of_the_agent_writes_no_group_that_is_right() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await east.owned(kinds.REPLICA_SET, "web", replicas=2, annotations={"volcano.sh/network-topology-highest-tier": "1"})
        await east.running("web-0", "web-1")
        await stage.world.advance(60)
        since = len(stage.world.faults.log)
        await east.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 3}})
        await stage.world.advance(30)
        stage.world.kill(f"agent-{EAST}")
        await stage.world.advance(60)
        assert east.writes(since=since) == []

    play(story)


def test_a_driver_and_its_executors_share_the_drivers_group() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        note = {"scheduling.volcano.sh/group-min-resources": '{"cpu": "3", "memory": "2Gi"}'}
        driver = await east.create(kinds.POD, pod("pi-driver", annotations=note))
        await east.running("pi-driver")
        for index in range(2):
            await east.create(kinds.POD, pod(f"pi-exec-{index}", owner=reference(kinds.POD, driver)))
        await east.running("pi-exec-0", "pi-exec-1")
        (group,) = east.groups()
        assert group["metadata"]["name"] == f"podgroup-{driver['metadata']['uid']}"
        assert group["spec"]["minResources"] == {"cpu": "3", "memory": "2Gi"}
        assert {east.group_of(name) for name in ("pi-driver", "pi-exec-0", "pi-exec-1")} == {group["metadata"]["name"]}

    play(story)


def test_executors_of_a_driver_that_has_an_owner_join_the_group_of_that_owner() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        app = await east.create(SPARK, {"metadata": {"name": "pi"}})
        uid = app["metadata"]["uid"]
        stage.world.stop(f"agent-{EAST}")  # it finds executors and driver together, in any order
        driver = await east.create(kinds.POD, pod("z-driver", owner=reference(SPARK, app), annotations={MIN_MEMBER: "2"}))
        await east.create(kinds.POD, pod("a-exec", owner=reference(kinds.POD, driver)))
        stage.world.resume(f"agent-{EAST}")
        await stage.until(lambda: bool(east.group_of("a-exec")))
        assert east.group_of("a-exec") == east.group_of("z-driver") == f"podgroup-{uid}"
        assert east.group(uid)["spec"]["minMember"] == 2

    play(story)


def test_spark_that_brings_its_own_group_is_left_alone() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        spec = {"minMember": 1, "queue": "default", "minResources": {"cpu": "2"}}
        await east.create(kinds.POD_GROUP, {"metadata": {"name": "spark-1-podgroup"}, "spec": spec})
        own = {keys.GROUP_NAME: "spark-1-podgroup"}
        driver = await east.create(kinds.POD, pod("driver", annotations=own))
        await east.create(kinds.POD, pod("exec", owner=reference(kinds.POD, driver), annotations=own))
        await east.running("driver", "exec")
        assert [group["metadata"]["name"] for group in east.groups()] == ["spark-1-podgroup"]
        assert east.groups()[0]["spec"] == spec

    play(story)


def test_an_owner_of_a_kind_that_nobody_serves_is_spoken_for_by_its_pod() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        flow = await east.create(PIPELINE, {"metadata": {"name": "etl", "annotations": {MIN_MEMBER: "9"}}})
        uid = flow["metadata"]["uid"]
        note = {MIN_MEMBER: "2", "volcano.sh/preemptable": "false"}
        for name in ("etl-1", "etl-2"):
            await east.create(kinds.POD, pod(name, owner=reference(PIPELINE, flow), annotations=note))
        await east.running("etl-1", "etl-2")
        group = east.group(uid)
        assert group["spec"]["minMember"] == 2
        assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "false"}
        assert reference(PIPELINE, flow).items() <= group["metadata"]["ownerReferences"][0].items()

    play(story)


def test_an_owner_of_a_kind_unknown_to_us_is_found_where_the_api_server_serves_it() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        kind = kinds.JOB_TEMPLATE  # served, and no kind whose pods anybody here knows of
        owner = await east.create(kind, {"metadata": {"name": "flink", "annotations": {MIN_MEMBER: "2"}}, "spec": {}})
        for name in ("task-manager-1", "task-manager-2"):
            await east.create(kinds.POD, pod(name, owner=reference(kind, owner)))
        await east.running("task-manager-1", "task-manager-2")
        group = east.group(owner["metadata"]["uid"])
        assert group["spec"]["minMember"] == 2
        assert group["spec"]["minResources"]["cpu"] == "2"

    play(story)


def test_pods_of_jobs_of_runs_and_of_other_schedulers_are_never_touched() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await stage.world.apply(job("local", command="sleep 1000"), server=EAST)
        await stage.grant(job("train", command="sleep 1000"))
        await east.create(kinds.POD, pod("stranger", scheduler="default-scheduler"))
        await stage.until(lambda: len(stage.running()) == 4)
        stripped = {"metadata": {"annotations": {keys.GROUP_NAME: None}}}
        await east.patch(kinds.POD, "local-work-0", stripped)
        await east.patch(kinds.POD, "train-work-0", stripped)
        await stage.world.advance(60)
        assert sorted(group["metadata"]["ownerReferences"][0]["name"] for group in east.groups()) == ["local", "train"]
        assert [east.group_of(name) for name in ("stranger", "local-work-0", "train-work-0")] == [""] * 3
        assert [write for write in east.writes() if (write.verb, write.kind) == ("patch", "pods")] == []

    play(story)


def test_a_namesake_gets_a_group_of_its_own() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        first = await east.owned(kinds.REPLICA_SET, "web", replicas=1, annotations={MIN_MEMBER: "1", "age": "old"})
        await east.create(kinds.POD, pod("one"))
        await east.running("web-0", "one")
        await east.delete(kinds.REPLICA_SET, "web")
        await east.delete(kinds.POD, "one")
        await stage.until(lambda: stage.pods() == [])
        again = await east.owned(kinds.REPLICA_SET, "web", replicas=1)
        two = await east.create(kinds.POD, pod("one"))
        await east.running("web-0", "one")
        await stage.until(lambda: len(east.groups()) == 2)
        assert {group["metadata"]["name"] for group in east.groups()} == {
            f"podgroup-{each['metadata']['uid']}" for each in (again, two)
        }
        assert first["metadata"]["uid"] != again["metadata"]["uid"]
        assert not east.group(again["metadata"]["uid"])["metadata"].get("annotations")

    play(story)


def test_a_group_that_somebody_removed_is_made_again_for_pods_that_name_it() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        one = await east.create(kinds.POD, pod("one", cpu="100"))
        uid = one["metadata"]["uid"]
        await stage.until(lambda: bool(east.group_of("one")))
        await east.delete(kinds.POD_GROUP, f"podgroup-{uid}")
        await stage.until(lambda: east.group(uid) != {})

    play(story)


def test_an_annotation_that_cannot_be_read_is_named_in_an_event_and_the_pod_runs() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        note = {
            MIN_MEMBER: "many",
            "scheduling.volcano.sh/group-min-resources": '{"cpu": "much"}',
            "volcano.sh/network-topology-mode": "loose",
            "volcano.sh/network-topology-highest-tier": "-1",
        }
        await east.create(kinds.POD, pod("one", annotations=note))
        await east.running("one")
        await stage.world.advance(5)
        told = [message for reason, message in east.events() if reason == "InvalidAnnotation"]
        assert len(told) == 4
        for name, text in note.items():
            assert any(name in message and text.strip('{}"').split('"')[-1] in message for message in told), (name, told)
        assert east.groups()[0]["spec"]["minMember"] == 1
        assert "networkTopology" not in east.groups()[0]["spec"]

    play(story)


def test_a_group_that_is_refused_is_said_on_the_pod_and_tried_again() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        note = {"scheduling.volcano.sh/group-min-resources": '{"cpu": "-1"}'}
        await east.create(kinds.POD, pod("one", annotations={**note, QUEUE: "Not A Name"}))
        await stage.until(lambda: any(reason == "PodGroupError" for reason, _ in east.events()))
        (message,) = {message for reason, message in east.events() if reason == "PodGroupError"}
        assert "spec.queue" in message
        await east.patch(kinds.POD, "one", {"metadata": {"annotations": {QUEUE: None, **dict.fromkeys(note)}}})
        await east.running("one")

    play(story)


def test_each_of_our_schedulers_names_has_its_pods_placed_and_others_count_as_used_room() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await east.create(kinds.POD, pod("first", cpu="3"))
        await east.create(kinds.POD, pod("second", cpu="3", scheduler="batch"))
        await east.create(kinds.POD, pod("foreign", cpu="3", scheduler="default-scheduler"))
        await east.running("first", "second")
        await stage.world.advance(20)
        assert sorted(stage.running()) == ["first", "second"]
        assert len(east.groups()) == 2
        queue = east.get(kinds.QUEUE, "default")["status"]
        assert queue["allocated"]["cpu"] == "6"
        for node in ("node-0", "node-1"):  # each has one of the two
            filler = pod(f"filler-{node}", cpu="4", scheduler="default-scheduler")
            filler["spec"]["nodeName"] = node
            await east.create(kinds.POD, filler)
        await stage.until(lambda: len(stage.running()) == 4)
        await east.create(kinds.POD, pod("third", cpu="3", scheduler="batch"))
        await stage.world.advance(30)
        assert "third" not in stage.running()

    play(story, settings={"scheduling": {"more_names": ["batch"]}})


def test_only_nodes_that_the_selector_names_are_seen() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await east.client.patch(kinds.NODE, "node-1", {"metadata": {"labels": {"pool": "batch"}}}, type=PatchType.MERGE)
        await east.create(kinds.POD, pod("one", cpu="6"))
        await east.running("one")
        await east.create(kinds.POD, pod("two", cpu="6"))
        await stage.world.advance(30)
        assert stage.running() == ["one"]
        assert east.get(kinds.POD, "one")["spec"]["nodeName"] == "node-1"
        await east.client.patch(kinds.NODE, "node-0", {"metadata": {"labels": {"pool": "batch"}}}, type=PatchType.MERGE)
        await east.running("one", "two")

    play(story, settings={"scheduling": {"node_selector": ["pool:batch"]}})


def test_pods_that_name_no_queue_go_to_the_default_one_which_is_made() -> None:
    async def story(stage: Stage) -> None:
        east = Cluster(stage)
        await east.create(kinds.POD, pod("one"))
        await east.running("one")
        assert east.groups()[0]["spec"]["queue"] == "batch"
        await stage.until(lambda: east.get(kinds.QUEUE, "batch")["status"].get("allocated", {}).get("cpu") == "1")

    play(story, settings={"scheduling": {"default_queue": "batch"}})
