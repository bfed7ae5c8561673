"""Shapes of waiting work as members are asked about them: everything that decides, and nothing else, within a size."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from policies import asked
from policies.asked import Shape, UnreadableShape
from policies.shapes import Pool
from policies.views import JobView, Projections

SPREAD = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}}


def manifest(**spec: Any) -> bytes:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "x" * 10_000],
        "env": [{"name": "SECRET", "value": "s3cret"}],
        "resources": {"requests": {"cpu": "2"}},
        "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "tmp", "emptyDir": {}}]
    pod = {"containers": [container], "affinity": SPREAD, "volumes": volumes, "serviceAccountName": "me"}
    notes = {"volcano.sh/preemptable": "false", "example.com/much": "x" * 5000}
    template = {"metadata": {"labels": {"app": "train"}, "annotations": notes}, "spec": pod}
    body = {"minAvailable": 3, "tasks": [{"name": "work", "replicas": 4, "template": template}], **spec}
    return json.dumps({"metadata": {"name": "train", "namespace": "team"}, "spec": body}).encode()


def shape(name: str = "s", *, document: bytes | None = None, **more: Any) -> Shape:
    found = asked.requirements_of(manifest() if document is None else document)
    return Shape(name, msgspec.Raw(msgspec.json.encode(found)), minimum=3, queue="q", priority=5, **more)


def test_what_decides_where_pods_run_is_kept_and_nothing_else() -> None:
    found = asked.requirements_of(manifest())
    template = found["tasks"][0]["template"]
    assert template["metadata"] == {"labels": {"app": "train"}, "annotations": {"volcano.sh/preemptable": "false"}}
    assert template["spec"]["affinity"] == SPREAD
    assert template["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]
    container = template["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 81, "hostPort": 8081}]
    text = json.dumps(found)
    assert "s3cret" not in text
    assert len(text) < 1000


def test_what_was_asked_is_read_as_the_gang_that_waits() -> None:
    found = asked.read(shape())
    assert (found.hash, found.namespace, found.job, found.queue, found.priority) == ("s", "team", "train", "q", 5)
    assert [(task.name, count) for task, count in found.needed()] == [("work", 3)]
    gang = asked.gang_of(found, pool=Pool())
    assert gang is not None
    assert gang.unknown
    assert [(each.requests.get("cpu"), count) for each, count in gang.least()] == [(2000, 3)]


def test_minima_of_tasks_count_as_in_a_gang() -> None:
    tasks = [{"name": "ps", "replicas": 2, "minAvailable": 1}, {"name": "worker", "replicas": 4, "minAvailable": 2}]
    found = asked.read(shape(document=manifest(tasks=tasks)))
    assert [(task.name, count) for task, count in found.needed()] == [("ps", 1), ("worker", 2)]
    parts = [{"replicas": 6, "partitionPolicy": {"minPartitions": 2, "partitionSize": 2}}]
    assert asked.requirements_of(manifest(tasks=parts))["tasks"][0]["minAvailable"] == 4


@pytest.mark.parametrize("bad", [b"7", b'{"tasks":[{"replicas":"x"}]}', b'{"tasks":[]}', b'{"tasks":[{"replicas":-1}]}'])
def test_what_cannot_be_read_says_so(bad: bytes) -> None:
    with pytest.raises(UnreadableShape, match="shape s"):
        asked.read(Shape("s", msgspec.Raw(bad)))


def test_the_first_are_asked_about_each_once_and_within_the_size() -> None:
    many = [shape(f"s{index % 70}") for index in range(140)]
    kept = asked.within(many)
    assert [each.hash for each in kept] == [f"s{index}" for index in range(len(kept))]
    assert len(kept) <= asked.MOST_SHAPES
    assert len(msgspec.json.encode(kept)) <= asked.MOST_BYTES
    large = Shape("large", msgspec.Raw(msgspec.json.encode({"much": "x" * asked.ONE_SHAPE})))
    assert [each.hash for each in asked.within([large, shape("small")])] == ["small"]


def affine(app: str, *, name: str = "train", namespace: str = "team", key: str = "app") -> JobView:
    term = {"labelSelector": {"matchLabels": {key: app}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}], "affinity": affinity}
    spec = {"minAvailable": 1, "tasks": [{"name": "work", "replicas": 1, "template": {"spec": pod}}]}
    return Projections().job(json.dumps({"metadata": {"name": name, "namespace": namespace}, "spec": spec}).encode())


def test_jobs_are_asked_about_together_only_where_all_is_equal_that_decides() -> None:
    one = affine("db")
    assert one.gang == affine("cache").gang  # to rows they are alike
    assert one.asked_as != affine("cache").asked_as
    assert one.asked_as != affine("db", namespace="other").asked_as
    assert one.asked_as == affine("db", name="again").asked_as
    by_name = affine("train", key="volcano.sh/job-name")
    assert by_name.asked_as != affine("train", name="again", key="volcano.sh/job-name").asked_as


def test_where_rows_decide_equal_gangs_are_asked_about_together() -> None:
    pod = {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "2"}}}]}
    spec = {"tasks": [{"name": "work", "replicas": 1, "template": {"spec": pod}}]}
    jobs = [{"metadata": {"name": name, "namespace": name}, "spec": spec} for name in ("one", "two")]
    one, two = (Projections().job(json.dumps(each).encode()) for each in jobs)
    assert one.gang is not None
    assert one.asked_as == two.asked_as == one.gang.digest
