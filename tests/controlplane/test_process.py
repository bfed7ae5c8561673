from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane import process, teardown
from e2e.controlplane.process import Processes, ProcessFailed, Programs

SLEEP = ["sleep", "600"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; exec sleep 600"]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    process.kill(teardown.records(tmp_path))


@pytest.fixture
def processes(work: Path) -> Iterator[Processes]:
    made = Processes(records=work / "east" / "processes", logs=work / "east" / "logs")
    yield made
    process.kill(teardown.records(work))
    made.close()


def test_a_started_process_is_recorded_and_found(processes: Processes, work: Path) -> None:
    record = processes.start("etcd", command=SLEEP)
    assert processes.find("etcd") == record
    assert process.alive(record)
    assert process.usage(record).resident_bytes > 0


def test_a_name_is_started_once(processes: Processes) -> None:
    processes.start("etcd", command=SLEEP)
    with pytest.raises(ProcessFailed, match="etcd runs already"):
        processes.start("etcd", command=SLEEP)


def test_a_stopped_process_is_gone_for_good(processes: Processes) -> None:
    record = processes.start("etcd", command=SLEEP)
    processes.stop("etcd")
    assert not process.alive(record)
    assert processes.find("etcd") is None
    processes.stop("etcd")


def test_a_process_that_ignores_sigterm_gets_sigkill(processes: Processes) -> None:
    record = processes.start("stubborn", command=STUBBORN)
    while "ready" not in processes.log("stubborn").read_text():
        assert process.alive(record)
    processes.stop("stubborn", signum=signal.SIGTERM, timeout=0.05)
    assert not process.alive(record)


def test_an_id_given_to_another_program_is_left_alone(processes: Processes) -> None:
    record = processes.start("etcd", command=SLEEP)
    reused = dataclasses.replace(record, started=record.started - 1)
    rebooted = dataclasses.replace(record, boot="another boot")
    process.kill([reused, rebooted])
    assert process.alive(record)


def test_a_process_that_ended_tells_its_log(processes: Processes) -> None:
    record = processes.start("broken", command=["sh", "-c", "echo cannot open port; exit 1"])
    process.wait_gone([record], timeout=10)
    with pytest.raises(ProcessFailed, match="cannot open port"):
        processes.check("broken")


def test_the_child_is_recorded_where_it_is_what_matters(processes: Processes) -> None:
    record = processes.start("sandbox-1", command=["sh", "-c", "sleep 600 & wait"], inner=True)
    while Path(f"/proc/{record.pid}/comm").read_text() != "sleep\n":
        assert process.alive(record)


def test_a_program_restarts_as_it_was_started(processes: Processes) -> None:
    programs = Programs(processes)
    first = programs.start("hub", command=["sh", "-c", "exec sleep $LONG"], environment={"LONG": "600"})
    programs.kill("hub")
    second = programs.restart("hub")
    while "600" not in (command := Path(f"/proc/{second.pid}/cmdline").read_text()).split("\0"):
        assert process.alive(second), command
    assert first.pid != second.pid
    programs.stop_all()
    assert not process.alive(second)


def test_teardown_takes_the_parts_in_order() -> None:
    names = ["switch", "etcd", "agent-east", "kubelet-2", "apiserver", "sandbox-10", "controller-manager", "relay", "kwok"]
    assert sorted(names, key=teardown.rank) == [
        "agent-east",
        "sandbox-10",
        "kubelet-2",
        "kwok",
        "controller-manager",
        "apiserver",
        "etcd",
        "relay",
        "switch",
    ]


def test_teardown_ends_what_a_crashed_run_left_and_keeps_logs(work: Path, processes: Processes) -> None:
    records = [processes.start(name, command=SLEEP) for name in ("etcd", "apiserver")]
    (work / "east" / "etcd").mkdir()
    teardown.note_cgroups(work, names=["vf-never-made"])
    teardown.teardown(work)
    assert not [record for record in records if process.alive(record)]
    assert not teardown.records(work)
    assert sorted(path.name for path in (work / "east").iterdir()) == ["logs", "processes"]
    teardown.teardown(work)


def test_a_record_survives_its_writer(work: Path, processes: Processes) -> None:
    record = processes.start("etcd", command=SLEEP)
    text = (work / "east" / "processes" / "etcd.json").read_text()
    assert json.loads(text) == dataclasses.asdict(record)
    assert record.pid != os.getpid()
