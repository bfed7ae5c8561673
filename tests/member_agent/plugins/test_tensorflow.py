"""tensorflow: TF_CONFIG."""

from __future__ import annotations

import json
from typing import Any

from tests.member_agent.making import Doc, container, env, job, objects, part, pods, ports, task

ROLES = (task("ps", 1), task("worker", 2), task("chief", 1), task("evaluator", 1))


def with_tensorflow(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or ROLES), plugins={"tensorflow": arguments or []})


def config(pod: Doc) -> Any:
    return json.loads(env(pod)["TF_CONFIG"])


def test_every_pod_knows_the_cluster_and_its_place_in_it() -> None:
    made = pods(with_tensorflow())
    cluster = {
        "chief": ["train-chief-0.train:2222"],
        "evaluator": ["train-evaluator-0.train:2222"],
        "ps": ["train-ps-0.train:2222"],
        "worker": ["train-worker-0.train:2222", "train-worker-1.train:2222"],
    }
    assert config(made["worker-1"]) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert {key: config(pod)["task"] for key, pod in made.items() if "worker" not in key} == {
        "ps-0": {"type": "ps", "index": 0},
        "chief-0": {"type": "chief", "index": 0},
        "evaluator-0": {"type": "evaluator", "index": 0},
    }
    assert all(config(pod)["cluster"] == cluster for pod in made.values())


def test_tasks_of_other_names_take_the_roles_they_are_given() -> None:
    manifest = with_tensorflow(task("store", 1), task("doer", 1), arguments=["--ps=store", "--worker", "doer", "--port=3333"])
    made = pods(manifest)
    assert config(made["doer-0"]) == {
        "cluster": {"ps": ["train-store-0.train:3333"], "worker": ["train-doer-0.train:3333"]},
        "task": {"type": "worker", "index": 0},
    }
    assert ports(made["store-0"]) == [("tfjob-port", 3333)]


def test_a_task_without_a_role_is_told_of_the_cluster_it_is_not_in() -> None:
    made = pods(with_tensorflow(task("worker", 1), task("log", 1)))
    assert config(made["log-0"]) == {"cluster": {"worker": ["train-worker-0.train:2222"]}, "task": {"type": "log", "index": 0}}


def test_a_job_of_one_pod_is_no_cluster() -> None:
    made = pods(with_tensorflow(task("worker", 1)))["worker-0"]
    assert "TF_CONFIG" not in env(made)
    assert ports(made) == []


def test_the_port_is_declared_once() -> None:
    own = container(ports=[{"containerPort": 2222, "name": "mine"}])
    made = pods(with_tensorflow(task("worker", 2, containers=[own, container("side")])))["worker-0"]
    assert ports(made, 0) == [("mine", 2222)]
    assert ports(made, 1) == [("tfjob-port", 2222)]


def test_it_brings_the_names_it_needs() -> None:
    assert ("Service", "train") in objects(with_tensorflow())
    assert pods(with_tensorflow())["ps-0"]["spec"]["subdomain"] == "train"


def test_one_worker_here_and_one_elsewhere_are_a_cluster_of_two() -> None:
    whole = job(task("worker", 2), plugins={"tensorflow": []})
    west = pods(part(whole, tasks={"worker": (1, 1, 2)}))
    assert config(west["worker-1"]) == config(pods(whole)["worker-1"])
