"""Protocol.md 7: how much is written for one Job, and how large it is."""

from __future__ import annotations

import json

from apis import kinds, naming
from federation.dispatch import documents
from machinery.metering import MeteredPort, Write
from simulator.faults import Faults
from tests.federation.world import Tree, World, job, story

OF_A_JOB = (kinds.JOB, kinds.RESOURCE_BINDING, kinds.WORK)


def _counted(*ports: MeteredPort) -> list[Write]:
    return [write for port in ports for write in port.writes if write.kind in OF_A_JOB]


def _told(writes: list[Write]) -> str:
    return "\n".join(f"{write.verb} {write.kind.kind} {write.subresource or ''}" for write in writes)


def test_a_job_costs_at_most_ten_writes_to_its_end_and_three_to_vanish() -> None:
    async def tell(world: World) -> None:
        hub, agent = MeteredPort(world.port), MeteredPort(world.port)
        world.hub(port=hub)
        world.member("east", port=agent, seconds=20.0)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Completed")
        await world.clock.sleep(30.0)
        until_end = _counted(hub, agent)
        assert len(until_end) <= 10, _told(until_end)
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            return await world.gone(kinds.RESOURCE_BINDING, "train-job")

        await world.until(nothing)
        vanishing = _counted(hub, agent)[len(until_end) :]
        assert len(_counted(hub, agent)) - len(until_end) <= 3, _told(vanishing)

    story(tell)


def test_a_job_deleted_while_it_runs_costs_three_writes_to_vanish() -> None:
    async def tell(world: World) -> None:
        hub, agent = MeteredPort(world.port), MeteredPort(world.port)
        world.hub(port=hub)
        world.member("east", port=agent, seconds=500.0)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        await world.clock.sleep(10.0)
        before = len(_counted(hub, agent))
        await world.port.delete(kinds.JOB, "train", namespace="default")

        async def nothing() -> bool:
            return await world.gone(kinds.RESOURCE_BINDING, "train-job")

        await world.until(nothing)
        assert len(_counted(hub, agent)) - before <= 3

    story(tell)


def test_bindings_and_works_stay_small() -> None:
    async def tell(world: World) -> None:
        world.hub()
        for index in range(12):
            world.member(f"member-with-a-long-name-{index:02}")
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        binding = await world.port.get(kinds.RESOURCE_BINDING, "train-job", namespace="default")
        assert len(binding) <= 4096, len(binding)
        (work,) = (await world.port.list(kinds.WORK)).items
        tree = json.loads(work)
        manifest = documents.manifest(await world.job("train"))
        assert tree["spec"]["workload"]["manifests"][0] == manifest
        assert "status" not in manifest
        tree.pop("status", None)
        assert len(json.dumps(tree)) <= len(json.dumps(manifest)) + 1024

    story(tell)


def _manifest(document: bytes) -> Tree:
    (found,) = json.loads(document)["spec"]["workload"]["manifests"]
    manifest: Tree = found
    return manifest


IDENTITY = {
    "apiVersion": kinds.JOB.api_version,
    "kind": "Job",
    "metadata": {"namespace": "default", "name": "train"},
}


def test_the_work_of_an_ended_job_shrinks_to_identity_and_result_by_one_write_after_the_end_was_told() -> None:
    async def tell(world: World) -> None:
        hub = MeteredPort(world.port)
        world.hub(port=hub)
        world.member("east", seconds=20.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        (before,) = [each for each in (await world.port.list(kinds.WORK)).items if b"train" in each]
        assert "spec" in _manifest(before)
        await world.until_phase("train", "Completed")
        await world.clock.sleep(5.0)
        sequence = [(write.kind.kind, write.verb, write.subresource) for write in _counted(hub) if "train" in write.name]
        assert sequence[-2:] == [("Job", "patch", "status"), ("Work", "patch", None)]
        works = {_manifest(each)["metadata"]["name"]: each for each in (await world.port.list(kinds.WORK)).items}
        assert _manifest(works["train"]) == IDENTITY
        after = json.loads(works["train"])
        assert after["status"]["manifestStatuses"][0]["status"]["state"]["phase"] == "Completed"
        assert after["metadata"]["annotations"] == json.loads(before)["metadata"]["annotations"]
        assert len(works["train"]) < len(before)
        await world.clock.sleep(60.0)
        assert sum("train" in write.name for write in _counted(hub)) == len(sequence)

    story(tell)


def test_only_ended_jobs_shrink_and_a_new_hub_goes_on_where_the_old_one_died() -> None:
    async def tell(world: World) -> None:
        faults = Faults(world.chance)
        hub = world.supervised_hub(faults)
        world.member("east", seconds=15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        world.members["east"].seconds = 500.0
        await world.submit(job("other"))
        await world.until_phase("other", "Running")
        world.members["east"].seconds = 15.0

        async def told() -> bool:
            if (await world.state("train")).get("phase") != "Completed":
                return False
            hub.kill()
            return True

        await world.until(told)
        world.members["east"].seconds = 500.0
        await world.clock.sleep(60.0)
        works = {_manifest(each)["metadata"]["name"]: each for each in (await world.port.list(kinds.WORK)).items}
        assert _manifest(works["train"]) == IDENTITY
        assert "spec" in _manifest(works["other"])
        assert (await world.run_of("train")).epoch == 1

    story(tell)


def test_a_job_whose_work_would_pass_a_mebibyte_fails_with_the_reason_and_no_work_is_made() -> None:
    async def tell(world: World) -> None:
        world.hub()
        world.member("east", cpus=64)
        huge = job("huge")
        text = [{"name": "DATA", "value": "x" * (1 << 20)}]
        huge["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = text
        await world.submit(huge)
        await world.submit(job("fine"))
        await world.until_phase("huge", "Failed")
        state = await world.state("huge")
        assert (state["reason"], state["message"].startswith("spec: its Work would have")) == ("WorkTooLarge", True)
        assert "a Work has at most 1048576" in state["message"]
        await world.until_phase("fine", "Completed")
        assert {json.loads(each)["metadata"]["name"] for each in (await world.port.list(kinds.WORK)).items} == {
            naming.work_name("fine", namespace="default")
        }

    story(tell)
