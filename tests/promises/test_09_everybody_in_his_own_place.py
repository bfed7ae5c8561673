"""Promise 9, as far as agents go: an agent writes only its own cluster's objects, and never raises a fence number."""

from __future__ import annotations

import pytest

from apis import keys, kinds
from federation.clusters import guard
from machinery import errors
from machinery.port import PatchType
from simulator.api import MemoryPort
from simulator.faults import Write
from simulator.store import Change
from simulator.world import AGENTS, HUB, World
from tests.support.quickstart import FLOW, documents
from tests.support.stage import play
from tests.support.stories import job, phase


def is_its_own(write: Write) -> bool:
    """In its execution namespace, or the Cluster of its name; in its member everything."""
    member = write.actor.split("-", 1)[1]
    if write.server != HUB:
        return write.server == member
    return write.namespace == keys.execution_namespace(member) or (write.kind, write.name) == (kinds.CLUSTER.name, member)


def test_agents_and_fencers_write_in_their_own_namespace_alone() -> None:
    """Over a whole flow, with restarts on the way; the hub in turn writes in no member."""

    async def story(world: World) -> None:
        await world.apply(documents())
        for actor in ("hub", "agent-east", "fencer-west", "agent-west"):
            await world.advance(5)
            world.kill(actor)
        await world.until(lambda: phase(world, FLOW, kind=kinds.JOB_FLOW) == "Succeed", timeout=240)
        writes = world.faults.log
        assert [str(write) for write in writes if write.actor != "hub" and not is_its_own(write)] == []
        assert [str(write) for write in writes if write.actor == "hub" and write.server != HUB] == []

    play(story)


def test_the_fence_number_is_one_more_per_leader_and_nobody_else_moves_it() -> None:
    moved: list[tuple[float, str, int]] = []

    async def story(world: World) -> None:
        def note(change: Change) -> None:
            if change.new is not None and change.new.kind == kinds.LEASE and change.new.name == keys.MEMBER_LEASE:
                before = change.old.doc["spec"].get("leaseTransitions") if change.old is not None else None
                after = change.new.doc["spec"].get("leaseTransitions")
                if before != after:
                    moved.append((world.clock.boot(), change.new.namespace, after))

        world.servers[HUB].listeners.append(note)
        for actor in ("fencer-east", "agent-east", "hub", "fencer-west", "hub"):
            world.kill(actor)
            await world.advance(40)

    play(story)
    numbers = {name: [number for _, where, number in moved if where == name] for _, name, _ in moved}
    assert numbers == {"karmada-es-east": [2, 3], "karmada-es-west": [2, 3]}


def test_the_hub_forbids_agents_to_raise_it() -> None:
    """By the admission policy that it puts in force: its own expressions are evaluated, as an API server does."""

    async def story(world: World) -> None:
        agent = MemoryPort(world.servers[HUB], agent="fencer-east", groups=(guard.AGENTS,))
        where = keys.execution_namespace("east")
        lease = world.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=where)
        assert lease is not None
        before = lease["spec"]["leaseTransitions"]

        async def write(**spec: object) -> None:
            patch = {"spec": spec}
            await agent.patch(kinds.LEASE, keys.MEMBER_LEASE, patch, type=PatchType.MERGE, namespace=where)

        for number in (before + 1, before - 1, None):
            with pytest.raises(errors.Invalid, match="only the hub creates this Lease and raises it"):
                await write(leaseTransitions=number)
        await write(holderIdentity="another")
        body = {"metadata": {"name": "another"}, "spec": {"leaseTransitions": before}}
        with pytest.raises(errors.Invalid, match="only the hub"):
            await agent.create(kinds.LEASE, body, namespace=where)
        await agent.create(kinds.LEASE, body, namespace="default")  # a Lease that is no member's is nobody's fence number

        hub = MemoryPort(world.servers[HUB], agent="hub")
        raised = {"spec": {"leaseTransitions": before + 1}}
        await hub.patch(kinds.LEASE, keys.MEMBER_LEASE, raised, type=PatchType.MERGE, namespace=where)

    play(story)


def test_the_programs_of_a_member_are_known_as_agents() -> None:
    """Otherwise nothing would be forbidden to them in all the other stories."""
    assert AGENTS == guard.AGENTS


def test_a_tenant_asks_the_planner_in_his_own_name_and_namespace_and_learns_of_nobody_else() -> None:
    """What others run is nowhere in the answer, and neither are clusters to somebody who may not see them."""

    async def story(world: World) -> None:
        world.servers[HUB].access = lambda asked: asked["resourceAttributes"]["resource"] != "clusters"
        secret = job("secret", namespace="rivals", pods=2, runs_for=None)
        await world.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rivals"}}, secret])
        await world.advance(15)
        ann = MemoryPort(world.servers[HUB], agent="ann", groups=("tenants",))
        kind = kinds.PLACEMENT_REVIEW
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        questions = {"mine": {"manifest": job("train", pods=99)}, "theirs": {"manifest": secret}, "path": {"job": "../secret"}}
        for name, spec in questions.items():
            await ann.create(kind, {**head, "metadata": {"name": name}, "spec": spec}, namespace="default")
        await world.advance(10)
        answers = {name: (world.get(kind, name) or {})["status"] for name in questions}
        assert {name: each["outcome"] for name, each in answers.items()} == {
            "mine": "Waits",
            "theirs": "Refused",
            "path": "Refused",
        }
        told = str(answers["mine"])
        assert not any(word in told for word in ("secret", "rivals", "east", "west"))
        forged = {"creator": {"username": "root"}, "job": "train"}
        world.servers[HUB].webhooks = None
        with pytest.raises(errors.Invalid, match="nobody else"):
            await ann.create(kind, {**head, "metadata": {"name": "forged"}, "spec": forged}, namespace="default")

    play(story, admission=True)
