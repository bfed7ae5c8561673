"""pytorch: master, world and ranks."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from member_agent.jobs.plugins import problems
from tests.member_agent.making import Doc, container, env, job, objects, part, pods, ports, task

TWO = (task("master", 1), task("worker", 3))
FRAMEWORK = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def with_pytorch(*tasks: Doc, arguments: list[str] | None = None) -> Doc:
    return job(*(tasks or TWO), plugins={"pytorch": arguments or []})


def told(pod: Doc, index: int = 0) -> tuple[str | None, ...]:
    return tuple(env(pod, index).get(name) for name in FRAMEWORK)


def test_the_master_is_rank_zero_and_workers_come_after_it() -> None:
    assert {key: told(pod) for key, pod in pods(with_pytorch()).items()} == {
        "master-0": ("train-master-0.train", "23456", "4", "0"),
        "worker-0": ("train-master-0.train", "23456", "4", "1"),
        "worker-1": ("train-master-0.train", "23456", "4", "2"),
        "worker-2": ("train-master-0.train", "23456", "4", "3"),
    }


def test_every_container_is_told_and_declares_the_port() -> None:
    manifest = with_pytorch(task("master", 1, containers=[container(), container("side")]), arguments=["--port=29500"])
    made = pods(manifest)["master-0"]
    for index in (0, 1):
        assert told(made, index) == ("train-master-0.train", "29500", "1", "0")
        assert ports(made, index) == [("pytorchjob-port", 29500)]


def test_a_port_that_is_declared_stays_as_it_is() -> None:
    own = container(ports=[{"name": "mine", "containerPort": 23456}])
    assert ports(pods(with_pytorch(task("master", 1, containers=[own])))["master-0"]) == [("mine", 23456)]


def test_other_tasks_know_the_master_and_have_no_rank_and_no_part_in_the_world() -> None:
    made = pods(with_pytorch(*TWO, task("board", 5)))
    assert told(made["board-0"]) == ("train-master-0.train", "23456", "4", None)


def test_tasks_may_have_other_names() -> None:
    made = pods(with_pytorch(task("chief", 1), task("hand", 2), arguments=["--master", "chief", "--worker", "hand"]))
    assert told(made["hand-1"]) == ("train-chief-0.train", "23456", "3", "2")


def test_several_masters_have_ranks_of_their_own() -> None:
    made = pods(with_pytorch(task("master", 2), task("worker", 1)))
    assert [env(pod)["RANK"] for pod in made.values()] == ["0", "1", "2"]


def test_without_a_master_nothing_is_told() -> None:
    assert told(pods(with_pytorch(task("worker", 2)))["worker-0"]) == (None, None, None, None)


def test_it_brings_the_names_it_needs() -> None:
    assert ("Service", "train") in objects(with_pytorch())


def test_a_worker_elsewhere_has_its_own_rank_in_the_whole_world() -> None:
    west = pods(part(with_pytorch(), tasks={"master": (0, 1, 1), "worker": (1, 2, 3)}))
    assert {key: told(pod) for key, pod in west.items()} == {"worker-2": ("train-master-0.train", "23456", "4", "3")}


# --- waiting for the master ------------------------------------------------------------------------------------------


def waiter(manifest: Doc, pod: str = "worker-0") -> Doc | None:
    found = [each for each in pods(manifest)[pod]["spec"].get("initContainers", []) if each["name"] == "wait-for-master"]
    assert len(found) < 2
    return found[0] if found else None


def test_nobody_waits_unless_asked_for() -> None:
    assert waiter(with_pytorch()) is None


def test_workers_wait_and_the_master_does_not() -> None:
    manifest = with_pytorch(arguments=["--wait-master-enabled"])
    made = waiter(manifest)
    assert made is not None
    assert made["image"] == "busybox:1.36.1"
    assert made["env"] == [
        {"name": "MASTER_ADDR", "value": "train-master-0.train"},
        {"name": "MASTER_PORT", "value": "23456"},
    ]
    assert "300" in made["command"][2]
    assert waiter(manifest, "master-0") is None


def test_image_and_time_may_be_others() -> None:
    made = waiter(
        with_pytorch(arguments=["--wait-master-enabled=true", "--wait-master-image=alpine", "--wait-master-timeout=7"])
    )
    assert made is not None
    assert made["image"] == "alpine"
    assert "+ 7))" in made["command"][2]


def test_an_init_container_of_that_name_is_the_users() -> None:
    own = container("wait-for-master", command=["true"])
    made = waiter(
        with_pytorch(task("master", 1), task("worker", 1, pod={"initContainers": [own]}), arguments=["--wait-master-enabled"])
    )
    assert made is not None
    assert made["command"] == ["true"]


NC = """#!/bin/sh
echo "$*" > "$PLACE/asked"
exit $ANSWER
"""
DATE = """#!/bin/sh
read now < "$PLACE/now"
echo "$now"
echo "$((now + 1))" > "$PLACE/now"
"""
SLEEP = """#!/bin/sh
exit 0
"""


@pytest.mark.parametrize(("answer", "code"), [(0, 0), (1, 1)])
def test_the_script_ends_when_the_master_listens_and_fails_when_its_time_is_over(
    answer: int, code: int, tmp_path: Path
) -> None:
    made = waiter(with_pytorch(arguments=["--wait-master-enabled", "--wait-master-timeout=5"]))
    assert made is not None
    for name, script in (("nc", NC), ("date", DATE), ("sleep", SLEEP)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "now").write_text("1000\n")
    known = {each["name"]: each["value"] for each in made["env"]}
    surroundings = {**known, "PATH": f"{tmp_path}:/usr/bin:/bin", "PLACE": str(tmp_path), "ANSWER": str(answer)}
    ran = subprocess.run(made["command"], env=surroundings, capture_output=True, text=True, check=False)
    assert ran.returncode == code
    assert (tmp_path / "asked").read_text() == "-z -w 2 train-master-0.train 23456\n"
    assert ran.stderr == ("" if code == 0 else "the master train-master-0.train:23456 did not listen within 5 s\n")
    # A clock that goes on by a second at each look: once for the end, then after each try in vain until it is reached.
    assert (tmp_path / "now").read_text() == ("1001\n" if code == 0 else "1006\n")


def test_the_script_needs_no_more_than_bash(tmp_path: Path) -> None:
    made = waiter(with_pytorch(arguments=["--wait-master-enabled", "--wait-master-timeout=5"]))
    assert made is not None
    for name, script in (("date", DATE), ("sleep", SLEEP)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    for name in ("sh", "bash"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    (tmp_path / "now").write_text("1000\n")
    with socket.create_server(("127.0.0.1", 0)) as master:
        address, port = master.getsockname()
        surroundings = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "PATH": str(tmp_path), "PLACE": str(tmp_path)}
        assert subprocess.run(made["command"], env=surroundings, check=False).returncode == 0
    (tmp_path / "now").write_text("1000\n")
    assert subprocess.run(made["command"], env=surroundings, capture_output=True, check=False).returncode == 1


def test_no_time_at_all_is_a_problem() -> None:
    assert problems(with_pytorch(arguments=["--wait-master-timeout=0"])) == [
        ("spec.plugins.pytorch", "plugin pytorch: --wait-master-timeout: 0 is no number of seconds above 0")
    ]
