"""OS processes that are recorded, so that whoever comes later stops exactly those and no other.

A record names the process by id, start time and boot: an id that was given to another program in the meantime never matches.
`Processes` starts and records; `read` and `kill` work from the records alone, after a crash as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

POLL = 0.01
"""Seconds between looks at a process that should appear or go."""


class ProcessFailed(Exception):
    """A program ended, or did not appear; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Record:
    """One process: `started` is field 22 of /proc/<pid>/stat, ticks since boot."""

    name: str
    pid: int
    started: int
    boot: str
    program: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far: CPU seconds (user and system), resident bytes now."""

    cpu_seconds: float
    resident_bytes: int


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int, *, zombie: bool = False) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third on; None when there is no such process, or only its zombie unless that is
    wanted."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" and not zombie else fields


def alive(record: Record) -> bool:
    """Whether the very process of the record still runs."""
    fields = _stat(record.pid)
    return fields is not None and int(fields[19]) == record.started and record.boot == _boot_id()


def usage(record: Record) -> Usage:
    """CPU and memory from /proc; ProcessFailed when it is gone."""
    fields = _stat(record.pid)
    if fields is None or not alive(record):
        raise ProcessFailed(f"{record.name} (pid {record.pid}) is gone")
    ticks = int(fields[11]) + int(fields[12])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def children(pid: int) -> list[int]:
    """Direct children of the main thread."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(records: Iterable[Record], *, signum: signal.Signals) -> None:
    """Signals those of the records that still are what they were."""
    for record in records:
        if alive(record):
            try:
                os.kill(record.pid, signum)
            except ProcessLookupError:
                continue


def wait_gone(records: Sequence[Record], *, timeout: float) -> list[Record]:
    """Those still there after `timeout` seconds; blocks."""
    deadline = time.monotonic() + timeout
    left = [record for record in records if alive(record)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL)
        left = [record for record in left if alive(record)]
    return left


def kill(records: Sequence[Record], *, timeout: float = 10.0) -> None:
    """SIGKILL and wait; ProcessFailed names what stayed."""
    send(records, signum=signal.SIGKILL)
    left = wait_gone(records, timeout=timeout)
    if left:
        raise ProcessFailed("still there after SIGKILL: " + ", ".join(f"{r.name} (pid {r.pid})" for r in left))


def read(folder: Path) -> list[Record]:
    """All records kept in `folder`, by name; processes that are gone included."""
    if not folder.is_dir():
        return []
    return [Record(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def tail(path: Path, *, lines: int = 25) -> str:
    """The end of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


class Processes:
    """Starts programs, with a record and a log file each; names are unique in one folder of records.

    Standard output and error go to `<logs>/<name>.log`, appended, so that restarts stay readable.
    """

    def __init__(self, *, records: Path, logs: Path) -> None:
        self._records = records
        self._logs = logs
        self._handles: dict[str, subprocess.Popen[bytes]] = {}
        records.mkdir(parents=True, exist_ok=True)
        logs.mkdir(parents=True, exist_ok=True)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def start(
        self,
        name: str,
        *,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        inner: bool = False,
        cwd: Path | None = None,
    ) -> Record:
        """Starts `command` in a session of its own. `environment` adds to ours. With `inner` the process that matters is the
        child that the command (unshare, nsenter) forks and waits for: that one is recorded."""
        if (running := self.find(name)) is not None:
            raise ProcessFailed(f"{name} runs already (pid {running.pid})")
        with self.log(name).open("ab") as log:
            handle = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                cwd=cwd,
            )
        self._reap()
        self._handles[name] = handle
        pid = self._child_of(handle, name=name) if inner else handle.pid
        fields = _stat(pid, zombie=True)
        if fields is None:
            raise ProcessFailed(f"{name} ended at once:\n{tail(self.log(name))}")
        record = Record(name, pid, int(fields[19]), _boot_id(), command[0])
        path = self._records / f"{name}.json"
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(record)))
        scratch.rename(path)
        return record

    def _child_of(self, handle: subprocess.Popen[bytes], *, name: str) -> int:
        while handle.poll() is None:
            if found := children(handle.pid):
                return found[0]
            time.sleep(POLL / 10)
        raise ProcessFailed(f"{name} ended with status {handle.returncode}:\n{tail(self.log(name))}")

    def find(self, name: str) -> Record | None:
        """The record of a running process, or None."""
        path = self._records / f"{name}.json"
        if not path.exists():
            return None
        record = Record(**json.loads(path.read_text()))
        return record if alive(record) else None

    def check(self, name: str) -> Record:
        """The running process; ProcessFailed with the end of its log when it is gone."""
        record = self.find(name)
        if record is None:
            raise ProcessFailed(f"{name} is not running:\n{tail(self.log(name))}")
        return record

    def stop(self, name: str, *, signum: signal.Signals = signal.SIGKILL, timeout: float = 10.0) -> None:
        """Signals the process and waits (blocking); one that outlives SIGTERM by `timeout` seconds gets SIGKILL. Gone
        already: nothing."""
        record = self.find(name)
        if record is not None:
            send([record], signum=signum)
            kill(wait_gone([record], timeout=timeout))
        (self._records / f"{name}.json").unlink(missing_ok=True)
        if (handle := self._handles.pop(name, None)) is not None:
            handle.wait(timeout)  # unshare and nsenter end with their child

    def close(self) -> None:
        """Forgets handles of ended processes; those still running are left to their records."""
        self._reap()
        for handle in self._handles.values():
            handle.returncode = handle.returncode if handle.returncode is not None else 0
        self._handles.clear()

    def _reap(self) -> None:
        for name, handle in list(self._handles.items()):
            if handle.poll() is not None:
                del self._handles[name]


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is started: its command line, extra environment, and `inner` as Processes.start takes it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    inner: bool


class Programs:
    """Programs that may be killed at any instant and started again: those of a control plane, and our own."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._programs: dict[str, Program] = {}

    def start(
        self, name: str, *, command: Sequence[str], environment: Mapping[str, str] | None = None, inner: bool = False
    ) -> Record:
        """Starts it and remembers how, for `restart`."""
        self._programs[name] = Program(name, tuple(command), dict(environment or {}), inner)
        return self.restart(name)

    def restart(self, name: str) -> Record:
        """Starts a stopped program again, as before; a running one gets SIGKILL first."""
        program = self._programs[name]
        self._processes.stop(name)
        return self._processes.start(name, command=program.command, environment=program.environment, inner=program.inner)

    def kill(self, name: str) -> None:
        """SIGKILL; returns when it is gone."""
        self._processes.stop(name)

    def terminate(self, name: str, *, timeout: float = 20.0) -> None:
        """SIGTERM, SIGKILL after `timeout` seconds."""
        self._processes.stop(name, signum=signal.SIGTERM, timeout=timeout)

    def record(self, name: str) -> Record:
        """The running process; ProcessFailed with the end of its log when it is gone."""
        return self._processes.check(name)

    def log(self, name: str) -> Path:
        return self._processes.log(name)

    def close(self) -> None:
        """As Processes.close."""
        self._processes.close()

    def stop_all(self) -> None:
        """SIGTERM to all, newest first."""
        for name in reversed(self._programs):
            self.terminate(name)
