"""Evictions by the scheduler of a member on real API servers and kubelets: preempt, reclaim, and who is left alone.

The configuration is changed live in the ConfigMap in which upstream's own tests change theirs, and taken away at the end. The
stories of one configuration are told side by side, each on a stage of its own (e2e/stage.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from apis import keys, kinds
from e2e.apply import Doc, apply, phase, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import text
from e2e.jobs import counted, in_phase, uids
from e2e.stage import Stage, Theatre, until
from machinery import errors
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(5), pytest.mark.usefixtures("real_nodes", "running")]


@pytest.fixture
async def theatre(federation: Federation, hub_port: KubePort, member_ports: dict[str, KubePort]) -> Theatre:
    await wait_ready(hub_port, kinds.CLUSTER, names=["west"])
    return Theatre(federation, member_ports, run=str(int(time.time()) % 1_000_000))


PLACE = ("volcano-system", "integration-scheduler-configmap", "volcano-scheduler-ci.conf")
"""Namespace, name and key of the ConfigMap that upstream's own tests edit."""

EVICTING = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: {shares}
  - name: nodeorder
"""


@contextlib.asynccontextmanager
async def configured(port: KubePort) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Says what configuration holds, as often as wanted; afterwards there is none again."""
    namespace, name, key = PLACE
    with contextlib.suppress(errors.AlreadyExists):
        await port.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})

    async def say(shares: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {key: EVICTING.format(shares=shares)},
        }
        await apply(port, text(body), namespace=namespace)

    try:
        yield say
    finally:
        await port.delete(kinds.CONFIGMAP, name, namespace=namespace)


async def evicted(here: Stage, job: str, before: dict[str, str], *, count: int) -> None:
    """So many pods of the Job have been evicted: an event on each says so, and the Job lives on and counts no failure."""
    told = await until(
        lambda: asyncio.gather(*(here.place.events(f"{job}-{pod}", reason="Evict") for pod in before)),
        lambda seen: len([texts for texts in seen if texts]) >= count,
    )
    assert len([texts for texts in told if texts]) == count, told
    found = await here.place.until(lambda doc: counted(doc, "running") + counted(doc, "pending") == len(before), job)
    assert phase(found) == "Running", found["status"]
    assert counted(found, "retryCount") == counted(found, "failed") == 0


async def untouched(here: Stage, job: str, before: dict[str, str]) -> None:
    """The very pods of the Job run on, and nobody was told to go."""
    pods = await here.place.pods(job)
    assert uids(pods) == before and len(in_phase(pods, "Running")) == len(before)
    assert not [text for pod in before for text in await here.place.events(f"{job}-{pod}", reason="Evict")]


async def low(here: Stage, *, minimum: int, note: dict[str, str] | None = None, **spec: Any) -> dict[str, str]:
    """A Job that fills the four slots of the stage; its pods' UIDs."""
    await here.offer({"west-1": 2, "west-2": 2})
    await here.submit("low", here.task("worker", 4, slots=1, note=note), minimum=minimum, **spec)
    await here.runs("low", pods=4)
    return uids(await here.place.pods("low"))


async def preempt(here: Stage) -> None:
    """The more important Job evicts of the less important one what it needs, down to what that needs itself."""
    less, more = await here.priority("less", 10), await here.priority("more", 1000)
    before = await low(here, minimum=2, priorityClassName=less)
    await here.submit("high", here.task("worker", 2, slots=1), minimum=2, priorityClassName=more)
    await here.runs("high", pods=2)
    await evicted(here, "low", before, count=2)
    assert len(await here.placed("low")) == 2
    await here.place.until(lambda doc: phase(doc) == "Running", "low")


async def preempt_too_few(here: Stage) -> None:
    """Where victims would not make room enough, nobody goes; neither for a Job of equal importance."""
    less, more = await here.priority("less", 10), await here.priority("more", 1000)
    before = await low(here, minimum=3, priorityClassName=less)
    await here.submit("high", here.task("worker", 2, slots=1), minimum=2, priorityClassName=more)
    await here.submit("equal", here.task("worker", 1, slots=1), minimum=1, priorityClassName=less)
    await here.waits("high", here.resource)
    await here.waits("equal", here.resource)
    await settled(here)
    await untouched(here, "low", before)


async def preempt_forbidden(here: Stage) -> None:
    """Who says of himself that he is not to be preempted stays."""
    less, more = await here.priority("less", 10), await here.priority("more", 1000)
    before = await low(here, minimum=1, note={keys.PREEMPTABLE: "false"}, priorityClassName=less)
    await here.submit("high", here.task("worker", 1, slots=1), minimum=1, priorityClassName=more)
    await here.waits("high", here.resource)
    await settled(here)
    await untouched(here, "low", before)


async def settled(here: Stage) -> None:
    """A newcomer has come through a round: what the rounds before it decided has been carried out."""
    await here.submit("witness", here.task("modest", 1), minimum=1)
    await here.runs("witness", pods=1)


def deserved(here: Stage, slots: int, **more: Any) -> Doc:
    """A queue that deserves so many slots and a little of all else."""
    return {"weight": 1, "deserved": {here.resource: str(slots), "cpu": "500m", "memory": "256Mi"}, **more}


async def reclaim_capacity(here: Stage) -> None:
    """A queue takes back what it deserves from one that has more than it deserves, and no more."""
    borrower, owner = await here.queue("borrower", **deserved(here, 2)), await here.queue("owner", **deserved(here, 2))
    before = await low(here, minimum=1, queue=borrower)
    await here.submit("due", here.task("worker", 2, slots=1), minimum=2, queue=owner)
    await here.runs("due", pods=2)
    await evicted(here, "low", before, count=2)
    await here.submit("undue", here.task("worker", 1, slots=1), minimum=1, queue=owner)
    await here.waits("undue")
    await settled(here)
    assert len(await here.placed("low")) == 2 and await here.placed("undue") == []


async def reclaim_forbidden(here: Stage) -> None:
    """A queue that does not give back keeps what it has."""
    keeper = await here.queue("keeper", **deserved(here, 2, reclaimable=False))
    owner = await here.queue("owner", **deserved(here, 2))
    before = await low(here, minimum=1, queue=keeper)
    await here.submit("due", here.task("worker", 1, slots=1), minimum=1, queue=owner)
    await here.waits("due", here.resource)
    await settled(here)
    await untouched(here, "low", before)


async def reclaim_proportion(here: Stage) -> None:
    """With shares by weight, a queue of weight three takes three of four slots from one of weight one."""
    light, heavy = await here.queue("light", weight=1), await here.queue("heavy", weight=3)
    before = await low(here, minimum=1, queue=light)
    await here.submit("due", here.task("worker", 3, slots=1), minimum=3, queue=heavy)
    await here.runs("due", pods=3)
    await evicted(here, "low", before, count=3)
    assert len(await here.placed("low")) == 1


async def nobody_is_evicted(here: Stage) -> None:
    """With the built-in configuration, which has no preempt, the important wait."""
    less, more = await here.priority("less", 10), await here.priority("more", 1000)
    before = await low(here, minimum=1, priorityClassName=less)
    await here.submit("high", here.task("worker", 1, slots=1), minimum=1, priorityClassName=more)
    await here.waits("high", here.resource)
    await settled(here)
    await untouched(here, "low", before)


async def test_evictions_by_a_configuration_that_is_changed_live(theatre: Theatre, member_ports: dict[str, KubePort]) -> None:
    async with configured(member_ports["west"]) as say:
        await say("capacity")
        stories = (preempt, preempt_too_few, preempt_forbidden, reclaim_capacity, reclaim_forbidden)
        await theatre.tell(*stories, on="west")
        await say("proportion")
        await theatre.tell(reclaim_proportion, on="west")
    await theatre.tell(nobody_is_evicted, on="west")
