"""Objects that stories are made of, and what the API says about them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from apis import keys, kinds, naming, runs
from simulator.world import Doc, World

ENDED = frozenset({"Completed", "Failed", "Terminated"})


def job_spec(
    *,
    pods: int = 1,
    cpu: str | int = 1,
    runs_for: float | None = 5,
    queue: str = keys.DEFAULT_QUEUE,
    code: int = 0,
    **spec: Any,
) -> Doc:
    """A Job of one task `worker`, a gang as a whole; `runs_for` seconds, None: until it is stopped."""
    command = "sleep infinity" if runs_for is None else f"sleep {runs_for}; exit {code}"
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": str(cpu), "memory": "64Mi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "queue": queue,
        "minAvailable": pods,
        "tasks": [{"name": "worker", "replicas": pods, "template": template}],
        **spec,
    }


def job(name: str, *, annotations: Mapping[str, str] | None = None, namespace: str = "default", **spec: Any) -> Doc:
    """A Job; keywords as `job_spec` has them."""
    metadata = {"name": name, "namespace": namespace, **({"annotations": dict(annotations)} if annotations else {})}
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": metadata, "spec": job_spec(**spec)}


def template(name: str, **spec: Any) -> Doc:
    """A JobTemplate."""
    kind = kinds.JOB_TEMPLATE
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": job_spec(**spec),
    }


def flow(name: str, steps: Mapping[str, Iterable[str]]) -> Doc:
    """A JobFlow: step to the steps it waits for; every step's template has its name."""
    flows = [{"name": step, **({"dependsOn": {"targets": [*targets]}} if targets else {})} for step, targets in steps.items()]
    kind = kinds.JOB_FLOW
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {"flows": flows, "jobRetainPolicy": "retain"},
    }


def queue(name: str, **spec: Any) -> Doc:
    """A Queue."""
    return {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": spec}


def policy(name: str, *, jobs: Iterable[str], clusters: Iterable[str]) -> Doc:
    """A PropagationPolicy: these Jobs run on one of these clusters."""
    kind = kinds.PROPAGATION_POLICY
    selectors = [{"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "name": job} for job in jobs]
    placement = {"clusterAffinity": {"clusterNames": [*clusters]}}
    metadata = {"name": name, "namespace": "default"}
    spec = {"resourceSelectors": selectors, "placement": placement}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


# --- reading ---------------------------------------------------------------------------------------------------------


def state(world: World, name: str, *, kind: kinds.Kind = kinds.JOB) -> Doc:
    """`status.state` of a Job or JobFlow, {} while there is none."""
    doc = world.get(kind, name)
    found: Doc = ((doc or {}).get("status") or {}).get("state") or {}
    return found


def phase(world: World, name: str, *, kind: kinds.Kind = kinds.JOB) -> str:
    """Its phase, "" while there is none."""
    return str(state(world, name, kind=kind).get("phase", ""))


def why(world: World, name: str, *, kind: kinds.Kind = kinds.JOB) -> str:
    """Reason and message of its state."""
    found = state(world, name, kind=kind)
    return f"{found.get('reason', '')}: {found.get('message', '')}"


def binding_run(world: World, name: str) -> runs.BindingRun | None:
    """The decision about a Job."""
    binding = world.get(kinds.RESOURCE_BINDING, naming.binding_name(name))
    if binding is None:
        return None
    return runs.decode_binding(binding["metadata"]["annotations"][keys.RUN], where=name)


def home(world: World, name: str) -> str:
    """The cluster that the binding of a Job names, "" for none."""
    binding = world.get(kinds.RESOURCE_BINDING, naming.binding_name(name)) or {}
    found = (binding.get("spec") or {}).get("clusters") or [{"name": ""}]
    return str(found[0]["name"])


def clusters(world: World, name: str) -> list[str]:
    """Where containers of a Job have started, each once, in order of first start."""
    return list(dict.fromkeys(record.cluster for record in world.records.of_job(f"default/{name}")))


def starts(world: World, name: str) -> int:
    """How often a container of a Job was started."""
    return len(world.records.of_job(f"default/{name}"))


def running(world: World, name: str) -> int:
    """Containers of a Job that run now."""
    return sum(record.job == f"default/{name}" for record in world.records.running())


def replaced(job: Doc, path: str, value: Any) -> Doc:
    """The document with one field set: `replaced(job, "spec.tasks.0.replicas", 3)`."""
    made = copy.deepcopy(job)
    *parents, last = path.split(".")
    place: Any = made
    for step in parents:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    place[int(last) if isinstance(place, list) else last] = value
    return made
