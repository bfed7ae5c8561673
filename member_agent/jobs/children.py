"""What a Job is turned into beside its PodGroup: pods, claims, and the objects of its plugins (reference/volcano.md 1.7).

Pure: manifests in, manifests out. What all pods of a task have in common is worked out once (`Moulds`), because a Job may
have thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from member_agent.jobs.claims import Claim, claim_child, claims_of, mount_claims
from member_agent.jobs.facts import JobFacts, Manifest, TaskFacts, facts_of, owner
from member_agent.jobs.groups import group_name
from member_agent.jobs.leavings import wanted_of
from member_agent.jobs.orders import PodOrder
from member_agent.jobs.plugins import BUILT_IN, Child, Draft, KeyMaker, KeyPair, Plugin, Registry
from member_agent.jobs.plugins.draft import EVERY
from member_agent.views import JobView

__all__ = ["Child", "KeyMaker", "KeyPair", "Moulds", "controlled", "objects", "volume_names"]

COPIED: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
"""Annotations that pods take over from their Job."""
BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Of these, pods take over the first that the Job has."""
COPIED_LABELS: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")


# --- pods ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mould:
    """Everything that the pods of one task have in common. `partition` is the number of pods of a partition, 0 for none."""

    draft: Draft
    task: TaskFacts
    partition: int


class Moulds:
    """Makes the pods of one Job as it is now; throw it away when view or manifest change.

    `scheduler` is given to pods whose Job and template name none. Raises BadArgument where a plugin's arguments are wrong
    (`plugins.problems` tells that beforehand).
    """

    def __init__(
        self,
        job: JobView,
        manifest: Mapping[str, Any],
        *,
        scheduler: str,
        registry: Registry = BUILT_IN,
        group: str = "",
    ) -> None:
        """`group` is the PodGroup where it has not its usual name."""
        self._job = job
        self._group = group or group_name(job)
        self._facts = facts_of(job, manifest)
        self._plugins = registry.chosen(manifest)
        self._each = tuple(each for each in self._plugins if type(each).change_pod is not Plugin.change_pod)
        self._scheduler = scheduler
        self._claims = tuple(claims_of(job.name, manifest, uid=job.uid))
        self._owners = [owner(job)]
        self._moulds: dict[str, _Mould] = {}

    def pod(self, order: PodOrder) -> Manifest:
        """One pod. Parts of it are shared with its siblings and must not be changed. Raises LookupError for a task unknown."""
        mould = self._mould(order.task)
        draft = mould.draft.copy(order.name) if self._each else mould.draft
        for plugin in self._each:
            plugin.change_pod(draft, job=self._facts, task=mould.task, index=order.index)
        index = str(order.index)
        labels = {**draft.labels, keys.TASK_INDEX: index}
        if mould.partition:
            labels[keys.PARTITION_ID] = str(order.index // mould.partition)
        return {
            "apiVersion": kinds.POD.api_version,
            "kind": kinds.POD.kind,
            "metadata": {
                "name": order.name,
                "namespace": self._job.namespace,
                "labels": labels,
                "annotations": {**draft.annotations, keys.TASK_INDEX: index},
                "ownerReferences": self._owners,
            },
            "spec": draft.spec,
        }

    def _mould(self, task: str) -> _Mould:
        known = self._moulds.get(task)
        if known is None:
            facts = self._facts.tasks.get(task)
            if facts is None:
                raise LookupError(f"no task {task} in the manifest")
            size = (facts.manifest.get("partitionPolicy") or {}).get("partitionSize") or 0
            known = self._moulds[task] = _Mould(self._draft(facts), facts, size)
        return known

    def _draft(self, task: TaskFacts) -> Draft:
        metadata, spec = task.template.get("metadata") or {}, dict(task.template.get("spec") or {})
        spec["schedulerName"] = spec.get("schedulerName") or self._job.scheduler or self._scheduler
        if self._job.priority_class and not spec.get("priorityClassName"):
            spec["priorityClassName"] = self._job.priority_class
        draft = Draft(
            "",
            labels={**(metadata.get("labels") or {}), **_labels(self._job, self._facts, task)},
            annotations={
                **(metadata.get("annotations") or {}),
                **_annotations(self._job, self._facts, task, group=self._group),
            },
            spec=spec,
        )
        mount_claims(draft, self._claims)
        for plugin in self._plugins:
            plugin.change_task(draft, job=self._facts, task=task)
        if self._job.record is not None:
            # Last, so that no container is without it: storage refuses writers of older epochs by it.
            draft.set_env([{"name": keys.EPOCH_ENV, "value": str(self._job.record.epoch)}], *EVERY)
        return draft


def _labels(job: JobView, facts: JobFacts, task: TaskFacts) -> dict[str, str]:
    given = (facts.manifest.get("metadata") or {}).get("labels") or {}
    return {
        **{name: given[name] for name in COPIED_LABELS if name in given},
        keys.JOB_NAME: job.name,
        keys.JOB_NAMESPACE: job.namespace,
        keys.TASK_SPEC: task.name,
        keys.QUEUE_NAME: job.queue,
        **_forwarding(job),
    }


def _forwarding(job: JobView) -> dict[str, str]:
    """The mark of a Job whose queue has `extendClusters`: its pods have it as label and as annotation."""
    return {keys.JOB_FORWARDING: "true"} if job.forwarded else {}


def _annotations(job: JobView, facts: JobFacts, task: TaskFacts, *, group: str) -> dict[str, str]:
    given = (facts.manifest.get("metadata") or {}).get("annotations") or {}
    budget = next((name for name in BUDGETS if name in given), None)
    taken = {name: given[name] for name in (*COPIED, budget, keys.RUN) if name is not None and name in given}
    wanted = wanted_of(job, task.name)
    if wanted:
        taken[keys.OUTPUTS] = wanted
    if task.manifest.get("topologyPolicy"):
        taken[keys.NUMA_POLICY] = task.manifest["topologyPolicy"]
    return {
        **taken,
        keys.TASK_SPEC: task.name,
        keys.JOB_NAME: job.name,
        keys.QUEUE_NAME: job.queue,
        keys.JOB_VERSION: str(job.status.version),
        keys.TEMPLATE_ID: f"{job.name}-{task.name}",
        keys.JOB_RETRY_COUNT: str(job.status.retry_count),
        keys.GROUP_NAME: group,
        **_forwarding(job),
    }


# --- claims and the objects of plugins -------------------------------------------------------------------------------


def objects(job: JobView, manifest: Mapping[str, Any], *, keys: KeyMaker, registry: Registry = BUILT_IN) -> tuple[Child, ...]:
    """Claims to make and the objects of the plugins, each owned by the Job. Raises BadArgument."""
    facts = facts_of(job, manifest)
    claims = {each.name: each for each in _claims(job, manifest) if each.spec is not None}
    made = [claim_child(each, namespace=job.namespace, owner=facts.owner) for each in claims.values()]
    return (*made, *(each for plugin in registry.chosen(manifest) for each in plugin.objects(facts, keys=keys)))


def volume_names(job: JobView, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The claim of each entry of `spec.volumes`, given or made."""
    return tuple(each.name for each in _claims(job, manifest))


def controlled(job: JobView, manifest: Mapping[str, Any], *, registry: Registry = BUILT_IN) -> dict[str, str]:
    """`status.controlledResources` once all objects are there. Raises BadArgument."""
    claims = {f"volume-pvc-{name}": name for name in volume_names(job, manifest)}
    return claims | {f"plugin-{each.name}": each.name for each in registry.chosen(manifest)}


def _claims(job: JobView, manifest: Mapping[str, Any]) -> tuple[Claim, ...]:
    return tuple(claims_of(job.name, manifest, uid=job.uid))
