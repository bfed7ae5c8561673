"""Carries out what a plan makes and removes: objects of plugins, PodGroup and pods; remembers what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from machinery import errors
from machinery.clock import Clock
from machinery.events import Severity
from member_agent.jobs.applier import JobApplier, Manifest, NameTaken
from member_agent.jobs.asking import Told
from member_agent.jobs.faults import Faults
from member_agent.jobs.lifecycle import JobPhase
from member_agent.jobs.memory import undone
from member_agent.jobs.plans import Plan
from member_agent.jobs.plugins import BadArgument
from member_agent.jobs.pods import ExpectedPods, PodIndex
from member_agent.jobs.reasons import Obstacle
from member_agent.jobs.stores import Stores
from member_agent.jobs.telling import Teller
from member_agent.views import JobStatus, JobView, PodView


class Maker:
    """Writes through the applier. One step that fails keeps no other up."""

    def __init__(
        self,
        applier: JobApplier,
        *,
        stores: Stores,
        pods: PodIndex,
        expected: ExpectedPods,
        faults: Faults,
        teller: Teller,
        clock: Clock,
        again: Callable[[JobView], None],
    ) -> None:
        """`again` has a Job looked at once more, because of what was found out while it was carried out."""
        self._applier = applier
        self._stores = stores
        self._pods = pods
        self._expected = expected
        self._faults = faults
        self._teller = teller
        self._clock = clock
        self._again = again
        self._obstacles: dict[str, Obstacle] = {}

    async def carry_out(self, job: JobView, decided: Plan) -> tuple[JobStatus | None, Exception | None]:
        """Objects, group and pods; the status with what is there now, and what went wrong."""
        status = undone(decided.status, before=job) if decided.status is not None else None
        failed: Exception | None = None
        try:
            manifest, status = await self._prepare(job, decided)
            if decided.create and manifest is not None:
                await self._create(job, manifest, decided)
            self.forget(job)
        except (errors.ApiError, BadArgument) as error:
            failed = error if isinstance(error, errors.ApiError) else errors.Invalid(str(error))
            self._note(job, error, decided)
        return status, await self._delete(job, decided.delete) or failed

    def obstacle(self, job: JobView) -> Obstacle | None:
        """What stood in the way last time."""
        return self._obstacles.get(job.uid)

    def forget(self, job: JobView) -> None:
        """Nothing stands in the way, or the Job has gone."""
        self._obstacles.pop(job.uid, None)

    # --- objects and group -------------------------------------------------------------------------------------------

    async def _prepare(self, job: JobView, decided: Plan) -> tuple[Manifest | None, JobStatus | None]:
        """Everything but pods; the manifest that pods are made from, and the status with what is there now."""
        group = self._stores.group_of(job)
        if decided.delete_group and group is not None:
            await self._applier.delete_group(job, group)
        if decided.release_group and group is not None:
            await self._applier.release_group(group)
        if decided.forward:
            await self._applier.mark_forwarded(job)
        needed = decided.ensure or decided.remove_objects or decided.create_group or decided.update_group or decided.create
        manifest = await self._applier.manifest(job) if needed else None
        if manifest is None or (decided.create_group and not self._admitted(job, manifest)):
            # Changed or gone: its event brings us back; or it is to be failed: the next look does.
            return None, undone(decided.status, before=job) if needed and decided.status is not None else decided.status
        status = decided.status
        if decided.remove_objects:
            await self._remove_objects(job, manifest, sweeps=decided.sweeps)
        if decided.ensure:
            resources = await self._applier.ensure(job, manifest)
            status = msgspec.structs.replace(
                status or job.status, controlled_resources={**job.status.controlled_resources, **resources}
            )
        if decided.create_group:
            await self._applier.create_group(job, manifest, priorities=self._stores.values_of_priorities())
        if decided.update_group and group is not None:
            await self._applier.update_group(job, manifest, group, priorities=self._stores.values_of_priorities())
        return manifest, status

    async def _remove_objects(self, job: JobView, manifest: Manifest, *, sweeps: bool) -> None:
        try:
            await self._applier.remove_objects(job, manifest)
        except BadArgument:
            if not sweeps:
                raise  # a Job of which nothing could be made has left nothing

    def _admitted(self, job: JobView, manifest: Manifest) -> bool:
        """What the webhook may not have seen is judged before anything is made."""
        fault = self._faults.ask(job, manifest)
        if fault is None or job.phase not in ("", JobPhase.PENDING):
            return True  # what runs was admitted once, whatever the rules are now
        self._again(job)
        return False

    # --- pods --------------------------------------------------------------------------------------------------------

    async def _create(self, job: JobView, manifest: Manifest, decided: Plan) -> None:
        names = [order.name for order in decided.create]
        self._expected.expect(job, names)
        made: list[str] = []
        try:
            made, failed = await self._applier.create_pods(job, manifest, decided.create, group=self._stores.group_name_of(job))
        finally:
            self._expected.drop(job.uid, set(names) - set(made))
        if failed:
            raise failed[0]
        self._applier.drop(job)
        self._teller.pods_made(job, now=self._clock.now())

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
            self._teller.tell(job, [Told("FailedDelete", f"pod {pod.name}: {error.message}", Severity.WARNING)])
        return refused[0][1] if refused else None

    # --- what stands in the way --------------------------------------------------------------------------------------

    def _note(self, job: JobView, error: errors.ApiError | BadArgument, decided: Plan) -> None:
        """Remember what stands in the way, and tell it."""
        reason, before = _reason(error, decided), self.obstacle(job)
        message = error.message if isinstance(error, errors.ApiError) else str(error)
        times = before.times + 1 if before is not None and before.reason == reason else 1
        final = isinstance(error, (errors.Invalid, BadArgument))
        self._obstacles[job.uid] = Obstacle(reason, message, times=times, final=final)
        self._teller.tell(job, [Told(reason, message, Severity.WARNING)])
        if times == 1:
            self._again(job)  # to say so in the status; else what failed is tried again with back-off


def _reason(error: Exception, decided: Plan) -> str:
    if isinstance(error, (BadArgument, NameTaken)):
        return "PluginError"
    return "FailedCreate" if decided.create else "PodGroupError"
