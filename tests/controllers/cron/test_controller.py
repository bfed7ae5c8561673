"""The CronJob controller on an in-memory API server, on virtual time; people end and delete Jobs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import orjson
import pytest

from apis import kinds
from controllers.cron.applier import SCHEDULED
from controllers.cron.controller import CronController
from controllers.cron.records import CronRecords
from controllers.cron.snapshot import project_cron
from controllers.flows.snapshot import FlowView, project_flow
from controllers.ttl.controller import TtlController
from machinery import errors
from machinery.clock import Chance, Clock, Ids
from machinery.events import EventRecorder
from machinery.informer import Informers
from machinery.port import PatchType
from policies.views import JobView, Projections
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

SPEC = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

Doc = dict[str, Any]


class JumpyClock:
    """A clock whose wall time people set."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.ahead = datetime.timedelta()

    def boot(self) -> float:
        return self._clock.boot()

    def now(self) -> datetime.datetime:
        return self._clock.now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class Wayward(MemoryPort):
    """An API server that people have told what not to do."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.refuse: errors.ApiError | None = None
        """What Jobs are answered with."""
        self.undeletable = False
        """Jobs may not be deleted."""
        self.snatch = False
        """A Job is deleted as soon as it is made."""
        self.forgetful = False
        """The CRD has no conditions: they are dropped."""
        self.created: list[str] = []
        """Names of runs, as often as they were made."""

    async def create(self, kind: kinds.Kind, *args: Any, **given: Any) -> bytes:
        if kind == kinds.JOB and self.refuse is not None:
            raise self.refuse
        made = await super().create(kind, *args, **given)
        meta = orjson.loads(made)["metadata"]
        if kind == kinds.JOB and SCHEDULED in meta.get("annotations", {}):
            self.created.append(meta["name"])
            if self.snatch:
                await super().delete(kind, self.created[-1], namespace="team")
        return made

    async def delete(self, kind: kinds.Kind, *args: Any, **given: Any) -> None:
        if kind == kinds.JOB and self.undeletable:
            raise errors.Forbidden("deletion is held by policy")
        await super().delete(kind, *args, **given)

    async def replace(self, kind: kinds.Kind, name: str, body: Any, **given: Any) -> bytes:
        if kind == kinds.CRON_JOB and self.forgetful:
            body["status"].pop("conditions", None)
        return await super().replace(kind, name, body, **given)


class Town:
    """A namespace `team` on one API server, and a controller that can be started and killed."""

    def __init__(self, clock: SimClock, chance: Chance, ids: Ids) -> None:
        self.clock, self._chance = JumpyClock(clock), chance
        self.server = ApiServer(clock, ids=ids, chance=chance)
        self.port = Wayward(self.server)
        self.made: list[str] = []
        self.server.listeners.append(self._changed)

    def _changed(self, change: Any) -> None:
        del change
        names = [orjson.loads(stored.raw)["metadata"]["name"] for stored in self.server.collection(kinds.JOB).scan("team")]
        self.made += [name for name in names if name not in self.made]

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncIterator[None]:
        """One life of the controller, with the ttl role beside it."""
        clock: Clock = self.clock
        informers = Informers(self.port, clock, self._chance)
        jobs = informers.add(kinds.JOB, Projections().job)
        events = EventRecorder(self.port, component="cron", instance="test", clock=clock, chance=self._chance)
        flows = informers.add(kinds.JOB_FLOW, project_flow)
        crons: CronController[JobView, FlowView] = CronController(
            port=self.port, informers=informers, jobs=jobs, flows=flows, events=events, clock=clock
        )
        keepers = CronRecords(informers.add(kinds.CRON_JOB, project_cron))
        ttl: TtlController[JobView] = TtlController(port=self.port, jobs=jobs, clock=clock, keepers=keepers)
        tasks = [asyncio.create_task(each.run()) for each in (informers, events, crons, ttl)]
        try:
            yield
            assert sorted(set(self.port.created)) == sorted(self.port.created), "a run was made twice"
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- people ------------------------------------------------------------------------------------------------------
    async def cron(self, schedule: str = "* * * * *", *, name: str = "tick", template: Doc | None = None, **spec: Any) -> None:
        body = {
            "apiVersion": kinds.CRON_JOB.api_version,
            "kind": kinds.CRON_JOB.kind,
            "metadata": {"name": name},
            "spec": {"schedule": schedule, "jobTemplate": template or {"spec": SPEC}, **spec},
        }
        await self.port.create(kinds.CRON_JOB, body, namespace="team")

    async def edit(self, **spec: Any) -> None:
        await self.port.patch(kinds.CRON_JOB, "tick", {"spec": spec}, type=PatchType.MERGE, namespace="team")

    async def end(self, job: str, phase: str = "Completed") -> None:
        found = orjson.loads(await self.port.get(kinds.JOB, job, namespace="team"))
        found["status"] = {"state": {"phase": phase, "lastTransitionTime": stamp(self.clock.now())}}
        await self.port.replace(kinds.JOB, job, found, namespace="team", subresource="status")

    async def until(self, minutes: float) -> None:
        """Let time pass, to so many minutes after the start."""
        await self.clock.sleep(max(minutes * 60 - self.clock.boot(), 0.0))

    # --- reading -----------------------------------------------------------------------------------------------------
    async def jobs(self) -> list[str]:
        page = await self.port.list(kinds.JOB, namespace="team")
        return [orjson.loads(item)["metadata"]["name"] for item in page.items]

    async def job(self, name: str) -> Doc:
        found: Doc = orjson.loads(await self.port.get(kinds.JOB, name, namespace="team"))
        return found

    async def status(self) -> Doc:
        found: Doc = orjson.loads(await self.port.get(kinds.CRON_JOB, "tick", namespace="team"))
        return dict(found.get("status", {}))

    async def active(self) -> list[str]:
        return [each["name"] for each in (await self.status()).get("active", [])]

    async def reason(self) -> str:
        found = (await self.status()).get("conditions", [])
        return next((str(each["reason"]) for each in found if each["status"] == "False"), "")

    async def events(self) -> list[str]:
        page = await self.port.list(kinds.EVENT, namespace="team")
        return sorted({orjson.loads(item)["reason"] for item in page.items})


def stamp(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def tick(minutes: int, *, name: str = "tick") -> str:
    """The Job of the run so many minutes after the start."""
    return f"{name}-{int(START.timestamp()) // 60 + minutes}"


def in_town(story: Callable[[Town], Coroutine[Any, Any, None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        town = Town(clock, chance, ids)
        await town.port.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
        await story(town)

    run_virtual(main, seed=1)


def test_a_job_is_made_every_minute_and_carries_what_its_template_says() -> None:
    async def story(town: Town) -> None:
        template = {"metadata": {"labels": {"app": "tick"}, "annotations": {"note": "mine"}}, "spec": SPEC}
        await town.cron(template=template, timeZone="Asia/Kolkata")
        async with town.controller():
            await town.until(2.1)
            assert await town.jobs() == [tick(1), tick(2)]
            job = await town.job(tick(1))
            assert job["metadata"]["labels"] == {"app": "tick"}
            assert job["metadata"]["annotations"]["note"] == "mine"
            assert job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == "2026-01-01T05:31:00+05:30"
            owner = job["metadata"]["ownerReferences"][0]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
            assert job["spec"]["tasks"][0]["name"] == "t"
            status = await town.status()
            assert [each["uid"] for each in status["active"]] == [
                (await town.job(name))["metadata"]["uid"] for name in await town.jobs()
            ]
            assert status["lastScheduleTime"] == "2026-01-01T00:02:00Z"
            assert await town.events() == ["SuccessfulCreate"]

    in_town(story)


def test_a_suspended_cronjob_never_runs_until_it_is_resumed() -> None:
    async def story(town: Town) -> None:
        await town.cron(suspend=True)
        async with town.controller():
            await town.until(5.1)
            assert (await town.jobs(), await town.reason()) == ([], "Suspended")
            await town.edit(suspend=False)
            await town.until(5.2)
            assert (await town.jobs(), await town.reason()) == ([tick(5)], "")

    in_town(story)


def test_allow_reaches_two_active_runs() -> None:
    async def story(town: Town) -> None:
        await town.cron(concurrencyPolicy="Allow")
        async with town.controller():
            await town.until(2.1)
            assert len(await town.active()) == 2

    in_town(story)


def test_forbid_stays_at_one_for_five_minutes_and_goes_on_after_the_end() -> None:
    async def story(town: Town) -> None:
        await town.cron(concurrencyPolicy="Forbid")
        async with town.controller():
            for minute in range(1, 6):
                await town.until(minute + 0.1)
                assert await town.active() == [tick(1)]
            assert "JobAlreadyActive" in await town.events()
            await town.end(tick(1))
            await town.until(5.5)
            assert await town.active() == [tick(5)]

    in_town(story)


def test_replace_removes_the_old_run_and_stays_at_one() -> None:
    async def story(town: Town) -> None:
        await town.cron(concurrencyPolicy="Replace")
        async with town.controller():
            for minute in range(1, 4):
                await town.until(minute + 0.1)
                assert (await town.jobs(), await town.active()) == ([tick(minute)], [tick(minute)])
            assert "SuccessfulDelete" in await town.events()

    in_town(story)


def test_a_cronjob_that_is_two_hours_old_starts_its_latest_run() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/5 * * * *")
        await town.until(121)
        async with town.controller():
            await town.until(121.1)
            assert await town.jobs() == [tick(120)]

    in_town(story)


def test_a_flood_of_missed_runs_is_told() -> None:
    async def story(town: Town) -> None:
        await town.cron()
        await town.until(101.5)
        async with town.controller():
            await town.until(101.6)
            assert await town.jobs() == [tick(101)]
            assert "TooManyMissedTimes" in await town.events()

    in_town(story)


def test_an_ended_job_leaves_active_and_the_history_is_kept_short() -> None:
    async def story(town: Town) -> None:
        await town.cron(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=2)
        async with town.controller():
            for minute, phase in enumerate(("Completed", "Failed", "Completed", "Terminated", "Failed"), start=1):
                await town.until(minute + 0.1)
                await town.end(tick(minute), phase)
            await town.until(5.5)
            assert await town.jobs() == [tick(3), tick(4), tick(5)]
            assert await town.active() == []
            assert (await town.status())["lastSuccessfulTime"] == "2026-01-01T00:03:06Z"
            assert "SawCompletedJob" in await town.events()

    in_town(story)


def test_a_history_of_nothing_runs_nothing_twice() -> None:
    async def story(town: Town) -> None:
        await town.cron(successfulJobsHistoryLimit=0)
        async with town.controller():
            for minute in range(1, 4):
                await town.until(minute + 0.1)
                await town.end(tick(minute))
            await town.until(3.9)
        assert (await town.jobs(), town.made) == ([], [tick(1), tick(2), tick(3)])

    in_town(story)


def test_a_time_to_live_of_nothing_waits_for_the_record() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/2 * * * *", template={"spec": {**SPEC, "ttlSecondsAfterFinished": 0}})
        async with town.controller():
            await town.until(2.1)
            await town.end(tick(2))
            await town.until(3.9)
            assert (await town.jobs(), town.made) == ([], [tick(2)])
            assert (await town.status())["lastSuccessfulTime"] == "2026-01-01T00:02:06Z"

    in_town(story)


def test_a_job_deleted_by_hand_leaves_active_and_does_not_come_back() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/2 * * * *")
        async with town.controller():
            await town.until(2.1)
            await town.port.delete(kinds.JOB, tick(2), namespace="team")
            await town.until(3.9)
            assert (await town.active(), await town.jobs()) == ([], [])
            assert "MissingJob" in await town.events()

    in_town(story)


def test_a_cronjob_that_is_gone_makes_nothing_more_and_its_jobs_go_with_it() -> None:
    async def story(town: Town) -> None:
        await town.cron()
        async with town.controller():
            await town.until(1.1)
            await town.port.delete(kinds.CRON_JOB, "tick", namespace="team")
            await town.until(4)
            assert (await town.jobs(), town.made) == ([], [tick(1)])

    in_town(story)


def test_a_namesake_starts_anew() -> None:
    async def story(town: Town) -> None:
        await town.cron()
        async with town.controller():
            await town.until(1.1)
            await town.port.delete(kinds.CRON_JOB, "tick", namespace="team")
            await town.cron("*/3 * * * *")
            await town.until(3.1)
            assert await town.active() == [tick(3)]

    in_town(story)


# --- what is in the way ----------------------------------------------------------------------------------------------
def test_a_strangers_job_of_that_name_is_told_and_the_run_starts_when_it_is_gone() -> None:
    async def story(town: Town) -> None:
        body = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": tick(10)}, "spec": SPEC}
        await town.port.create(kinds.JOB, body, namespace="team")
        await town.cron("*/10 * * * *")
        async with town.controller():
            await town.until(14)
            assert (await town.reason(), await town.active()) == ("ForeignJob", [])
            await town.port.delete(kinds.JOB, tick(10), namespace="team")
            await town.until(14.01)
            assert (await town.reason(), await town.active()) == ("", [tick(10)])

    in_town(story)


def test_a_refused_job_is_told_and_tried_again_ever_more_slowly() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/10 * * * *")
        town.port.refuse = errors.Forbidden("exceeded quota: batch")
        async with town.controller():
            await town.until(12)
            assert await town.reason() == "FailedCreate"
            assert "exceeded quota: batch" in str(await town.status())
            assert await town.events() == ["FailedCreate"]
            town.port.refuse = None
            await town.until(13.1)
            assert (await town.active(), await town.reason()) == ([tick(10)], "")

    in_town(story)


def test_a_server_that_fails_is_asked_again() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/10 * * * *")
        town.port.refuse = errors.ServerFailed("no")
        async with town.controller():
            await town.until(11)
            town.port.refuse = None
            await town.until(12.1)
            assert await town.active() == [tick(10)]

    in_town(story)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"schedule": "0 0 31 2 *"}, "InvalidSchedule"), ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone")],
)
def test_a_bad_cronjob_says_so_and_the_others_go_on(spec: Doc, reason: str) -> None:
    async def story(town: Town) -> None:
        await town.cron(**{"schedule": "* * * * *", **spec})
        await town.cron(name="good")
        async with town.controller():
            await town.until(1.1)
            assert await town.jobs() == [tick(1, name="good")]
            assert (await town.reason(), await town.events()) == (reason, sorted([reason, "SuccessfulCreate"]))
            await town.edit(schedule="* * * * *", timeZone=None)
            await town.until(2.1)
            assert tick(2) in await town.jobs() and await town.reason() == ""

    in_town(story)


def test_a_job_that_vanishes_as_soon_as_it_is_made_is_recorded_and_not_made_again() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/2 * * * *")
        town.port.snatch = True
        async with town.controller():
            await town.until(3.9)
            assert (town.port.created, await town.active()) == ([tick(2)], [])
            assert (await town.status())["lastScheduleTime"] == "2026-01-01T00:02:00Z"

    in_town(story)


def test_a_run_that_may_not_be_replaced_is_waited_for() -> None:
    async def story(town: Town) -> None:
        await town.cron("*/10 * * * *", concurrencyPolicy="Replace")
        async with town.controller():
            await town.until(10.1)
            town.port.undeletable = True
            await town.until(21)
            assert (await town.reason(), await town.active()) == ("FailedDelete", [tick(10)])
            assert "FailedDelete" in await town.events()
            town.port.undeletable = False
            await town.until(22.1)
            assert (await town.reason(), await town.active()) == ("", [tick(20)])

    in_town(story)


def test_history_that_may_not_be_deleted_holds_up_no_run() -> None:
    async def story(town: Town) -> None:
        await town.cron(successfulJobsHistoryLimit=0)
        town.port.undeletable = True
        async with town.controller():
            for minute in (1, 2):
                await town.until(minute + 0.1)
                await town.end(tick(minute))
            await town.until(2.5)
            assert await town.jobs() == [tick(1), tick(2)]
            assert "FailedDelete" in await town.events()
            town.port.undeletable = False
            await town.until(3.1)
            assert await town.jobs() == [tick(3)]

    in_town(story)


def test_where_the_crd_knows_no_conditions_everything_else_goes_on() -> None:
    async def story(town: Town) -> None:
        town.port.forgetful = True
        await town.cron(suspend=True, concurrencyPolicy="Forbid")
        async with town.controller():
            await town.until(1.5)
            await town.edit(suspend=False)
            await town.until(3.1)
            assert await town.active() == [tick(1)]
            await town.end(tick(1))
            await town.until(3.2)
            assert await town.active() == [tick(3)]
            assert "conditions" not in await town.status()

    in_town(story)


def test_a_job_that_somebody_made_in_its_name_is_told_once_and_not_counted() -> None:
    async def story(town: Town) -> None:
        await town.cron(concurrencyPolicy="Forbid")
        async with town.controller():
            await town.until(0.1)
            uid = orjson.loads(await town.port.get(kinds.CRON_JOB, "tick", namespace="team"))["metadata"]["uid"]
            owner = {
                "apiVersion": kinds.CRON_JOB.api_version,
                "kind": "CronJob",
                "name": "tick",
                "uid": uid,
                "controller": True,
            }
            meta = {"name": "by-hand", "ownerReferences": [owner]}
            body = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": meta, "spec": SPEC}
            await town.port.create(kinds.JOB, body, namespace="team")
            await town.until(1.1)
            assert await town.active() == [tick(1)]
            assert (await town.events()).count("UnexpectedJob") == 1

    in_town(story)


# --- clocks ----------------------------------------------------------------------------------------------------------
def test_a_clock_that_is_put_forward_is_noticed_within_ten_minutes() -> None:
    async def story(town: Town) -> None:
        await town.cron("0 12 * * *")
        async with town.controller():
            await town.until(5)
            town.clock.ahead = datetime.timedelta(hours=12)
            await town.until(15)
            assert await town.jobs() == [tick(12 * 60)]

    in_town(story)


def test_a_clock_that_is_put_back_starts_nothing_twice() -> None:
    async def story(town: Town) -> None:
        await town.cron()
        async with town.controller():
            await town.until(3.1)
            town.clock.ahead = datetime.timedelta(minutes=-2)
            await town.until(7.1)
            assert await town.jobs() == [tick(minute) for minute in range(1, 6)]

    in_town(story)


# --- lives -----------------------------------------------------------------------------------------------------------
def test_a_controller_that_starts_anew_finds_what_it_made() -> None:
    async def story(town: Town) -> None:
        await town.cron()
        for minute in range(1, 5):
            async with town.controller():
                await town.until(minute + 0.5)
        assert town.made == [tick(minute) for minute in range(1, 5)]

    in_town(story)


def test_nothing_is_written_while_nothing_happens() -> None:
    async def story(town: Town) -> None:
        await town.cron("@yearly")
        async with town.controller():
            await town.until(1)
            before = orjson.loads(await town.port.get(kinds.CRON_JOB, "tick", namespace="team"))
            await town.until(300)
            assert orjson.loads(await town.port.get(kinds.CRON_JOB, "tick", namespace="team")) == before

    in_town(story)
