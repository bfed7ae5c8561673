"""env: the index of a pod."""

from __future__ import annotations

from member_agent.jobs.plugins import problems
from tests.member_agent.making import container, env, job, part, pods, task

PLAIN = job(task("work", 2, pod={"initContainers": [container("first")]}), plugins={"env": []})


def test_containers_and_init_containers_know_their_index_under_both_names() -> None:
    made = pods(PLAIN)
    for index in (0, 1):
        for field in ("containers", "initContainers"):
            seen = env(made[f"work-{index}"], field=field)
            assert seen == {"VC_TASK_INDEX": str(index), "VK_TASK_INDEX": str(index)}


def test_the_index_is_that_of_the_whole_run() -> None:
    made = pods(part(PLAIN, tasks={"work": (2, 5, 9)}))
    assert [env(pod)["VC_TASK_INDEX"] for pod in made.values()] == ["5", "6"]


def test_other_variables_stay_and_one_of_the_same_name_gives_way() -> None:
    given = [{"name": "MINE", "value": "kept"}, {"name": "VC_TASK_INDEX", "value": "99"}]
    made = pods(job(task("work", containers=[container(env=given)]), plugins={"env": []}))["work-0"]
    assert env(made) == {"MINE": "kept", "VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0"}


def test_there_is_no_index_without_the_plugin() -> None:
    assert env(pods(job(task("work")))["work-0"]) == {}


def test_it_takes_no_arguments() -> None:
    manifest = job(task("work"), plugins={"env": ["--index=3"]})
    assert problems(manifest) == [("spec.plugins.env", "plugin env: --index: is not known, want one of none")]
