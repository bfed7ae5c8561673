"""The rules that come along: what known kinds ask for, and how they are doing."""

from __future__ import annotations

from typing import Any

import pytest

from apis.vectors import ResourceVector
from policies.interpreting import BUNDLED, Health, Interpreter, Unclear
from policies.shapes import Pool

KNOWN = Interpreter()


def pod(cpu: str = "1", **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more}}


def of(api_version: str, kind: str, spec: Any, status: Any = None) -> dict[str, Any]:
    made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "team"}, "spec": spec}
    return made | ({"status": status} if status is not None else {})


def asks(thing: dict[str, Any]) -> dict[str, tuple[int, dict[str, str]]]:
    """Pods and requests of one by component."""
    gang = KNOWN.gang(thing, pool=Pool())
    assert gang is not None
    assert gang.minimum == gang.replicas  # all or nothing: none of them runs in part
    return {
        task.name: (task.replicas, {key: text for key, text in task.shape.requests.to_quantities().items() if key != "pods"})
        for task in gang.tasks
    }


SPARK = of(
    "sparkoperator.k8s.io/v1beta2",
    "SparkApplication",
    {
        "driver": {"cores": 1, "memory": "4g", "nodeSelector": {"pool": "a"}},
        "executor": {
            "instances": 3,
            "coreRequest": "500m",
            "memory": "8g",
            "memoryOverhead": "1g",
            "gpu": {"name": "nvidia.com/gpu", "quantity": 2},
        },
    },
)


def test_a_spark_application_is_a_driver_and_its_executors_with_what_a_jvm_takes_beside_its_heap() -> None:
    assert asks(SPARK) == {
        "driver": (
            1,
            {"cpu": "1", **ResourceVector({"memory": ((4 << 30) + int((4 << 30) * 0.1)) * 1000}).to_quantities()},
        ),
        "executor": (3, {"cpu": "500m", "memory": "9Gi", "nvidia.com/gpu": "2"}),
    }
    gang = KNOWN.gang(SPARK, pool=Pool())
    assert gang is not None and gang.tasks[0].shape.node_selector == (("pool", "a"),)


def test_spark_has_defaults_and_starts_with_as_many_executors_as_it_says() -> None:
    plain = of("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {}, "executor": {}})
    assert asks(plain)["driver"] == (1, {"cpu": "1", "memory": "1408Mi"})  # 1 GiB and the least that is added, 384 MiB
    dynamic = {"enabled": True, "initialExecutors": 5, "minExecutors": 2}
    plain["spec"]["dynamicAllocation"] = dynamic
    assert asks(plain)["executor"][0] == 5
    plain["spec"]["dynamicAllocation"] = {"enabled": True, "minExecutors": 2}
    assert asks(plain)["executor"][0] == 2


def test_flink_has_as_many_task_managers_as_its_slots_need() -> None:
    manager = {"resource": {"cpu": 1, "memory": "2048m"}}
    flink = of(
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
        {
            "jobManager": manager,
            "taskManager": {"resource": {"cpu": 0.5, "memory": "4g"}},
            "job": {"parallelism": 7},
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
        },
    )
    assert asks(flink) == {
        "jobmanager": (1, {"cpu": "1", "memory": "2Gi"}),
        "taskmanager": (4, {"cpu": "500m", "memory": "4Gi"}),
    }
    flink["spec"]["taskManager"]["replicas"] = 3
    assert asks(flink)["taskmanager"][0] == 3


@pytest.mark.parametrize(
    ("kind", "field"), [("PyTorchJob", "pytorchReplicaSpecs"), ("TFJob", "tfReplicaSpecs"), ("MPIJob", "mpiReplicaSpecs")]
)
def test_kubeflow_jobs_are_their_replica_specs(kind: str, field: str) -> None:
    spec = {field: {"Worker": {"replicas": 4, "template": pod("2")}, "Master": {"template": pod()}}}
    assert asks(of("kubeflow.org/v1", kind, spec)) == {"Master": (1, {"cpu": "1"}), "Worker": (4, {"cpu": "2"})}


RAY = {
    "headGroupSpec": {"template": pod()},
    "workerGroupSpecs": [
        {"groupName": "small", "replicas": 2, "template": pod("2")},
        {"groupName": "hosts", "minReplicas": 3, "numOfHosts": 2, "template": pod("8")},
    ],
}


def test_ray_is_a_head_and_its_worker_groups_a_worker_of_several_hosts_being_several_pods() -> None:
    cluster = {"head": (1, {"cpu": "1"}), "hosts": (6, {"cpu": "8"}), "small": (2, {"cpu": "2"})}
    assert asks(of("ray.io/v1", "RayCluster", RAY)) == cluster
    assert asks(of("ray.io/v1", "RayJob", {"rayClusterSpec": RAY})) == cluster
    submitted = of("ray.io/v1", "RayJob", {"rayClusterSpec": RAY, "submitterPodTemplate": pod("3")})
    assert asks(submitted)["submitter"] == (1, {"cpu": "3"})
    assert asks(of("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": pod()}})) == {"head": (1, {"cpu": "1"})}


def test_a_workflow_is_as_many_pods_as_it_runs_at_once() -> None:
    workflow = of("argoproj.io/v1alpha1", "Workflow", {"parallelism": 4, "nodeSelector": {"pool": "a"}})
    assert asks(workflow) == {"pods": (4, {})}
    assert KNOWN.revised(workflow, replicas=2)["spec"] == {"parallelism": 2, "nodeSelector": {"pool": "a"}}
    assert workflow["spec"]["parallelism"] == 4


FAILED = {"conditions": [{"type": "Created", "status": "True"}, {"type": "Failed", "status": "True"}]}
RUNNING = {"conditions": [{"type": "Running", "status": "True"}, {"type": "Failed", "status": "False"}]}


@pytest.mark.parametrize(
    ("api_version", "kind", "well", "ill"),
    [
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"applicationState": {"state": "RUNNING"}},
            {"applicationState": {"state": "FAILED"}},
        ),
        (
            "flink.apache.org/v1beta1",
            "FlinkDeployment",
            {"jobManagerDeploymentStatus": "READY"},
            {"jobStatus": {"state": "FAILED"}},
        ),
        ("flink.apache.org/v1beta1", "FlinkDeployment", {"lifecycleState": "STABLE"}, {"jobManagerDeploymentStatus": "ERROR"}),
        ("kubeflow.org/v1", "PyTorchJob", RUNNING, FAILED),
        ("kubeflow.org/v1", "TFJob", RUNNING, FAILED),
        ("kubeflow.org/v1", "MPIJob", {}, FAILED),
        ("ray.io/v1", "RayCluster", {"state": "ready"}, {"state": "failed"}),
        ("ray.io/v1", "RayJob", {"jobStatus": "RUNNING"}, {"jobDeploymentStatus": "Failed"}),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Running"}, {"phase": "Error"}),
    ],
)
def test_an_object_is_well_until_its_status_says_otherwise(api_version: str, kind: str, well: Any, ill: Any) -> None:
    assert KNOWN.health(of(api_version, kind, {})) is Health.HEALTHY
    assert KNOWN.health(of(api_version, kind, {}, well)) is Health.HEALTHY
    assert KNOWN.health(of(api_version, kind, {}, ill)) is Health.UNHEALTHY
    assert KNOWN.health(of(api_version, kind, {}, well), applied=False) is Health.UNKNOWN


@pytest.mark.parametrize(("group", "kind"), sorted(BUNDLED))
@pytest.mark.parametrize(
    "spec", [{}, {"driver": 3}, {"headGroupSpec": []}, {"parallelism": "many"}, {"parallelism": -1}, None, []]
)
def test_a_spec_that_makes_no_sense_is_unclear_and_never_asks_for_nothing(group: str, kind: str, spec: Any) -> None:
    thing = of(f"{group}/v1", kind, spec)
    if kind == "Workflow" and isinstance(spec, dict) and "parallelism" not in spec:  # all it needs has a default
        assert asks(thing) == {"pods": (1, {})}
        return
    with pytest.raises(Unclear, match=f"{kind} of {group}/v1: "):
        KNOWN.gang(thing, pool=Pool())


def test_sizes_that_are_none_are_unclear() -> None:
    odd = of("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {"memory": "lots"}, "executor": {}})
    with pytest.raises(Unclear):
        KNOWN.gang(odd, pool=Pool())
