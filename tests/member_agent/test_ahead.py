"""What is ahead of whoever comes next: accepted and local gangs without nodes, in the room and in the published backlog."""

from __future__ import annotations

import json
from typing import Any

from apis import kinds, runs
from apis.vectors import ResourceVector
from machinery.informer import Change
from machinery.port import PatchType
from member_agent.inventory import Inventory
from member_agent.ledger import Ledger
from member_agent.room import Shortage
from member_agent.views import GroupView, JobView, Projector, project_group
from policies.shapes import Gang, Task
from tests.member_agent.test_room import node, pod, shape
from tests.member_agent.world import EAST, Stage, job, play

PROJECTOR = Projector()


def local_job(name: str, *, replicas: int, cpu: int, phase: str = "Pending", **meta: Any) -> JobView:
    manifest = job(name, replicas=replicas, cpu=str(cpu))
    manifest["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", **meta}
    return PROJECTOR.job(json.dumps({**manifest, "status": {"state": {"phase": phase}}}).encode())


def local_group(name: str, phase: str) -> GroupView:
    owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    meta = {"name": name, "namespace": "default", "uid": f"g-{name}", "resourceVersion": "1", "ownerReferences": [owner]}
    return project_group(json.dumps({"metadata": meta, "spec": {"minMember": 1}, "status": {"phase": phase}}).encode())


def gang(*, pods: int, cpu: int) -> Gang:
    return Gang((Task("work", pods, pods, shape(cpu)),), pods)


class Place:
    """One node with eight CPUs and the ledger on it."""

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.ledger = Ledger(self.inventory)
        one = node("a", cpu=8, memory=1 << 40)
        self.inventory.node_changed(Change(("", one.name), None, one))

    def let_in(self, name: str, *, replicas: int, cpu: int, phase: str = "Inqueue") -> None:
        found, group = local_job(name, replicas=replicas, cpu=cpu), local_group(name, phase)
        self.ledger.job_changed(Change(("default", name), None, found))
        self.ledger.group_changed(Change(("default", name), None, group))

    def bind(self, name: str, *, owner: str, cpu: int) -> None:
        one = pod(name, shape(cpu), on="a", owner=f"uid-{owner}")
        self.inventory.pod_changed(Change(("ns", name), None, one))
        self.ledger.pod_changed(Change(("ns", name), None, one))

    @property
    def free(self) -> int:
        return int(self.ledger.shadow().free[0, self.inventory.room.layout.columns["cpu"]]) // 1000


def test_a_local_gang_that_was_let_in_keeps_its_room_until_it_is_bound() -> None:
    place = Place()
    place.let_in("mine", replicas=3, cpu=2)
    assert place.free == 2
    assert isinstance(place.ledger.accept("work", gang(pods=2, cpu=2)), Shortage)
    assert place.ledger.accept("small", gang(pods=1, cpu=2)) is None
    for index in range(3):
        place.bind(f"mine-{index}", owner="mine", cpu=2)
    assert place.free == 0  # held, and not claimed beside
    place.ledger.release("small")
    assert place.free == 2


def test_a_local_gang_that_waits_for_its_queue_or_fits_nowhere_blocks_nobody() -> None:
    place = Place()
    place.let_in("outside", replicas=2, cpu=2, phase="Pending")
    place.let_in("giant", replicas=1, cpu=99)
    assert place.free == 8
    assert place.ledger.accept("work", gang(pods=4, cpu=2)) is None


def test_a_claim_ends_with_its_job_and_with_its_group() -> None:
    place = Place()
    place.let_in("first", replicas=1, cpu=4)
    place.let_in("second", replicas=1, cpu=4)
    assert place.free == 0
    over = local_job("first", replicas=1, cpu=4, phase="Failed")
    place.ledger.job_changed(Change(("default", "first"), over, over))
    assert place.free == 4
    group = local_group("second", "Inqueue")
    place.ledger.group_changed(Change(("default", "second"), group, None))
    assert place.free == 8


def test_pods_that_are_seen_before_their_job_are_not_promised_room_a_second_time() -> None:
    place = Place()
    place.bind("train-0", owner="train", cpu=4)
    record = runs.encode(runs.RunRecord(job="hub", epoch=1, fence=1))
    notes = {"volcano-federation.io/run": record, "volcano-federation.io/work-uid": "w"}
    found = local_job("train", replicas=1, cpu=4, phase="Running", annotations=notes, labels={"karmada.io/managed": "true"})
    assert found.managed
    place.ledger.job_changed(Change(("default", "train"), None, found))
    assert place.free == 4
    assert [vector for _, vector in place.ledger.promised()] == []


def test_the_backlog_counts_accepted_gangs_and_local_ones_by_queue_and_priority() -> None:
    async def tell(stage: Stage) -> None:
        client = stage.world.client(EAST)
        await client.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 100})
        # Accepted, and not to be bound yet: its pods have a gate.
        held = job("held", replicas=2, cpu="3")
        held["spec"]["tasks"][0]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
        work = await stage.grant(held)
        specs: dict[str, Any] = {"waits": {}, "pressing": {"priorityClassName": "urgent"}}
        for name, spec in specs.items():
            await client.create(kinds.JOB, job(name, replicas=3, cpu="7", **spec), namespace="default")
        await stage.until(lambda: bool(stage.condition(work, "Applied")))
        await stage.world.advance(20)
        backlog = {(each["queue"], each.get("priority", 0)): each for each in stage.capacity()["backlog"]}
        assert {key: each["pods"] for key, each in backlog.items()} == {("default", 100): 3, ("default", 0): 5}
        assert ResourceVector(backlog["default", 0]["demand"]).get("cpu") == 27_000
        assert ResourceVector(backlog["default", 100]["demand"]).get("cpu") == 21_000
        for each in stage.pods("held"):
            meta = each["metadata"]
            done = {"status": {"phase": "Succeeded"}}
            await client.patch(kinds.POD, meta["name"], done, type=PatchType.MERGE, namespace="default", subresource="status")
        await stage.world.advance(20)
        assert {(each["queue"], each.get("priority", 0)): each["pods"] for each in stage.capacity()["backlog"]} == {
            ("default", 100): 3,
            ("default", 0): 3,
        }

    play(tell)
