"""A member's programs evict pods for others: what is written, who starts, what the Jobs make of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from member_agent.scheduling import planner
from member_agent.scheduling.plugins.protocol import Plugin, Victim
from member_agent.scheduling.session import OpenSession
from tests.member_agent.scheduling.test_stories import configure, told
from tests.member_agent.world import EAST, Stage, job, play, typed

pytestmark = pytest.mark.story

ACTIONS = "enqueue, allocate, backfill, reclaim, preempt, shuffle"
FIRST = "{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}"
CONFIGURED = f"actions: '{ACTIONS}'\ntiers: [{{plugins: [{FIRST}]}}, {{plugins: [{{name: predicates}}, {{name: proportion}}]}}]"


async def priorities(stage: Stage, **values: int) -> None:
    for name, value in values.items():
        await stage.world.client(EAST).create(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})


async def submit(stage: Stage, name: str, *, replicas: int, priority: str = "", queue: str = "default", **more: Any) -> None:
    spec: dict[str, Any] = {"priorityClassName": priority} if priority else {}
    body = job(name, replicas=replicas, cpu="1", command="sleep 100000", queue=queue, **spec, **more)
    await stage.world.client(EAST).create(kinds.JOB, body, namespace="default")


def running(stage: Stage, name: str) -> int:
    return len(stage.running(name))


def conditions(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in pod["status"].get("conditions") or []}


async def watch_for(stage: Stage, type: str, name: str) -> dict[str, Any]:
    """The condition, as soon as a pod of the Job carries it."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found.extend(each for pod in stage.pods(name) if (each := conditions(pod).get(type)) and each["status"] == "True")
        return bool(found)

    await stage.until(look, timeout=60, what=f"{type} of {name}")
    return found[0]


def test_a_more_important_job_takes_the_room_of_a_less_important_one() -> None:
    """Eight cpus: the low Job has them all, the high one wants three. The low Job goes on with five and did not fail."""

    async def story(stage: Stage) -> None:
        await configure(stage, CONFIGURED)
        await priorities(stage, high=100, low=10)
        await submit(stage, "low", replicas=8, minimum=1, priority="low")
        await stage.until(lambda: running(stage, "low") == 8)
        await submit(stage, "high", replicas=3, priority="high")
        target = await watch_for(stage, "DisruptionTarget", "low")
        assert target["reason"] == "PreemptionByScheduler"
        await stage.until(lambda: running(stage, "high") == 3, timeout=240)
        assert running(stage, "low") == 5
        assert stage.phase("low") == "Running"
        assert (stage.local("low") or {})["status"].get("retryCount", 0) == 0
        assert {kind for kind, _ in told(stage, "Evict")} == {"Pod", "PodGroup"}
        await stage.world.advance(300)
        assert (running(stage, "high"), running(stage, "low")) == (3, 5), "and so it stays"

    play(story, nodes=2, cpu="4")


def test_a_queue_gets_back_what_another_borrowed() -> None:
    """Eight cpus, two queues of equal weight: the first has them all until the second has work."""

    async def story(stage: Stage) -> None:
        await configure(stage, CONFIGURED)
        for name in ("q1", "q2"):
            await stage.world.client(EAST).create(
                kinds.QUEUE, typed(kinds.QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1}})
            )
        await submit(stage, "first", replicas=8, minimum=1, queue="q1")
        await stage.until(lambda: running(stage, "first") == 8)
        await submit(stage, "second", replicas=4, queue="q2")
        assert (await watch_for(stage, "DisruptionTarget", "first"))["reason"] == "ReclaimByScheduler"
        await stage.until(lambda: running(stage, "second") == 4, timeout=240)
        await stage.world.advance(300)
        assert (running(stage, "first"), running(stage, "second")) == (4, 4), "neither takes anything back again"

    play(story, nodes=2, cpu="4")


def test_an_agent_that_comes_back_knows_what_is_kept_for_whom() -> None:
    """It is killed while the victims take their time to end: its successor evicts nobody else and starts the beneficiary."""

    async def story(stage: Stage) -> None:
        await configure(stage, CONFIGURED)
        await priorities(stage, high=100, low=10)
        await submit(stage, "low", replicas=8, minimum=1, priority="low")
        await stage.until(lambda: running(stage, "low") == 8)
        await submit(stage, "high", replicas=3, priority="high")

        def nominated() -> int:
            return sum(bool((pod.get("status") or {}).get("nominatedNodeName")) for pod in stage.pods("high"))

        await stage.until(lambda: nominated() == 3, timeout=60, what="nominated nodes")
        stage.world.kill(f"agent-{EAST}")
        await stage.until(lambda: running(stage, "high") == 3, timeout=300)
        assert running(stage, "low") == 5
        assert len({message for kind, message in told(stage, "Evict") if kind == "Pod"}) <= 3

    play(story, nodes=2, cpu="4")


def test_a_disruption_budget_holds_evictions_until_it_allows_them() -> None:
    """Its controller says what is allowed; the member watches it."""

    async def story(stage: Stage) -> None:
        await configure(stage, CONFIGURED.replace("{name: conformance}", "{name: conformance}, {name: pdb}"))
        await priorities(stage, high=100, low=10)
        port = stage.world.client(EAST)
        spec = {"selector": {"matchLabels": {"volcano.sh/job-name": "low"}}, "minAvailable": 6}
        budget = typed(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": "low"}, "spec": spec})
        await port.create(kinds.POD_DISRUPTION_BUDGET, budget, namespace="default")
        await submit(stage, "low", replicas=8, minimum=1, priority="low")
        await stage.until(lambda: running(stage, "low") == 8)
        await submit(stage, "high", replicas=2, priority="high")
        await stage.world.advance(30)
        assert not told(stage, "Evict")
        allowed = {"status": {"disruptionsAllowed": 2}}
        kind = kinds.POD_DISRUPTION_BUDGET
        await port.patch(kind, "low", allowed, type=PatchType.MERGE, namespace="default")
        await stage.until(lambda: running(stage, "high") == 2, timeout=240)

    play(story, nodes=2, cpu="4")


class Emptier(Plugin):
    """Wants the first node empty while it is marked."""

    name = "emptier"

    def victims(self) -> Iterable[Victim]:
        assert isinstance(self.session, OpenSession)
        layout = self.session.room.layout
        holders = self.session.turnover.holders
        for queue in holders.queues():
            for stands in holders.of(queue, None):
                for pod in stands.pods:
                    row = layout.names.index(pod.node)
                    if dict(layout.classes[layout.class_of[row]].labels).get("empty") == "true":
                        yield Victim(pod, row, stands.key, queue, stands.priority)


def test_shuffle_moves_pods_off_a_node_that_a_plugin_wants_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed plugin names them; their Job makes them anew, and they find another node."""

    monkeypatch.setattr(planner, "installed_plugins", lambda: {"emptier": Emptier})
    text = f"actions: '{ACTIONS}'\ntiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: emptier}}]}}]"

    async def story(stage: Stage) -> None:
        await configure(stage, text)
        await submit(stage, "steady", replicas=2, minimum=1)
        await stage.until(lambda: running(stage, "steady") == 2)
        first = stage.pods("steady")[0]["spec"]["nodeName"]
        taint = {"spec": {"taints": [{"key": "empty", "effect": "NoSchedule"}]}, "metadata": {"labels": {"empty": "true"}}}
        await stage.world.client(EAST).patch(kinds.NODE, first, taint, type=PatchType.MERGE)
        assert (await watch_for(stage, "DisruptionTarget", "steady"))["reason"] == "MovedByScheduler"

        def away() -> int:
            return sum(pod["spec"].get("nodeName") not in ("", None, first) for pod in stage.pods("steady"))

        await stage.until(lambda: away() == 2 and running(stage, "steady") == 2, timeout=240)

    play(story, nodes=2, cpu="4")
