"""What the Job controller looks at, and what of it concerns one Job."""

from __future__ import annotations

from dataclasses import dataclass

from machinery.informer import Informer
from member_agent.jobs.groups import group_name
from member_agent.views import GroupView, JobView, PodView, PriorityView, QueueView, WorkView
from member_agent.views.volumes import ClaimView
from policies.members import CommandView


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    jobs: Informer[JobView]
    groups: Informer[GroupView]
    pods: Informer[PodView]
    queues: Informer[QueueView]
    works: Informer[WorkView]
    priorities: Informer[PriorityView]
    claims: Informer[ClaimView]
    commands: Informer[CommandView]

    async def wait_synced(self) -> None:
        """Works are not waited for: local Jobs run without the hub."""
        for informer in (self.jobs, self.groups, self.pods, self.queues, self.priorities, self.claims, self.commands):
            await informer.wait_synced()

    def group_of(self, job: JobView) -> GroupView | None:
        """Its PodGroup: the one of its present name, else one that older versions named like the Job. Another's is none."""
        for name in (group_name(job), job.name):
            group = self.groups.get(job.namespace, name)
            if group is not None and group.owner == job.uid:
                return group
        return None

    def group_name_of(self, job: JobView) -> str:
        """The name of the PodGroup that its pods belong to."""
        group = self.group_of(job)
        return group.name if group is not None else group_name(job)

    def granted(self, job: JobView) -> bool:
        """A local Job always; else the Work that it was made from is there and is not being withdrawn."""
        if not job.managed:
            return True
        work = self.works.get(*job.work)
        return work is not None and work.uid == job.work_uid and not work.deleting

    def missing_claims(self, job: JobView) -> tuple[str, ...]:
        """Claims that the Job names and that are not there."""
        return tuple(name for name in job.rules.claims if self.claims.get(job.namespace, name) is None)

    def values_of_priorities(self) -> dict[str, int]:
        """Of all PriorityClasses, by name."""
        return {each.name: each.value for each in self.priorities.values()}
