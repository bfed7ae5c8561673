"""Who may use which Queue and PriorityClass, and how much one namespace may submit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from apis import kinds
from apis.kinds import Kind
from apis.scheduling import Queue
from controllers.admission import reviews
from controllers.admission.door import HOLDS, Door, DoorRules
from controllers.admission.facts import Facts
from controllers.admission.named import named
from controllers.admission.reviews import Request, Verdict
from controllers.admission.settings import LimitSettings
from controllers.admission.sizes import LARGEST_JOB
from controllers.admission.webhooks import CREATE, UPDATE, Verb
from machinery.clock import Chance, Ids
from machinery.informer import Informers
from policies.queue_doors import NAME_LABEL, NAMESPACES
from simulator.api import ApiServer, MemoryPort
from tests.controllers.admission.reviewing import SERVED, Doc, facts, refusal, review, thing
from tests.machinery.fakes import LoopClock
from tests.manifests import GOOD_JOB

pytestmark = pytest.mark.looptime

HUB = "system:serviceaccount:federation-system:federation-hub"
"""The hub's own account."""


class Rights:
    """An API server's authoriser: who may use what, and how often it was asked."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[str, str, str]] = []

    def __call__(self, spec: Mapping[str, Any]) -> bool:
        attributes = spec["resourceAttributes"]
        assert attributes["verb"] == "use"
        wanted = (spec["user"], attributes["resource"], attributes["name"])
        self.asked.append(wanted)
        return wanted in self.allowed


class Gatehouse:
    """A door over an API server in memory."""

    def __init__(self, rights: Rights, *, check_use: bool = True, **limits: Any) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(self.clock, ids=Ids(Chance(2)), chance=Chance(1))
        self.server.access = rights
        self.port = MemoryPort(self.server)
        self.informers = Informers(self.port, self.clock, Chance(1))
        rules = DoorRules(check_use=check_use, trusted=frozenset({HUB}), limits=LimitSettings(**limits))
        self.door = Door(self.port, clock=self.clock, rules=rules, informers=self.informers)

    async def asks(self, kind: Kind, new: Doc, *, old: Doc | None = None, user: str = "ann", **more: Any) -> Verdict:
        """What somebody hears who writes an object."""
        webhook = SERVED[kind, Verb.VALIDATE]
        more = {"userInfo": {"username": user, "groups": ["data"]}, **more}
        request: Request = reviews.parse(
            review(kind, new, old=old, operation=UPDATE if old else CREATE, **more), webhook=webhook
        )
        return await self.door.judge(request, webhook=webhook)


def job(name: str = "train", *, namespace: str = "ns", **spec: Any) -> Doc:
    return thing(kinds.JOB, name, namespace=namespace, spec={**GOOD_JOB, **spec})


def said(verdict: Verdict) -> tuple[int, str]:
    """Code and text of a refusal."""
    assert verdict.problems
    return verdict.code, "; ".join(map(str, verdict.problems))


# --- who may use what --------------------------------------------------------------------------------------------------


async def test_who_may_not_use_a_queue_or_a_class_is_told_which_right_is_missing() -> None:
    gate = Gatehouse(Rights(("ann", "queues", "gpu")))
    assert not (await gate.asks(kinds.JOB, job(queue="gpu"))).problems
    code, text = said(await gate.asks(kinds.JOB, job(queue="gpu", priorityClassName="urgent")))
    assert code == 403
    assert text == (
        "spec.priorityClassName: ann may not use PriorityClass urgent: a ClusterRole with verb use on "
        "priorityclasses.scheduling.k8s.io named urgent would allow it"
    )
    code, text = said(await gate.asks(kinds.JOB, job(queue="gpu"), user="bob"))
    assert (code, text.split(":")[0]) == (403, "spec.queue")


async def test_the_default_queue_is_everybodys_and_nothing_is_asked_where_it_is_off() -> None:
    rights = Rights()
    assert not (await Gatehouse(rights).asks(kinds.JOB, job(queue="default"))).problems
    assert not (await Gatehouse(rights, check_use=False).asks(kinds.JOB, job(queue="gpu"))).problems
    assert rights.asked == []


async def test_jobs_that_the_hub_makes_have_the_rights_of_whoever_wrote_their_template() -> None:
    gate = Gatehouse(Rights())
    assert not (await gate.asks(kinds.JOB, job(queue="gpu"), user=HUB)).problems
    template = thing(kinds.JOB_TEMPLATE, spec={**GOOD_JOB, "queue": "gpu"})
    cron = thing(kinds.CRON_JOB, spec={"jobTemplate": {"spec": {**GOOD_JOB, "queue": "gpu"}}})
    flow = thing(kinds.JOB_FLOW, spec={"flows": [{"name": "a"}, {"name": "b", "patch": {"jobSpec": {"queue": "gpu"}}}]})
    ends = thing(kinds.JOB_FLOW, spec={"flows": [], "onExit": [{"name": "z", "patch": {"jobSpec": {"queue": "gpu"}}}]})
    for kind, body, field in (
        (kinds.JOB_TEMPLATE, template, "spec.queue"),
        (kinds.CRON_JOB, cron, "spec.jobTemplate.spec.queue"),
        (kinds.JOB_FLOW, flow, "spec.flows[1].patch.jobSpec.queue"),
        (kinds.JOB_FLOW, ends, "spec.onExit[0].patch.jobSpec.queue"),
    ):
        assert [each.field for each in (await gate.asks(kind, body)).problems] == [field]


async def test_what_somebody_else_wrote_is_not_asked_of_who_changes_another_field() -> None:
    gate = Gatehouse(Rights())
    old = thing(kinds.JOB_TEMPLATE, spec={**GOOD_JOB, "queue": "gpu"})
    new = thing(kinds.JOB_TEMPLATE, spec={**GOOD_JOB, "queue": "gpu", "maxRetry": 5})
    assert not (await gate.asks(kinds.JOB_TEMPLATE, new, old=old)).problems
    moved = thing(kinds.JOB_TEMPLATE, spec={**GOOD_JOB, "queue": "other"})
    assert (await gate.asks(kinds.JOB_TEMPLATE, moved, old=old)).problems


def test_a_class_that_only_the_pods_name_is_found_as_well() -> None:
    tasks = [{"name": "w", "template": {"spec": {"priorityClassName": "urgent"}}}]
    found = named(kinds.JOB, thing(kinds.JOB, spec={"tasks": tasks}))
    assert [(each.field, each.name) for each in found] == [("spec.tasks[0].template.spec.priorityClassName", "urgent")]


async def test_a_right_is_remembered_for_a_while_and_a_refusal_is_not() -> None:
    rights = Rights(("ann", "queues", "gpu"))
    gate = Gatehouse(rights)
    for _ in range(3):
        await gate.asks(kinds.JOB, job(queue="gpu"))
    assert len(rights.asked) == 1
    rights.allowed.clear()
    await asyncio.sleep(HOLDS + 1)
    assert (await gate.asks(kinds.JOB, job(queue="gpu"))).problems
    rights.allowed.add(("ann", "queues", "gpu"))
    assert not (await gate.asks(kinds.JOB, job(queue="gpu"))).problems


# --- the namespaces of a queue -----------------------------------------------------------------------------------------


def _known(selector: str, *, parent: str = "") -> Facts:
    gpu = Queue.model_validate(thing(kinds.QUEUE, "gpu", annotations={NAMESPACES: selector}))
    below = Queue.model_validate(thing(kinds.QUEUE, "below", spec={"parent": "gpu"}))
    known = facts(gpu, *([below] if parent else []))
    return Facts(known.queues, {}, {"ns": {NAME_LABEL: "ns", "team": "research"}})


def test_a_queue_is_for_the_namespaces_that_it_selects() -> None:
    assert refusal(kinds.JOB, job(queue="gpu"), known=_known("team=research")) == ""
    assert refusal(kinds.JOB, job(queue="gpu"), known=_known("team=sales")) == (
        "spec.queue: queue gpu is not for namespace ns: it is for namespaces with team=sales"
    )


def test_what_stands_below_such_a_queue_is_for_the_same_namespaces() -> None:
    text = refusal(kinds.JOB, job(queue="below"), known=_known("team=sales", parent="gpu"))
    assert text.startswith("spec.queue: queue gpu is not for namespace ns")


def test_a_selector_that_cannot_be_read_is_refused_where_it_is_written() -> None:
    queue = thing(kinds.QUEUE, "gpu", annotations={NAMESPACES: "team in"}, spec={"weight": 1})
    assert f"metadata.annotations[{NAMESPACES}]" in refusal(kinds.QUEUE, queue)


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_a_namespace_that_submits_too_fast_waits_and_another_does_not() -> None:
    gate = Gatehouse(Rights(), jobs_per_minute=3)
    for number in range(3):
        assert not (await gate.asks(kinds.JOB, job(f"j{number}"))).problems
    assert said(await gate.asks(kinds.JOB, job("j3"))) == (
        429,
        "metadata.namespace: namespace ns submits more than 3 Jobs a minute: submit it again in 20 s",
    )
    assert not (await gate.asks(kinds.JOB, job("first", namespace="other"))).problems
    await asyncio.sleep(20)
    assert not (await gate.asks(kinds.JOB, job("j3"))).problems


async def test_a_dry_run_and_a_refused_job_count_for_nothing() -> None:
    gate = Gatehouse(Rights(), jobs_per_minute=1)
    assert not (await gate.asks(kinds.JOB, job("dry"), dryRun=True)).problems
    assert (await gate.asks(kinds.JOB, job("no", queue="gpu"))).code == 403
    assert not (await gate.asks(kinds.JOB, job("real"))).problems


async def test_no_more_jobs_wait_than_may_and_those_on_their_way_count() -> None:
    gate = Gatehouse(Rights(), pending_jobs=2)
    await gate.port.create(kinds.NAMESPACE, thing(kinds.NAMESPACE, "ns"))
    for name in ("a", "b"):
        await gate.port.create(kinds.JOB, job(name), namespace="ns")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(gate.informers.run())
        await gate.informers.wait_synced()
        assert gate.door.synced
        code, text = said(await gate.asks(kinds.JOB, job("c")))
        assert code == 429
        assert "2 Jobs of namespace ns wait already, and 2 may" in text
        for name in ("x", "y"):
            assert not (await gate.asks(kinds.JOB, job(name, namespace="other"))).problems
        assert (await gate.asks(kinds.JOB, job("z", namespace="other"))).code == 429
        running = orjson.loads(await gate.port.get(kinds.JOB, "a", namespace="ns"))
        running["status"] = {"state": {"phase": "Running"}}
        await gate.port.replace(kinds.JOB, "a", running, namespace="ns", subresource="status")
        await asyncio.sleep(0.5)
        assert not (await gate.asks(kinds.JOB, job("c"))).problems
        task.cancel()


def test_a_job_whose_work_would_be_too_large_is_refused_with_the_way_out() -> None:
    long = {"name": "DATA", "value": "x" * LARGEST_JOB}
    container = {"name": "c", "image": "i", "env": [long]}
    tasks = [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [container]}}}]
    text = refusal(kinds.JOB, job(tasks=tasks))
    assert "keep scripts and data in a ConfigMap" in text
    assert text.startswith("spec: its Work would be ")
