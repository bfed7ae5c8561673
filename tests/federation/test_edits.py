"""A Job that is edited between the look at it and the commit, and one whose policy, queue or fence number changes then, is
looked at again (protocol.md 3, hard versions). What is edited after its dispatch is edited in its member."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from apis import keys, kinds
from apis.kinds import Kind
from federation.fences import raise_fence
from machinery import errors
from machinery.metering import MeteredPort
from machinery.port import Body, Document, PatchType
from policies.folding import EDIT_NOTE, EDITED
from policies.members import project_lease
from policies.views import Projections
from tests.federation.world import Tree, World, job, story


class Meddler(MeteredPort):
    """Somebody edits a Job in the instant before the hub reads it for its Work."""

    def __init__(self, world: World, *, edit: Tree) -> None:
        super().__init__(world.port)
        self._world = world
        self._edit: Tree | None = edit

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        if kind == kinds.JOB and self._edit is not None:
            edit, self._edit = self._edit, None
            await self._world.port.patch(kind, name, edit, type=PatchType.MERGE, namespace=namespace)
        return await super().get(kind, name, namespace=namespace)


def test_what_is_placed_is_what_was_packed() -> None:
    async def tell(world: World) -> None:
        small = job("train", pods=2)
        large: dict[str, Any] = job("train", pods=100)
        world.member("east", cpus=8)
        world.hub(port=Meddler(world, edit={"spec": large["spec"]}))
        await world.clock.sleep(15.0)
        uid = await world.submit(small)
        await world.clock.sleep(30.0)
        assert (await world.state("train"))["reason"] == "NoClusterFits"
        assert (await world.run_of("train")).epoch == 0
        assert world.journal.of(uid) == []
        await world.port.patch(kinds.JOB, "train", {"spec": small["spec"]}, type=PatchType.MERGE, namespace="default")
        await world.until_phase("train", "Completed")

    story(tell)


class Interloper(MeteredPort):
    """Somebody changes what a grant relies on, in the instant before the hub reads its Job; the hub's watches see it before
    the answer is there. `fences` are the fence numbers of the Works that it created."""

    def __init__(self, world: World, meddle: Callable[[], Awaitable[object]]) -> None:
        super().__init__(world.port)
        self._world = world
        self._meddle: Callable[[], Awaitable[object]] | None = meddle
        self.fences: list[int] = []

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        if kind == kinds.JOB and self._meddle is not None:
            meddle, self._meddle = self._meddle, None
            await meddle()
            await self._world.clock.sleep(0.5)
        return await super().get(kind, name, namespace=namespace)

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        made = await super().create(kind, body, namespace=namespace, dry_run=dry_run)
        if kind == kinds.WORK:
            work = Projections().work(made)
            self.fences += [work.record.fence] if work.record is not None else []
        return made


async def _policy(world: World, *, cluster: str) -> None:
    body = {
        "apiVersion": kinds.PROPAGATION_POLICY.api_version,
        "kind": "PropagationPolicy",
        "metadata": {"name": "where", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": kinds.JOB.api_version, "kind": "Job"}],
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
        },
    }
    await world.port.create(kinds.PROPAGATION_POLICY, body, namespace="default")


def test_a_policy_that_changes_before_the_commit_is_the_one_that_counts() -> None:
    async def tell(world: World) -> None:
        await _policy(world, cluster="east")
        for name in ("east", "west"):
            world.member(name)
        edit = {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["west"]}}}}

        async def meddle() -> None:
            await world.port.patch(kinds.PROPAGATION_POLICY, "where", edit, type=PatchType.MERGE, namespace="default")

        world.hub(port=Interloper(world, meddle))
        await world.clock.sleep(15.0)
        uid = await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        assert [(each.cluster, each.epoch) for each in world.journal.of(uid)] == [("west", 1)]

    story(tell)


def test_a_queue_that_is_narrowed_before_the_commit_grants_nothing_beyond_its_limit() -> None:
    async def tell(world: World) -> None:
        await world.queue("team", capability={"cpu": "8"})
        world.member("east")

        async def meddle() -> None:
            edit = {"spec": {"capability": {"cpu": "1"}}}
            await world.port.patch(kinds.QUEUE, "team", edit, type=PatchType.MERGE)

        world.hub(port=Interloper(world, meddle))
        await world.clock.sleep(15.0)
        uid = await world.submit(job("train", queue="team"))
        await world.clock.sleep(30.0)
        assert (await world.run_of("train")).epoch == 0
        assert world.journal.of(uid) == []

    story(tell)


def test_a_fence_number_that_is_raised_before_the_commit_is_the_one_that_is_granted() -> None:
    async def tell(world: World) -> None:
        world.member("east")
        port = Interloper(world, lambda: raise_fence(world.port, cluster="east"))
        world.hub(port=port)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        lease = await world.port.get(kinds.LEASE, "member", namespace=keys.execution_namespace("east"))
        assert port.fences == [project_lease(lease).fence]
        assert (await world.run_of("train")).parts["east"].fence == port.fences[0]

    story(tell)


async def _works(world: World) -> list[Tree]:
    return [json.loads(each) for each in (await world.port.list(kinds.WORK, namespace="karmada-es-east")).items]


def test_a_job_that_is_scaled_while_it_runs_is_scaled_in_its_member_and_runs_on() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", seconds=60.0)
        uid = await world.submit(job("train", pods=2))
        await world.until_phase("train", "Running")
        before = (await _works(world))[0]
        spec = job("train", pods=4)["spec"]
        await world.port.patch(kinds.JOB, "train", {"spec": spec}, type=PatchType.MERGE, namespace="default")
        await world.clock.sleep(5.0)
        (work,) = await _works(world)
        assert work["metadata"]["uid"] == before["metadata"]["uid"]
        assert work["spec"]["workload"]["manifests"][0]["spec"]["tasks"][0]["replicas"] == 4
        assert json.loads(work["metadata"]["annotations"][keys.RUN])["tasks"] == {"work": {"offset": 0, "total": 4}}
        assert EDITED not in (await world.state("train"))["message"]
        version = work["metadata"]["resourceVersion"]
        await world.clock.sleep(10.0)
        assert (await _works(world))[0]["metadata"]["resourceVersion"] == version
        await world.until_phase("train", "Completed")
        assert [each.epoch for each in world.journal.of(uid)] == [1]

    story(tell)


class Shut(MeteredPort):
    """Works may be made and not changed."""

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        if kind == kinds.WORK:
            raise errors.Forbidden("not today")
        return await super().replace(kind, name, body, namespace=namespace, subresource=subresource)


def test_an_edit_that_does_not_reach_the_work_is_told_and_the_run_goes_on_as_it_was_sent() -> None:
    async def told(world: World) -> list[str]:
        events = [json.loads(each) for each in (await world.port.list(kinds.EVENT)).items]
        return [each["type"] for each in events if each["reason"] == EDIT_NOTE]

    async def tell(world: World) -> None:
        world.hub(port=Shut(world.port))
        world.member("east", seconds=60.0)
        uid = await world.submit(job("train", pods=2))
        await world.until_phase("train", "Running")
        await world.annotate("train", note="not a part of the spec")
        await world.clock.sleep(5.0)
        assert EDITED not in (await world.state("train"))["message"]
        for pods in (3, 4):
            spec = job("train", pods=pods)["spec"]
            await world.port.patch(kinds.JOB, "train", {"spec": spec}, type=PatchType.MERGE, namespace="default")
            await world.clock.sleep(5.0)
            assert (await world.state("train"))["message"].endswith(EDITED)
        assert [each["status"] for each in (await world.job("train"))["status"]["conditions"]].count(EDIT_NOTE) == 1
        assert await told(world) == ["Warning"]
        await world.until_phase("train", "Completed")
        assert len(world.journal.of(uid)) == 1

    story(tell)
