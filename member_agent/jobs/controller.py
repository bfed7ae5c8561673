"""Watches Jobs and everything made from them; wakes the planner for the Job that an event concerns; carries its plans out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from apis import kinds
from apis.batch import Job
from controllers.admission import of_reading, summary, validate_job
from machinery import errors
from machinery.clock import Clock, stamp
from machinery.events import About, EventRecorder, Severity
from machinery.informer import Change, Key
from machinery.metrics import Metrics
from machinery.port import Port
from machinery.runner import run_workers
from machinery.workqueue import WorkQueue
from member_agent.jobs.applier import JobApplier, NameTaken, group_name
from member_agent.jobs.asking import Told
from member_agent.jobs.children import KeyMaker
from member_agent.jobs.claims import as_given
from member_agent.jobs.lifecycle import ENDS, JobPhase
from member_agent.jobs.memory import undone
from member_agent.jobs.planner import Plan, Snapshot, Urgency, plan
from member_agent.jobs.plugins import BadArgument, Registry
from member_agent.jobs.plugins.keypairs import new_key_pair
from member_agent.jobs.reasons import Obstacle
from member_agent.jobs.stores import CommandIndex, PodIndex, Stores
from member_agent.settings import JobSettings
from member_agent.views import GroupView, JobStatus, JobView, Named, PodView, QueueView, WorkView
from policies.members import CommandView

__all__ = ["JobController", "Stores"]

COUNTED = (JobPhase.COMPLETED, JobPhase.FAILED)
"""Ends that are counted for Prometheus, by queue; not by Job, as upstream does, because series must stay few."""
LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"
MILLISECONDS = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 60_000.0)


class JobController:
    """The Job controller of a member."""

    def __init__(
        self,
        *,
        port: Port,
        stores: Stores,
        events: EventRecorder,
        clock: Clock,
        settings: JobSettings,
        keys: KeyMaker = new_key_pair,
        registry: Registry | None = None,
    ) -> None:
        self._stores = stores
        self._events = events
        self._clock = clock
        self._settings = settings
        self._registry = registry or Registry.installed()
        self._pods = PodIndex()
        self._commands = CommandIndex()
        self._applier = JobApplier(
            port, scheduler=settings.scheduler_name, at_once=settings.creates_at_once, keys=keys, registry=self._registry
        )
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._made: dict[str, dict[str, float]] = {}
        self._due: dict[str, float] = {}
        self._announced: dict[str, set[Told]] = {}
        self._judged: dict[str, tuple[int, tuple[str, str] | None]] = {}
        self._obstacles: dict[str, Obstacle] = {}
        self._names: dict[str, Key] = {}
        self._claiming: set[Key] = set()
        """Jobs that name claims: a claim is the affair of few."""
        self._metrics: Metrics | None = None
        stores.jobs.subscribe(self._job_changed)
        stores.groups.subscribe(self._group_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.queues.subscribe(self._queue_changed)
        stores.works.subscribe(self._work_changed)
        stores.claims.subscribe(self._claim_changed)
        stores.commands.subscribe(self._command_changed)

    async def run(self, metrics: Metrics | None = None) -> None:
        """Until cancelled."""
        self._metrics = metrics
        await self._stores.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=self._settings.workers, name="jobs", metrics=metrics)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake(self, key: Key) -> None:
        self._queue.add_after(key, self._settings.coalesce)

    def _job_changed(self, change: Change[JobView]) -> None:
        job = change.new
        (self._claiming.add if job is not None and job.rules.claims else self._claiming.discard)(change.key)
        if change.old is not None and (job is None or job.uid != change.old.uid):
            self._forget(change.old)
        if job is None:
            if self._commands.of(change.key):
                self._wake(change.key)  # they came too late to be carried out, and must not wait for a namesake
            return
        self._names[job.uid] = change.key
        if change.old is not None and change.old.generation != job.generation:
            self._applier.drop(change.old)
        self._wake(change.key)

    def _forget(self, job: JobView) -> None:
        for kept in (self._made, self._due, self._announced, self._judged, self._obstacles, self._names):
            kept.pop(job.uid, None)
        self._pods.forget(job.uid)
        self._applier.drop(job)

    def _group_changed(self, change: Change[GroupView]) -> None:
        group = change.new or change.old
        if group is not None and group.owner in self._names:
            self._wake(self._names[group.owner])

    def _pod_changed(self, change: Change[PodView]) -> None:
        self._pods.changed(change)
        for pod in (change.old, change.new):
            if pod is None or not pod.owner:
                continue
            if pod.owner in self._names:
                self._made.get(pod.owner, {}).pop(pod.name, None)
                self._wake(self._names[pod.owner])
            else:
                self._pods.forget(pod.owner)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        if change.old is None or change.new is None:
            self._wake_where(lambda job: job.queue == change.key[1])

    def _claim_changed(self, change: Change[Named]) -> None:
        if change.old is not None and change.new is not None:
            return
        for key in sorted(self._claiming):
            job = self._stores.jobs.get(*key)
            if job is None or job.phase in ENDS or job.namespace != change.key[0]:
                continue
            if change.key[1] in job.rules.claims:
                self._wake(key)

    def _wake_where(self, concerns: Callable[[JobView], bool]) -> None:
        for job in self._stores.jobs.sorted():
            if job.phase not in ENDS and concerns(job):
                self._wake((job.namespace, job.name))

    def _work_changed(self, change: Change[WorkView]) -> None:
        """A Job that waits for its Work is looked at when that comes; what else becomes of Works is not our affair."""
        work = change.new
        job = (
            self._stores.jobs.get(work.target.namespace, work.target.name) if work is not None and change.old is None else None
        )
        if job is not None and job.managed:
            self._wake((job.namespace, job.name))

    def _command_changed(self, change: Change[CommandView]) -> None:
        key = self._commands.changed(change)
        if key is not None and change.new is not None:
            self._wake(key)

    # --- one look ----------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        job = self._stores.jobs.get(*key)
        if job is None:
            return await self._without_target(key)
        await self._dismiss_strangers(job)
        if job.deleting:
            await self._refuse_all(job, "the Job is being deleted")
            return None
        now = self._clock.now()
        decided = plan(self._snapshot(job), now=now, stamp=stamp(now))
        if decided.decisive:
            return await self._decide(job, decided)
        self._announce(job, decided.delayed)
        status, failed = await self._carry_out(job, decided)
        again = await self._write_status(job, status, decided)
        self._tell(job, decided.refused)
        for command in decided.dismissed:
            await self._applier.dismiss(command)
        if failed is not None:
            raise failed
        return min((each for each in (again, decided.wake, self._unseen(job)) if each is not None), default=None)

    async def _decide(self, job: JobView, decided: Plan) -> float | None:
        """Write what was decided and nothing else; the status that comes back brings the next look."""
        self._due.pop(job.uid, None)
        assert decided.status is not None
        if await self._applier.write_status(job, decided.status):
            self._pods.of(job.uid).settle(decided.settled)
            self._tell(job, decided.told)
            self._tell_reason(job, decided.status)
            for command in decided.dismissed:
                await self._applier.dismiss(command)
        return None

    def _snapshot(self, job: JobView) -> Snapshot:
        now = self._clock.boot()
        made = {name: until for name, until in self._made.get(job.uid, {}).items() if until > now}
        if job.uid in self._made:
            self._made[job.uid] = made
        missing = [name for name in job.rules.claims if self._stores.claims.get(job.namespace, name) is None]
        commands = [each for each in self._commands.of((job.namespace, job.name)) if each.target[2] in ("", job.uid)]
        generation, fault = self._judged.get(job.uid, (-1, None))
        return Snapshot(
            job=job,
            group=self._group(job),
            roster=self._pods.of(job.uid),
            queue=self._stores.queues.get("", job.queue),
            made=frozenset(made),
            granted=not job.managed or self._granted(job),
            commands=tuple(commands),
            fault=fault if generation == job.generation else None,
            obstacle=self._obstacles.get(job.uid),
            missing_claims=tuple(missing),
        )

    def _granted(self, job: JobView) -> bool:
        """The Work that this Job was made from is there and is not being withdrawn."""
        work = self._stores.works.get(*job.work)
        return work is not None and work.uid == job.work_uid and not work.deleting

    def _group(self, job: JobView) -> GroupView | None:
        group = self._stores.groups.get(job.namespace, group_name(job))
        return group if group is not None and group.owner == job.uid else None

    def _unseen(self, job: JobView) -> float | None:
        """Seconds until the first pod that was made and not seen is made again: no event tells of that."""
        now = self._clock.boot()
        return min((until - now for until in self._made.get(job.uid, {}).values() if until > now), default=None)

    # --- making and removing -----------------------------------------------------------------------------------------

    async def _carry_out(self, job: JobView, decided: Plan) -> tuple[JobStatus | None, Exception | None]:
        """Objects, group and pods; the status with what is there now, and what went wrong. One that fails keeps no other up."""
        status = undone(decided.status, before=job) if decided.status is not None else None
        failed: Exception | None = None
        try:
            manifest, status = await self._prepare(job, decided)
            if decided.create and manifest is not None:
                await self._create(job, manifest, decided)
            self._obstacles.pop(job.uid, None)
        except (errors.ApiError, BadArgument) as error:
            failed = error if isinstance(error, errors.ApiError) else errors.Invalid(str(error))
            self._note(job, error, decided)
        return status, await self._delete(job, decided.delete) or failed

    async def _delete(self, job: JobView, pods: Sequence[PodView]) -> Exception | None:
        """Send pods away; what stood in the way of the first that may not go."""
        if not pods:
            return None
        roster = self._pods.of(job.uid)
        for pod in pods:
            roster.send_away(pod)
        refused = await self._applier.delete_pods(pods)
        for pod, error in refused:
            roster.stays(pod)
            self._tell(job, [Told("FailedDelete", f"pod {pod.name}: {error.message}", Severity.WARNING)])
        return refused[0][1] if refused else None

    async def _prepare(self, job: JobView, decided: Plan) -> tuple[Mapping[str, Any] | None, JobStatus | None]:
        """Everything but pods; the manifest that pods are made from, and the status with what is there now."""
        group = self._group(job)
        if decided.delete_group and group is not None:
            await self._applier.delete_group(job, group)
        needed = decided.ensure or decided.remove_objects or decided.create_group or decided.update_group or decided.create
        manifest = await self._applier.manifest(job) if needed else None
        if manifest is None or (decided.create_group and not self._admitted(job, manifest)):
            # Changed or gone: its event brings us back; or it is to be failed: the next look does.
            return None, undone(decided.status, before=job) if needed and decided.status is not None else decided.status
        status = decided.status
        if decided.remove_objects:
            await self._applier.remove_objects(job, manifest)
        if decided.ensure:
            resources = await self._applier.ensure(job, manifest)
            status = msgspec.structs.replace(
                status or job.status, controlled_resources={**job.status.controlled_resources, **resources}
            )
        if decided.create_group:
            await self._applier.create_group(job, manifest, priorities=self._priorities())
        if decided.update_group and group is not None:
            await self._applier.update_group(job, manifest, group, priorities=self._priorities())
        return manifest, status

    async def _create(self, job: JobView, manifest: Mapping[str, Any], decided: Plan) -> None:
        self._expect(job, (order.name for order in decided.create))
        made: list[str] = []
        try:
            made, failed = await self._applier.create_pods(job, manifest, decided.create)
        finally:
            for name in {order.name for order in decided.create} - set(made):
                self._made.get(job.uid, {}).pop(name, None)
        if failed:
            raise failed[0]
        self._applier.drop(job)
        if self._metrics is not None and not job.status.memory.pods and job.created:
            age = self._clock.now() - datetime.datetime.fromisoformat(job.created)
            self._metrics.took(LATENCY, "From a Job to its pods.", value=age.total_seconds() * 1000, buckets=MILLISECONDS)

    def _expect(self, job: JobView, names: Iterable[str]) -> None:
        until = self._clock.boot() + self._settings.expect
        self._made.setdefault(job.uid, {}).update(dict.fromkeys(names, until))

    def _priorities(self) -> dict[str, int]:
        return {each.name: each.value for each in self._stores.priorities.values()}

    def _admitted(self, job: JobView, manifest: Mapping[str, Any]) -> bool:
        """What the webhook may not have seen is judged once per generation, before anything is made."""
        generation, fault = self._judged.get(job.uid, (-1, None))
        if generation != job.generation:
            fault = judged(manifest, registry=self._registry)
            self._judged[job.uid] = (job.generation, fault)
        if fault is None or job.phase not in ("", JobPhase.PENDING):
            return True  # what runs was admitted once, whatever the rules are now
        self._wake((job.namespace, job.name))
        return False

    def _note(self, job: JobView, error: Exception, decided: Plan) -> None:
        """Remember what stands in the way, and tell it."""
        before = self._obstacles.get(job.uid)
        reason = (
            "PluginError"
            if isinstance(error, (BadArgument, NameTaken))
            else "FailedCreate"
            if decided.create
            else "PodGroupError"
        )
        message = error.message if isinstance(error, errors.ApiError) else str(error)
        same = before is not None and before.reason == reason
        obstacle = Obstacle(
            reason,
            message,
            times=before.times + 1 if same and before is not None else 1,
            final=isinstance(error, (errors.Invalid, BadArgument)),
        )
        self._obstacles[job.uid] = obstacle
        self._tell(job, [Told(reason, message, Severity.WARNING)])
        if not same:
            self._wake((job.namespace, job.name))  # to say so in the status; else what failed is tried again with back-off

    # --- status ------------------------------------------------------------------------------------------------------

    async def _write_status(self, job: JobView, status: JobStatus | None, decided: Plan) -> float | None:
        """Write what is due; the seconds until the rest is."""
        if status is None or status == job.status:
            self._due.pop(job.uid, None)
            self._pods.of(job.uid).settle(decided.settled)
            self._tell(job, decided.told)
            return None
        now = self._clock.boot()
        due = min(self._due.get(job.uid, float("inf")), now + self._delay(job, decided.urgency))
        if due > now:
            self._due[job.uid] = due
            return due - now
        self._due.pop(job.uid, None)
        if await self._applier.write_status(job, status):
            self._pods.of(job.uid).settle(decided.settled)
            self._tell(job, decided.told)
            self._tell_reason(job, status)
        return None

    def _delay(self, job: JobView, urgency: Urgency) -> float:
        match urgency:
            case Urgency.END | Urgency.WHOLE:
                return 0.0
            case Urgency.PHASE:
                return self._settings.phase_after
            case Urgency.PENDING:
                return self._settings.pending_after
            case Urgency.COUNTERS:
                return self._settings.counters_after if job.managed else self._settings.local_counters_after

    # --- telling -----------------------------------------------------------------------------------------------------

    def _tell(self, job: JobView, told: Iterable[Told]) -> None:
        about = About(kinds.JOB, job.namespace, job.name, job.uid, job.version)
        for each in told:
            self._events.record(about, reason=each.reason, message=each.message, severity=each.severity)

    def _announce(self, job: JobView, delayed: Sequence[Told]) -> None:
        """Tell of delays that run, each once; what is over may be told again."""
        known = self._announced.pop(job.uid, set())
        if delayed:
            self._tell(job, [each for each in delayed if each not in known])
            self._announced[job.uid] = set(delayed)

    def _tell_reason(self, job: JobView, status: JobStatus) -> None:
        """A new reason for waiting or for a bad end is told once; good ends and orders speak for themselves."""
        state, before = status.state, job.status.state
        if self._metrics is not None and state.phase != before.phase and state.phase in COUNTED:
            name = f"volcano_job_{state.phase.lower()}_phase_count"
            self._metrics.count(name, f"Jobs that came to phase {state.phase}.", queue_name=job.queue)
        if not state.reason or (state.phase, state.reason) == (before.phase, before.reason):
            return
        if state.phase in (JobPhase.PENDING, JobPhase.FAILED, JobPhase.RUNNING):
            self._tell(job, [Told(state.reason, state.message or state.reason, Severity.WARNING)])

    # --- Commands without a Job --------------------------------------------------------------------------------------

    async def _without_target(self, key: Key) -> float | None:
        commands = self._commands.of(key)
        if commands and await self._applier.uid_of(*key) is None:
            for command in commands:
                await self._dismiss_lonely(command)
        return None

    async def _dismiss_strangers(self, job: JobView) -> None:
        """Commands for an earlier Job of this name."""
        strangers = [each for each in self._commands.of((job.namespace, job.name)) if each.target[2] not in ("", job.uid)]
        if strangers and await self._applier.uid_of(job.namespace, job.name) == job.uid:
            for command in strangers:
                await self._dismiss_lonely(command)

    async def _refuse_all(self, job: JobView, why: str) -> None:
        for command in self._commands.of((job.namespace, job.name)):
            self._tell(job, [Told("CommandTooLate", f"{command.action} of Command {command.name}: {why}", Severity.WARNING)])
            await self._applier.dismiss(command)

    async def _dismiss_lonely(self, command: CommandView) -> None:
        about = About(kinds.COMMAND, command.namespace, command.name, command.uid, command.version)
        text = f"{command.action} of Command {command.name}: there is no Job {command.target[1]}"
        self._events.warn(about, reason="CommandWithoutTarget", message=text)
        await self._applier.dismiss(command)


def judged(manifest: Mapping[str, Any], *, registry: Registry) -> tuple[str, str] | None:
    """Reason and message of what admission has against a Job; None when nothing. Its Queue is judged elsewhere."""
    try:
        job = Job.model_validate(as_given(manifest))
    except ValidationError as error:
        return "Invalid", summary(of_reading(error))
    problems = validate_job(job, plugins=registry.known)
    if problems:
        return "Invalid", summary(problems)
    wrong = registry.problems(manifest)
    return ("PluginError", "; ".join(f"{field}: {text}" for field, text in wrong)) if wrong else None
