"""What people write and get back: kinds, Jobs told in a few words, and Jobs and flows as the hub holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from volcano_federation.errors import BadManifest

GROUP: Final = "volcano-federation.io"
SUSPEND: Final = f"{GROUP}/suspend"
PROFILE: Final = f"{GROUP}/profile"
MAX_RUN_TIME: Final = f"{GROUP}/max-run-time"
GPU: Final = "nvidia.com/gpu"

Doc = dict[str, Any]
"""An object of Kubernetes as JSON has it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind; `group` "" for the core API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str, name: str = "") -> str:
        """Of one object, or of all in the namespace ("": in all namespaces)."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        parts += ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join([*parts, self.plural, *([name] if name else [])])


JOB: Final = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
FLOW: Final = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows")
TEMPLATE: Final = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates")
CRON: Final = Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs")
COMMAND: Final = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
REVIEW: Final = Kind(GROUP, "v1alpha1", "PlacementReview", "placementreviews")
KNOWN: Final = {(kind.api_version, kind.kind): kind for kind in (JOB, FLOW, TEMPLATE, CRON)}

ENDED: Final = {JOB: frozenset({"Completed", "Failed", "Terminated", "Aborted"}), FLOW: frozenset({"Succeed", "Failed"})}
WELL: Final = frozenset({"Completed", "Succeed"})


@dataclass(frozen=True, slots=True)
class Job:
    """A Job of one task, in a few words. Amounts as Kubernetes writes them ("500m", "2Gi"); "" and 0 are not asked for.

    `minimum`: pods that must be able to start together, None for all; `max_run_time`: as "30m"; `command`: words, or one
    string for a shell.
    """

    name: str
    image: str
    command: str | Sequence[str] = ()
    replicas: int = 1
    minimum: int | None = None
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    queue: str = ""
    profile: str = ""
    priority: str = ""
    max_run_time: str = ""
    env: Mapping[str, str] | None = None

    def manifest(self) -> Doc:
        """The Job as the hub takes it."""
        container: Doc = {"name": "main", "image": self.image}
        if self.command:
            container["command"] = ["sh", "-c", self.command] if isinstance(self.command, str) else list(self.command)
        if self.env:
            container["env"] = [{"name": name, "value": value} for name, value in self.env.items()]
        limits = {GPU: str(self.gpus)} if self.gpus else {}
        requests = _given({"cpu": self.cpu, "memory": self.memory}) | limits
        resources = _given({"requests": requests, "limits": limits})
        if resources:
            container["resources"] = resources
        pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec: Doc = {
            "minAvailable": self.replicas if self.minimum is None else self.minimum,
            "tasks": [{"name": "main", "replicas": self.replicas, "template": pods}],
        }
        spec |= _given({"queue": self.queue, "priorityClassName": self.priority})
        annotations = _given({PROFILE: self.profile, MAX_RUN_TIME: self.max_run_time})
        metadata = {"name": self.name, **({"annotations": annotations} if annotations else {})}
        return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}


def _given(values: Mapping[str, Any]) -> Doc:
    return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class Workload:
    """A Job or JobFlow as the hub held it at one moment. `document` is all of it."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: str
    phase: str
    message: str
    document: Doc

    @property
    def ended(self) -> bool:
        """Whether it will do nothing more by itself."""
        return self.phase in ENDED[self.kind]

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.phase in WELL

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


def workload(document: Doc, kind: Kind) -> Workload:
    """From what the API server sent. A Job whose status nobody has written yet is Pending."""
    meta, state = document["metadata"], (document.get("status") or {}).get("state") or {}
    return Workload(
        kind=kind,
        namespace=str(meta.get("namespace") or ""),
        name=str(meta["name"]),
        uid=str(meta.get("uid") or ""),
        version=str(meta.get("resourceVersion") or ""),
        phase=str(state.get("phase") or "Pending"),
        message=str(state.get("message") or ""),
        document=document,
    )


@dataclass(frozen=True, slots=True)
class Ref:
    """Which object is meant."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Where it is."""
        return self.kind.path(namespace=self.namespace, name=self.name)


_SHORT: Final = {"": JOB, "job": JOB, "jobs": JOB, "flow": FLOW, "flows": FLOW, "jobflow": FLOW, "jobflows": FLOW}


def ref(target: Workload | str, *, namespace: str) -> Ref:
    """What was submitted, or `NAME`, `job/NAME`, `flow/NAME` in the namespace. BadManifest for anything else."""
    if isinstance(target, Workload):
        return Ref(target.kind, target.namespace, target.name)
    form, _, name = target.rpartition("/")
    if form.lower() not in _SHORT or not name:
        raise BadManifest("this is neither a Job, job/NAME nor flow/NAME", about=repr(target))
    return Ref(_SHORT[form.lower()], namespace, name)
