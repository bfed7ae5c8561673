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
    """

    components: str = ""
    replicas: str = ""
    health: str = ""
    status: str = ""
    aggregate: str = ""
    dependencies: str = ""
    revision: str = ""
    retention: str = ""


def _unless(*tests: str) -> str:
    """Healthy unless one of these holds of a status that is there."""
    return "!has(object.status) || !(" + " || ".join(f"({test})" for test in tests) + ")"


_FAILED: Final = _unless(
    "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')"
)


def _replica_specs(field: str) -> Rules:
    """Kubeflow's jobs: a map from role to replicas and template."""
    path = f"object.spec.{field}"
    component = f"{{'name': k, 'replicas': has({path}[k].replicas) ? {path}[k].replicas : 1, 'template': {path}[k].template}}"
    return Rules(components=f"{path}.map(k, {component})", health=_FAILED)


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
    ),
    ("argoproj.io", "Workflow"): Rules(
        replicas="{'replicas': has(object.spec.parallelism) ? object.spec.parallelism : 1, 'template': {'spec': {"
        f"'nodeSelector': {_or('object.spec', 'nodeSelector', 'null')},"
        f" 'tolerations': {_or('object.spec', 'tolerations', 'null')}}}}}}}",
        revision="{'spec': {'parallelism': replicas}}",
        health=_unless("has(object.status.phase) && object.status.phase in ['Failed', 'Error']"),
    ),
}
"""By group and kind, whatever the version."""
