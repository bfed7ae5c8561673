"""The rules that come along, by kind. What is asked of an object (`object`) is an expression; see `scripts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rules:
    """Expressions about objects of one kind; "" where nothing is said.

    `components`: a list of {name, replicas, template}. `replicas`: {replicas, template}, for a kind of one sort of pods.
    `health`: true or false. `status`: what of the status is reported. `aggregate`: one status from `items`, which are
    [{clusterName, status}]. `dependencies`: a list of {apiVersion, kind, name, namespace}. `revision`: the object's changes
    (a merge patch) for `replicas` of them. `retention`: a merge patch that keeps what the member's object (`observed`) has.
    `finished`: true once it has ended and runs nothing any more; only rules that come along say it.
    """

    components: str = ""
    replicas: str = ""
    health: str = ""
    status: str = ""
    aggregate: str = ""
    dependencies: str = ""
    revision: str = ""
    retention: str = ""
    finished: str = ""


def _unless(*tests: str) -> str:
    """Healthy unless one of these holds of a status that is there."""
    return "!has(object.status) || !(" + " || ".join(f"({test})" for test in tests) + ")"


_FAILED: Final = _unless(
    "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')"
)


def _ended(*tests: str) -> str:
    """Finished where one of these holds of a status that is there."""
    return "has(object.status) && (" + " || ".join(f"({test})" for test in tests) + ")"


def _condition(*types: str) -> str:
    listed = ", ".join(f"'{each}'" for each in types)
    return f"has(object.status.conditions) && object.status.conditions.exists(c, c.type in [{listed}] && c.status == 'True')"


def _replica_specs(field: str) -> Rules:
    """Kubeflow's jobs: a map from role to replicas and template."""
    path = f"object.spec.{field}"
    component = f"{{'name': k, 'replicas': has({path}[k].replicas) ? {path}[k].replicas : 1, 'template': {path}[k].template}}"
    return Rules(components=f"{path}.map(k, {component})", health=_FAILED, finished=_ended(_condition("Succeeded", "Failed")))


def _spark_memory(role: str) -> str:
    """Heap and what the JVM takes beside it: as given, else a tenth (or the factor), at least 384 MiB."""
    heap = f"jvm(has({role}.memory) ? {role}.memory : '1g')"
    factor = "(has(object.spec.memoryOverheadFactor) ? double(object.spec.memoryOverheadFactor) : 0.1)"
    share = f"int(double({heap}) * {factor})"
    return f"{heap} + (has({role}.memoryOverhead) ? jvm({role}.memoryOverhead) : {share} > 402653184 ? {share} : 402653184)"


def _spark_pod(role: str, *, name: str, replicas: str) -> str:
    cpu = f"has({role}.coreRequest) ? {role}.coreRequest : string(has({role}.cores) ? {role}.cores : 1)"
    devices = f"has({role}.gpu) ? [{{'resources': {{'requests': {{{role}.gpu.name: {role}.gpu.quantity}}}}}}] : []"
    main = f"{{'resources': {{'requests': {{'cpu': {cpu}, 'memory': {_spark_memory(role)}}}}}}}"
    where = f"'nodeSelector': {_or(role, 'nodeSelector', 'null')}, 'tolerations': {_or(role, 'tolerations', 'null')}"
    spec = f"{{'containers': [{main}] + ({devices}), {where}}}"
    return f"{{'name': '{name}', 'replicas': {replicas}, 'template': {{'spec': {spec}}}}}"


def _or(owner: str, field: str, default: str) -> str:
    return f"(has({owner}.{field}) ? {owner}.{field} : {default})"


_DYNAMIC: Final = "object.spec.dynamicAllocation"
_EXECUTORS: Final = (
    f"(has({_DYNAMIC}) && has({_DYNAMIC}.enabled) && {_DYNAMIC}.enabled"
    f" ? {_or(_DYNAMIC, 'initialExecutors', _or(_DYNAMIC, 'minExecutors', '1'))}"
    f" : {_or('object.spec.executor', 'instances', '1')})"
)
_SPARK: Final = Rules(
    components="["
    + _spark_pod("object.spec.driver", name="driver", replicas="1")
    + ", "
    + _spark_pod("object.spec.executor", name="executor", replicas=_EXECUTORS)
    + "]",
    health=_unless(
        "has(object.status.applicationState) && object.status.applicationState.state"
        " in ['FAILED', 'FAILING', 'SUBMISSION_FAILED', 'UNKNOWN']"
    ),
    finished=_ended("has(object.status.applicationState) && object.status.applicationState.state in ['COMPLETED', 'FAILED']"),
)


def _flink_pod(role: str, *, name: str, replicas: str) -> str:
    asked = f"{{'cpu': string({role}.resource.cpu), 'memory': jvm({role}.resource.memory)}}"
    return (
        f"{{'name': '{name}', 'replicas': {replicas},"
        f" 'template': {{'spec': {{'containers': [{{'resources': {{'requests': {asked}}}}}]}}}}}}"
    )


_SLOTS: Final = (
    "(has(object.spec.flinkConfiguration) && 'taskmanager.numberOfTaskSlots' in object.spec.flinkConfiguration"
    " ? int(object.spec.flinkConfiguration['taskmanager.numberOfTaskSlots']) : 1)"
)
_PARALLELISM: Final = "(has(object.spec.job) && has(object.spec.job.parallelism) ? object.spec.job.parallelism : 1)"
_FLINK: Final = Rules(
    components="["
    + _flink_pod("object.spec.jobManager", name="jobmanager", replicas=_or("object.spec.jobManager", "replicas", "1"))
    + ", "
    + _flink_pod(
        "object.spec.taskManager",
        name="taskmanager",
        replicas=_or("object.spec.taskManager", "replicas", f"ceil_div({_PARALLELISM}, {_SLOTS})"),
    )
    + "]",
    health=_unless(
        "has(object.status.lifecycleState) && object.status.lifecycleState == 'FAILED'",
        "has(object.status.jobManagerDeploymentStatus) && object.status.jobManagerDeploymentStatus in ['ERROR', 'MISSING']",
        "has(object.status.jobStatus) && has(object.status.jobStatus.state)"
        " && object.status.jobStatus.state in ['FAILED', 'FAILING']",
    ),
    finished=_ended(
        "has(object.status.jobStatus) && has(object.status.jobStatus.state)"
        " && object.status.jobStatus.state in ['FINISHED', 'FAILED', 'CANCELED']"
    ),
)


def _ray(path: str) -> str:
    """Head and worker groups; a worker of several hosts is several pods."""
    head = f"[{{'name': 'head', 'replicas': 1, 'template': {path}.headGroupSpec.template}}]"
    count = f"{_or('g', 'replicas', _or('g', 'minReplicas', '1'))} * {_or('g', 'numOfHosts', '1')}"
    workers = f"{path}.workerGroupSpecs.map(g, {{'name': g.groupName, 'replicas': {count}, 'template': g.template}})"
    return f"{head} + (has({path}.workerGroupSpecs) ? {workers} : [])"


_SUBMITTER: Final = (
    " + (has(object.spec.submitterPodTemplate)"
    " ? [{'name': 'submitter', 'replicas': 1, 'template': object.spec.submitterPodTemplate}] : [])"
)

_PARALLELISM_OF_A_JOB: Final = _or("object.spec", "parallelism", "1")
_PODS_OF_A_JOB: Final = (
    f"has(object.spec.completions) && object.spec.completions < {_PARALLELISM_OF_A_JOB}"
    f" ? object.spec.completions : {_PARALLELISM_OF_A_JOB}"
)


def _every(test: str) -> str:
    return f"items.all(i, has(i.status.conditions) && i.status.conditions.exists(c, {test}))"


_BATCH_JOB: Final = Rules(
    replicas=f"{{'replicas': {_PODS_OF_A_JOB}, 'template': object.spec.template}}",
    health=_FAILED,
    revision="{'spec': {'parallelism': replicas}}",
    aggregate="{"
    + ", ".join(f"'{name}': sum(items.map(i, has(i.status.{name}) ? i.status.{name} : 0))" for name in ("active", "succeeded"))
    + ", 'failed': sum(items.map(i, has(i.status.failed) ? i.status.failed : 0))"
    + ", 'startTime': items.all(i, has(i.status.startTime)) ? least(items.map(i, i.status.startTime)) : null"
    + ", 'completionTime': items.all(i, has(i.status.completionTime)) ? greatest(items.map(i, i.status.completionTime)) : null"
    + ", 'conditions': items.exists(i, has(i.status.conditions)"
    " && i.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True'))"
    " ? [{'type': 'Failed', 'status': 'True', 'reason': 'JobFailed', 'message': 'failed in ' +"
    " joined(items.filter(i, has(i.status.conditions)"
    " && i.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')).map(i, i.clusterName))}]"
    " : " + _every("c.type == 'Complete' && c.status == 'True'") + " ? [{'type': 'Complete', 'status': 'True',"
    " 'reason': 'Completed', 'message': 'complete in ' + joined(items.map(i, i.clusterName))}] : []"
    "}",
    finished=_ended(_condition("Complete", "Failed")),
)
"""Sums; failed where it failed anywhere, complete where it is everywhere (reference/karmada.md 5.3)."""

_ROLLED_OUT: Final = _unless(
    "has(object.spec.replicas) && (has(object.status.readyReplicas) ? object.status.readyReplicas : 0) < object.spec.replicas"
)


def _scaled(*, health: str) -> Rules:
    """Kinds with `spec.replicas` and a template. What comes back of several clusters are sums."""
    counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    total = ", ".join(f"'{name}': sum(items.map(i, has(i.status.{name}) ? i.status.{name} : 0))" for name in counts)
    return Rules(
        replicas=f"{{'replicas': {_or('object.spec', 'replicas', '1')}, 'template': object.spec.template}}",
        health=health,
        revision="{'spec': {'replicas': replicas}}",
        aggregate="{" + total + "}",
    )


BUNDLED: Final[Mapping[tuple[str, str], Rules]] = {
    ("sparkoperator.k8s.io", "SparkApplication"): _SPARK,
    ("flink.apache.org", "FlinkDeployment"): _FLINK,
    ("kubeflow.org", "PyTorchJob"): _replica_specs("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _replica_specs("tfReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _replica_specs("mpiReplicaSpecs"),
    ("ray.io", "RayCluster"): Rules(
        components=_ray("object.spec"), health=_unless("has(object.status.state) && object.status.state == 'failed'")
    ),
    ("ray.io", "RayJob"): Rules(
        components=_ray("object.spec.rayClusterSpec") + _SUBMITTER,
        health=_unless(
            "has(object.status.jobStatus) && object.status.jobStatus == 'FAILED'",
            "has(object.status.jobDeploymentStatus) && object.status.jobDeploymentStatus == 'Failed'",
        ),
        finished=_ended(
            "has(object.status.jobDeploymentStatus) && object.status.jobDeploymentStatus in ['Complete', 'Failed']"
        ),
    ),
    ("argoproj.io", "Workflow"): Rules(
        replicas="{'replicas': has(object.spec.parallelism) ? object.spec.parallelism : 1, 'template': {'spec': {"
        f"'nodeSelector': {_or('object.spec', 'nodeSelector', 'null')},"
        f" 'tolerations': {_or('object.spec', 'tolerations', 'null')}}}}}}}",
        revision="{'spec': {'parallelism': replicas}}",
        health=_unless("has(object.status.phase) && object.status.phase in ['Failed', 'Error']"),
        finished=_ended("has(object.status.phase) && object.status.phase in ['Succeeded', 'Failed', 'Error']"),
    ),
    ("batch", "Job"): _BATCH_JOB,
    ("apps", "Deployment"): _scaled(health=_ROLLED_OUT),
    ("apps", "StatefulSet"): _scaled(health=_ROLLED_OUT),
    ("apps", "ReplicaSet"): _scaled(health=_ROLLED_OUT),
    ("", "Pod"): Rules(
        replicas="{'replicas': size(object.spec.containers) > 0 ? 1 : 0, 'template': {'spec': object.spec}}",
        health=_unless("has(object.status.phase) && object.status.phase in ['Failed', 'Unknown']"),
        finished=_ended("has(object.status.phase) && object.status.phase in ['Succeeded', 'Failed']"),
    ),
}
"""By group and kind, whatever the version."""
