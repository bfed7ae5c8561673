"""`vcctl`: upstream's columns and words, for scripts that know them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fedctl import vcctl, views

runner = CliRunner()
JOB = (
    b'{"metadata": {"name": "train", "namespace": "team", "creationTimestamp": "2026-03-04T05:06:07Z"},'
    b' "spec": {"minAvailable": 2, "queue": "q", "tasks": [{"replicas": 3}]},'
    b' "status": {"state": {"phase": "Running"}, "minAvailable": 2, "running": 3, "retryCount": 1}}'
)
QUEUE = (
    b'{"metadata": {"name": "research"}, "spec": {"weight": 4, "parent": "root"}, "status": {"state": "Open", "inqueue": 1,'
    b' "pending": 2, "running": 3, "unknown": 4, "completed": 5}}'
)


def test_jobs_are_listed_in_upstreams_columns() -> None:
    header, line = vcctl.job_table([views.read_job(JOB)], everywhere=False).splitlines()
    assert header.split() == [
        *("Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed"),
        *("Unknown", "RetryCount"),
    ]
    assert line.split() == ["train", "2026-03-04", "Running", "Batch", "3", "2", "0", "3", "0", "0", "0", "1"]
    assert line.index("2026") == len("train") + 3, "the column of names is as wide as the longest and three more"


def test_over_all_namespaces_the_namespace_comes_first() -> None:
    header, line = vcctl.job_table([views.read_job(JOB)], everywhere=True).splitlines()
    assert header.split()[:2] == ["Namespace", "Name"] and line.split()[:2] == ["team", "train"]


def test_queues_are_listed_in_upstreams_columns() -> None:
    header, line = vcctl.queue_table([views.read_queue(QUEUE)]).splitlines()
    assert header.split() == ["Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed"]
    assert line.split() == ["research", "4", "Open", "root", "1", "2", "3", "4", "5"]


def test_nothing_is_no_resources_found() -> None:
    assert vcctl.job_table([], everywhere=False) == "No resources found"
    assert vcctl.queue_table([]) == "No resources found"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job", "run"], "job name cannot be left blank"),
        (["job", "run", "-f", "job.txt"], "only support yaml file"),
        (["queue", "operate", "-n", "q", "-a", "update"], "weight must be specified"),
        (["queue", "operate", "-n", "q", "-a", "lock"], "invalid action lock"),
        (["jobflow", "delete"], "a name (-N) or a file (-f)"),
        (["job", "list", "-k", "missing"], "no such kubeconfig"),
    ],
)
def test_mistakes_are_sentences(words: list[str], says: str) -> None:
    found = runner.invoke(vcctl.main, words)
    assert found.exit_code != 0 and says in found.output and "Traceback" not in found.output


def test_every_command_of_upstream_is_there() -> None:
    expected = {
        "job": {"run", "list", "view", "suspend", "resume", "delete"},
        "queue": {"create", "list", "get", "operate", "delete"},
        "jobflow": {"create", "list", "get", "describe", "delete"},
        "jobtemplate": {"create", "list", "get", "describe", "delete"},
    }
    for group, commands in expected.items():
        groups = {
            each.typer_instance.info.name: each.typer_instance for each in vcctl.main.registered_groups if each.typer_instance
        }
        assert {each.name for each in groups[group].registered_commands} == commands
