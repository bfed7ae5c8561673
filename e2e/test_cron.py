"""CronJobs on the real clock, at the hub and at a member, all in the same minute."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import orjson
import pytest

from apis import kinds
from e2e.apply import Doc, apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import on, template, text
from machinery import errors
from machinery.kube import KubePort
from machinery.port import PatchType

pytestmark = pytest.mark.issue(4)

STAMP = "volcano.sh/cronjob-scheduled-timestamp"
ZONE = "Asia/Kolkata"
"""A zone that is no whole number of hours away."""
EVER = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def cron(name: str, **spec: Any) -> Doc:
    """A CronJob that is due every minute, of Jobs of one pod."""
    return {
        "apiVersion": kinds.CRON_JOB.api_version,
        "kind": kinds.CRON_JOB.kind,
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": template("one", pods=1)["spec"]}, **spec},
    }


def last(doc: Doc | None) -> datetime.datetime | None:
    """When its last run was scheduled."""
    stamp = ((doc or {}).get("status") or {}).get("lastScheduleTime")
    return datetime.datetime.fromisoformat(stamp) if stamp else None


def reason(doc: Doc | None) -> str:
    """Why no run is started."""
    conditions = ((doc or {}).get("status") or {}).get("conditions") or []
    return next((str(each["reason"]) for each in conditions if each["status"] == "False"), "")


async def suspend(port: KubePort, name: str, *, value: bool, namespace: str) -> None:
    await port.patch(kinds.CRON_JOB, name, {"spec": {"suspend": value}}, type=PatchType.MERGE, namespace=namespace)


async def runs(port: KubePort, name: str, *, namespace: str) -> list[Doc]:
    """The Jobs that a CronJob owns, eldest first."""
    page = await port.list(kinds.JOB, namespace=namespace)
    found = [orjson.loads(item) for item in page.items]
    owned = [job for job in found if [owner["name"] for owner in job["metadata"].get("ownerReferences") or []] == [name]]
    return sorted(owned, key=lambda job: str(job["metadata"]["name"]))


async def it_runs(port: KubePort, *, namespace: str) -> None:
    """One run from its minute to its record."""
    done = await wait_for(
        port,
        kinds.CRON_JOB,
        "tick",
        namespace=namespace,
        until=lambda doc: bool(((doc or {}).get("status") or {}).get("lastSuccessfulTime")),
    )
    job = (await runs(port, "tick", namespace=namespace))[0]
    scheduled = datetime.datetime.fromisoformat(job["metadata"]["annotations"][STAMP])
    assert phase(job) == "Completed"
    assert job["metadata"]["name"] == f"tick-{int(scheduled.timestamp()) // 60}"
    assert scheduled.utcoffset() == datetime.timedelta(hours=5, minutes=30) and scheduled.second == 0
    created = datetime.datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    assert datetime.timedelta() <= created - scheduled < datetime.timedelta(seconds=10)
    assert (last(done) or scheduled) >= scheduled
    assert job["metadata"]["name"] not in [each["name"] for each in (done or {})["status"].get("active") or []]


async def suspend_stops_it(port: KubePort, *, namespace: str) -> None:
    """While `tick` runs in its minute the suspended one does not; resumed, it makes up for the latest run."""
    await suspend(port, "still", value=True, namespace=namespace)
    await wait_for(port, kinds.CRON_JOB, "still", namespace=namespace, until=lambda doc: reason(doc) == "Suspended")
    before = await runs(port, "still", namespace=namespace)
    moment = last(orjson.loads(await port.get(kinds.CRON_JOB, "tick", namespace=namespace)))
    ticked = await wait_for(
        port, kinds.CRON_JOB, "tick", namespace=namespace, until=lambda doc: last(doc) not in (None, moment)
    )
    await asyncio.sleep(3.0)  # what would have been started in that minute would be there by now
    assert await runs(port, "still", namespace=namespace) == before
    await suspend(port, "still", value=False, namespace=namespace)
    await wait_for(
        port, kinds.CRON_JOB, "still", namespace=namespace, until=lambda doc: (last(doc) or EVER) >= (last(ticked) or EVER)
    )
    assert len(await runs(port, "still", namespace=namespace)) > len(before)


async def a_wrong_one_says_so(port: KubePort, *, namespace: str) -> None:
    """A day that never comes is refused at the door; where nobody stands there yet, the controller tells of it."""
    try:
        await apply(port, text(cron("never", schedule="0 0 31 2 *")), namespace=namespace)
    except (errors.Invalid, errors.Forbidden) as refused:
        assert "spec.schedule" in str(refused) and "never due" in str(refused)
        return
    wrong = await wait_for(port, kinds.CRON_JOB, "never", namespace=namespace, until=lambda doc: bool(reason(doc)))
    assert reason(wrong) == "InvalidSchedule"


async def test_cronjobs_run_every_minute_carry_their_time_and_stop_when_suspended(
    running: Federation, namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    await wait_ready(hub_port, kinds.CLUSTER, names=sorted(running.members))
    await apply(hub_port, text(on("east", "west")), namespace=namespace)
    places = (hub_port, member_ports["east"])
    for port in places:
        await apply(port, text(cron("tick", timeZone=ZONE), cron("still")), namespace=namespace)
    stories = [it_runs(port, namespace=namespace) for port in places]
    stories += [suspend_stops_it(port, namespace=namespace) for port in places]
    await asyncio.gather(*stories, a_wrong_one_says_so(hub_port, namespace=namespace))
    for port in places:
        await port.delete(kinds.CRON_JOB, "tick", namespace=namespace)
        await port.delete(kinds.CRON_JOB, "still", namespace=namespace)
