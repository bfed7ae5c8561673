"""Which containers may be read, and what is asked of the kubelet about them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controllers.channel.messages import LogOptions
from member_agent.channel.logs import query_of
from member_agent.channel.owned import Container, containers_of


def pod(*, owner: str = "job", controller: bool = True, **status: Any) -> bytes:
    """A pod of task `main` with one init container and two others."""
    return orjson.dumps(
        {
            "metadata": {
                "name": "p",
                "uid": "u",
                "annotations": {"volcano.sh/task-spec": "main"},
                "ownerReferences": [{"uid": "other"}, {"uid": owner, "controller": controller}],
            },
            "spec": {"initContainers": [{"name": "load"}], "containers": [{"name": "web"}, {"name": "side"}]},
            "status": status,
        }
    )


def state(name: str, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "state": state}


def test_all_but_init_containers_are_read_unless_one_is_named() -> None:
    names = [each.name for each in containers_of(pod(), owner="job")]
    assert names == ["web", "side"]
    assert [each.name for each in containers_of(pod(), owner="job", container="load")] == ["load"]
    assert containers_of(pod(), owner="job", container="nothing") == []


@pytest.mark.parametrize(
    "asked", [{"owner": "another"}, {"owner": "other"}, {"owner": "job", "task": "side"}, {"owner": "job", "pod": "q"}]
)
def test_pods_of_others_and_those_not_asked_for_have_none(asked: dict[str, str]) -> None:
    assert containers_of(pod(), **asked) == []
    assert containers_of(pod(controller=False), owner="job") == []


def test_a_container_that_has_not_started_says_why_and_one_that_runs_again_can_be_read() -> None:
    statuses = [
        state("web", waiting={"reason": "ContainerCreating"}),
        state("side", restarts=2, waiting={"reason": "CrashLoopBackOff"}),
    ]
    web, side = containers_of(pod(containerStatuses=statuses), owner="job")
    assert web == Container("p", "u", "web", 0, "ContainerCreating", several=True)
    assert side == Container("p", "u", "side", 2, "", several=True)
    [ended] = containers_of(pod(containerStatuses=[state("web", terminated={"exitCode": 1})]), owner="job", container="web")
    assert (ended.waits, ended.several) == ("", False)
    assert containers_of(pod(), owner="job")[0].waits == "not started"


def test_the_kubelet_is_asked_for_nothing_that_nobody_wants() -> None:
    assert query_of(LogOptions(), container="web") == {"container": "web"}
    everything = LogOptions(True, 5, None, "2026-01-01T00:00:00Z", True, False)
    assert query_of(everything, container="web") == {
        "container": "web",
        "follow": "true",
        "timestamps": "true",
        "tailLines": "5",
        "sinceTime": "2026-01-01T00:00:00Z",
    }
    assert query_of(LogOptions(tail_lines=0, since_seconds=0), container="c") == {
        "container": "c",
        "tailLines": "0",
        "sinceSeconds": "0",
    }
