"""Protocol.md 7: the status of a Job is written at most once a second, and an end at once."""

from __future__ import annotations

import json

from apis import keys, kinds
from machinery.metering import MeteredPort
from machinery.port import PatchType
from tests.federation.world import World, job, story


def test_a_member_that_floods_its_works_status_makes_one_write_of_the_job_a_second() -> None:
    async def tell(world: World) -> None:
        hub = MeteredPort(world.port)
        world.hub(port=hub)
        member = world.member("east", seconds=500.0)
        await world.clock.sleep(15.0)
        await world.submit(job("train"))
        await world.until_phase("train", "Running")
        member.away = True  # from here on this test is the member
        (document,) = (await world.port.list(kinds.WORK)).items
        work = json.loads(document)
        name, namespace = work["metadata"]["name"], keys.execution_namespace("east")
        await world.clock.sleep(5.0)
        before, began = _of_the_job(hub), world.clock.boot()
        for number in range(200):
            status = {"state": {"phase": "Running", "message": f"step {number}"}, "running": 1 + number % 2}
            work["status"]["manifestStatuses"][0]["status"] = status
            body = {"status": work["status"]}
            await world.port.patch(kinds.WORK, name, body, type=PatchType.MERGE, namespace=namespace, subresource="status")
            await world.clock.sleep(0.05)
        took = world.clock.boot() - began
        written = _of_the_job(hub) - before
        assert 3 <= written <= took + 1, f"{written} writes in {took:.1f} s for 200 changes"
        ended = {"state": {"phase": "Completed"}, "succeeded": 2}
        work["status"]["manifestStatuses"][0]["status"] = ended
        began = world.clock.boot()
        await world.port.patch(
            kinds.WORK, name, {"status": work["status"]}, type=PatchType.MERGE, namespace=namespace, subresource="status"
        )
        await world.until_phase("train", "Completed", within=2.0)
        assert world.clock.boot() - began <= 0.5, "an end waits for nothing"

    story(tell)


def _of_the_job(hub: MeteredPort) -> int:
    return sum(write.kind == kinds.JOB and write.subresource == "status" for write in hub.writes)
