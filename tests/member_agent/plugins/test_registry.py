"""Which plugins a Job gets, problems with them, and own plugins by entry point."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from apis import kinds
from apis.batch import PLUGINS, Job
from controllers.admission import default_job
from member_agent.jobs import children
from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins import (
    BUILT_IN,
    GROUP,
    BadArgument,
    Child,
    Draft,
    KeyMaker,
    Plugin,
    Registry,
    flag,
    problems,
    read,
)
from member_agent.jobs.plugins.protocol import object_of
from tests.member_agent.making import env, job, objects, pods, task, view


@dataclass(frozen=True)
class _Arguments:
    colour: str = flag("colour", "green")


class Paint(Plugin):
    """A plugin that somebody wrote themselves."""

    name = "paint"
    needs = ("env",)

    def __init__(self, arguments: Sequence[str]) -> None:
        self._colour = read(_Arguments, arguments, plugin=self.name).colour

    def objects(self, job: JobFacts, *, keys: KeyMaker) -> Iterator[Child]:
        name = f"{job.name}-paint"
        data = {"colour": self._colour, "pods": str(job.replicas)}
        yield Child(kinds.CONFIGMAP, name, lambda: object_of(kinds.CONFIGMAP, name, job=job, data=data), plugin=self.name)

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        draft.labels["colour"] = self._colour

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        draft.set_env([{"name": "SEAT", "value": f"{draft.env('VC_TASK_INDEX')} of {task.replicas}"}])


NOT_A_PLUGIN = "a text"
ENTRY = importlib.metadata.EntryPoint("paint", f"{__name__}:Paint", GROUP)


def test_an_installed_plugin_works_like_those_that_come_along() -> None:
    registry = Registry.installed([ENTRY])
    manifest = job(task("work", 2), plugins={"paint": ["--colour", "red"]})
    made = pods(manifest, registry=registry)
    assert [pod["metadata"]["labels"]["colour"] for pod in made.values()] == ["red", "red"]
    assert [env(pod)["SEAT"] for pod in made.values()] == ["0 of 2", "1 of 2"]
    assert objects(manifest, registry=registry)["ConfigMap", "train-paint"]["data"] == {"colour": "red", "pods": "2"}
    assert children.controlled(view(manifest), manifest, registry=registry) == {"plugin-env": "env", "plugin-paint": "paint"}
    assert problems(manifest, registry=registry) == []


def test_entry_points_of_the_machine_are_looked_up_under_the_group() -> None:
    assert [entry.name for entry in importlib.metadata.entry_points(group=GROUP)] == []
    assert list(Registry.installed().known) == list(BUILT_IN.known)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("paint", f"{__name__}:NOT_A_PLUGIN", "is no job plugin"),
        ("colours", f"{__name__}:Paint", "names its plugin 'paint'"),
    ],
)
def test_an_entry_point_that_is_no_plugin_is_said(name: str, value: str, message: str) -> None:
    with pytest.raises(TypeError, match=f"entry point {name} of {GROUP} {message}"):
        Registry.installed([importlib.metadata.EntryPoint(name, value, GROUP)])


def test_plugins_are_applied_in_one_order_whatever_the_manifest_says() -> None:
    everything = ["hcclrank", "ray", "mpi", "pytorch", "tensorflow", "env", "ssh", "svc"]
    manifest = job(task("master"), task("head"), plugins={name: [] for name in everything})
    assert [plugin.name for plugin in BUILT_IN.chosen(manifest)] == list(reversed(everything))


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("tensorflow", ["svc", "tensorflow"]),
        ("pytorch", ["svc", "pytorch"]),
        ("ray", ["svc", "ray"]),
        ("mpi", ["svc", "ssh", "mpi"]),
        ("ssh", ["ssh"]),
        ("hcclrank", ["hcclrank"]),
    ],
)
def test_what_a_plugin_needs_comes_with_it(asked: str, got: list[str]) -> None:
    assert [plugin.name for plugin in BUILT_IN.chosen(job(task("master"), plugins={asked: []}))] == got


@pytest.mark.parametrize("name", PLUGINS)
def test_admission_brings_along_the_same(name: str) -> None:
    manifest = job(task("master"), plugins={name: []})
    admitted = default_job(Job.model_validate(manifest)).spec.plugins or {}
    assert set(admitted) == {plugin.name for plugin in BUILT_IN.chosen(manifest)}


def test_the_plugins_are_those_that_jobs_may_name() -> None:
    assert set(BUILT_IN.known) == set(PLUGINS)


def test_a_plugin_nobody_has_is_a_problem_that_lists_those_there_are() -> None:
    manifest = job(task("work"), plugins={"magic": []})
    known = "svc, ssh, env, tensorflow, pytorch, mpi, ray, hcclrank"
    text = f"plugin magic: unable to find job plugin, want one of {known}"
    assert problems(manifest) == [("spec.plugins.magic", text)]
    with pytest.raises(BadArgument, match="unable to find job plugin"):
        pods(manifest)


def test_all_problems_of_a_job_are_told_at_once() -> None:
    manifest = job(task("work"), plugins={"svc": ["--public"], "mpi": ["--port=big"], "ray": []})
    assert [field for field, _ in problems(manifest)] == ["spec.plugins.mpi", "spec.plugins.ray", "spec.plugins.svc"]


@pytest.mark.parametrize("spec", [{}, {"tasks": None}, {"plugins": None, "tasks": []}, {"plugins": {"env": None}}])
def test_a_bare_job_has_no_problems(spec: dict[str, object]) -> None:
    assert problems({"metadata": {}, "spec": spec}) == []


def test_what_pods_of_a_task_have_in_common_is_made_once() -> None:
    asked: list[str] = []

    class Counting(Plugin):
        name = "counting"

        def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
            asked.append(task.name)

    manifest = job(task("master"), task("worker", 50), plugins={"counting": []})
    assert len(pods(manifest, registry=Registry({"counting": Counting}))) == 51
    assert asked == ["master", "worker"]


def test_no_plugin_touches_the_manifest_or_a_sibling() -> None:
    names = ("svc", "ssh", "env", "tensorflow", "pytorch", "mpi", "hcclrank")
    manifest = job(task("master"), task("worker", 3), plugins={name: [] for name in names})
    once = pods(manifest)
    assert pods(manifest) == once
    assert [env(pod)["RANK"] for pod in once.values()] == ["0", "1", "2", "3"]
