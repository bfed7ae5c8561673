"""A member answers what the hub asks about in the spec of its ClusterCapacity, told with the real programs of a member."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import keys, kinds
from machinery.port import PatchType
from policies import asked
from simulator.nodes import uniform
from simulator.world import Member
from tests.member_agent.world import EAST, HOME, Doc, Stage, job, play

pytestmark = pytest.mark.story


async def ask(stage: Stage, **manifests: Doc) -> None:
    """Write shapes as the hub does: the manifests by their hashes."""
    shapes = [
        {
            "hash": name,
            "requirements": asked.requirements_of(orjson.dumps(manifest)),
            "minimum": manifest["spec"]["minAvailable"],
            "queue": "default",
            "priority": 0,
        }
        for name, manifest in manifests.items()
    ]
    patch = {"spec": {"shapes": shapes}}
    await stage.world.client().patch(kinds.CLUSTER_CAPACITY, keys.MEMBER_LEASE, patch, type=PatchType.MERGE, namespace=HOME)


def answers(stage: Stage) -> dict[str, Any]:
    return {each["hash"]: each for each in stage.capacity().get("shapes") or []}


def fits(stage: Stage, name: str) -> int:
    return int(answers(stage).get(name, {}).get("fits", 0))


def test_a_member_answers_and_says_so_soon_when_what_is_waited_for_fits() -> None:
    async def tell(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=2, cpu="6", command="sleep 60"))
        await stage.until(lambda: stage.reported(work) == "Running")
        await ask(stage, small=job("small", replicas=2, cpu="2"), large=job("large", replicas=2, cpu="4"))
        await stage.until(lambda: answers(stage).keys() == {"small", "large"}, timeout=10)
        assert fits(stage, "small") == 1
        assert fits(stage, "large") == 0
        assert "room for 0 of 2 pods" in answers(stage)["large"]["reason"]
        await stage.until(lambda: stage.reported(work) == "Completed")
        await stage.until(lambda: fits(stage, "large") > 0, timeout=3)

    play(tell)


def test_what_was_accepted_is_no_room_for_others_before_its_pods_are_there() -> None:
    async def tell(stage: Stage) -> None:
        held = job("held", replicas=2, cpu="6")
        held["spec"]["tasks"][0]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
        work = await stage.grant(held)
        await stage.until(lambda: bool(stage.condition(work, "Applied")))
        await ask(stage, large=job("large", replicas=2, cpu="4"))
        await stage.until(lambda: "large" in answers(stage), timeout=10)
        assert fits(stage, "large") == 0

    play(tell)


def test_an_enforced_end_and_nodes_that_may_be_added_are_waits_that_can_be_told() -> None:
    group = {
        "name": "burst",
        "labels": {"pool": "burst"},
        "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"},
        "most": 2,
        "delay": 180,
    }

    async def tell(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=2, cpu="6", command="sleep 6000"), max_run_time=600)
        await stage.until(lambda: stage.reported(work) == "Running")
        await ask(stage, soon=job("soon", replicas=2, cpu="8"), huge=job("huge", replicas=1, cpu="32"))
        await stage.until(lambda: answers(stage).keys() == {"soon", "huge"}, timeout=10)
        assert answers(stage)["huge"]["wait"] == 180
        assert answers(stage)["soon"]["wait"] == 180
        assert [(each["group"], each["nodes"]) for each in stage.capacity()["growable"]] == [("burst", 2)]

    play(tell, settings={"reporting": {"growable": [group]}})

    async def without(stage: Stage) -> None:
        work = await stage.grant(job("train", replicas=2, cpu="6", command="sleep 6000"), max_run_time=600)
        await stage.until(lambda: stage.reported(work) == "Running")
        await ask(stage, soon=job("soon", replicas=2, cpu="8"), huge=job("huge", replicas=1, cpu="32"))
        await stage.until(lambda: answers(stage).keys() == {"soon", "huge"}, timeout=10)
        assert "wait" not in answers(stage)["huge"]
        assert 500 < answers(stage)["soon"]["wait"] <= 600

    play(without)


def test_room_that_waits_for_a_gang_that_is_here_is_offered_to_nobody() -> None:
    """It needs seven of eight cores of each node: the last one is anybody's, whatever ends first, and no more than that."""

    async def tell(stage: Stage) -> None:
        work = await stage.grant(job("first", replicas=1, cpu="2", command="sleep 300"))
        await stage.until(lambda: stage.reported(work) == "Running")
        local = job("local", replicas=2, cpu="7", command="sleep 10")  # one on each node, once the first has ended
        await stage.world.client(EAST).create(kinds.JOB, local, namespace="default")
        await ask(stage, small=job("small", replicas=1, cpu="2"), beside=job("beside", replicas=2, cpu="1"))
        await stage.until(lambda: answers(stage).keys() == {"small", "beside"}, timeout=10)
        await stage.world.advance(20)
        assert (fits(stage, "small"), fits(stage, "beside")) == (0, 1)
        assert "2 kept for" in answers(stage)["small"]["reason"]
        column = stage.capacity()["nodes"]["resources"].index("cpu")
        assert {row[2 + column] for row in stage.capacity()["nodes"]["rows"]} == {1000}
        await stage.until(lambda: stage.phase("local") == "Completed", timeout=400)
        await stage.until(lambda: fits(stage, "small") == 1, timeout=3)

    play(tell)


def test_a_lost_node_is_told_after_a_second_whatever_was_told_just_before() -> None:
    async def tell(stage: Stage) -> None:
        await stage.grant(job("train", replicas=1, cpu="2", command="sleep 600"))
        await stage.until(lambda: bool(stage.running("train")))
        before = stage.capacity()["generation"]
        await stage.until(lambda: stage.capacity()["generation"] > before, timeout=10)
        used = {pod["spec"].get("nodeName", "") for pod in stage.pods()}
        free = next(name for name in ("node-0", "node-1") if name not in used)
        body = {"spec": {"unschedulable": True}}
        await stage.world.client(EAST).patch(kinds.NODE, free, body, type=PatchType.MERGE)
        await stage.until(lambda: sum(row[-1] for row in stage.capacity()["nodes"]["rows"]) == 1, timeout=2)

    play(tell)


def test_small_changes_are_told_within_a_minute_and_then_it_is_quiet() -> None:
    async def tell(stage: Stage) -> None:
        await stage.world.advance(30)
        work = await stage.grant(job("tiny", replicas=1, cpu="0.2", command="sleep 60"))
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=200)
        await stage.world.advance(70)
        free = {row[2 + stage.capacity()["nodes"]["resources"].index("cpu")] for row in stage.capacity()["nodes"]["rows"]}
        assert free == {64_000}
        before = stage.capacity()["generation"]
        await stage.world.advance(1200)
        assert stage.capacity()["generation"] == before

    play(tell, member=Member(nodes=uniform("node", 2, cpu="64")))


def apart(name: str, *, replicas: int) -> Doc:
    """A gang of which no two pods may share a node."""
    made = job(name, replicas=replicas, command="sleep 60")
    template = made["spec"]["tasks"][0]["template"]
    template["metadata"] = {"labels": {"app": name}}
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def test_what_only_the_scheduler_can_tell_is_refused_by_its_word_and_not_left_standing_without_nodes() -> None:
    async def tell(stage: Stage) -> None:
        three, two = await stage.grant(apart("three", replicas=3)), await stage.grant(apart("two", replicas=2))
        await stage.until(lambda: bool(stage.refusal(three)), timeout=20)
        assert stage.refusal(three) == "NoRoom"
        assert "room for 2 of 3 pods" in stage.condition(three, "Applied")["message"]
        await stage.until(lambda: stage.reported(two) == "Running")
        assert stage.local("three") is None

    play(tell)
