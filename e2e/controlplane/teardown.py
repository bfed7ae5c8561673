"""Takes a federation down from what is written in its work directory: the same way after a good end and after a crash."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane import process, system
from e2e.controlplane.process import Record

ORDER = ("sandbox", "kubelet", "containerd", "kwok", "controller-manager", "apiserver", "etcd", "relay", "switch")
"""Who goes first among the parts of clusters; our own programs go before all of them. An API server must never outlive its etcd
by more than the moment between two kills: it would hang and hold its port."""
CGROUP_TIMEOUT = 10.0
"""Seconds within which the kernel must have let go of a node's last process."""


def rank(name: str) -> int:
    """The place of a recorded process in the order; 0 for our own programs."""
    part = name.rstrip("0123456789").rstrip("-")
    return ORDER.index(part) + 1 if part in ORDER else 0


def records(work: Path) -> list[Record]:
    """Every process ever recorded under `work` and not stopped since, in the order of teardown."""
    found = [record for folder in sorted(work.glob("*/processes")) for record in process.read(folder)]
    return sorted(found, key=lambda record: rank(record.name))


def running(work: Path) -> list[Record]:
    """Those that still run."""
    return [record for record in records(work) if process.alive(record)]


def note_cgroups(work: Path, *, names: Sequence[str]) -> None:
    """Writes down which cgroups will be made, before they are."""
    (work / "cgroups.json").write_text(json.dumps(list(names)))


def _noted_cgroups(work: Path) -> list[Path]:
    try:
        names = json.loads((work / "cgroups.json").read_text())
    except FileNotFoundError:
        return []
    return [root / name for root in system.cgroup_roots() for name in names if (root / name).is_dir()]


def _empty(cgroup: Path) -> None:
    """Kills what is left in a cgroup of ours: everything in it was started by our nodes."""
    for procs in cgroup.rglob("cgroup.procs"):
        for pid in procs.read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue


def _remove_cgroup(cgroup: Path) -> None:
    deadline = time.monotonic() + CGROUP_TIMEOUT
    while cgroup.is_dir():
        try:
            for folder, _, _ in os.walk(cgroup, topdown=False):
                Path(folder).rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            _empty(cgroup)
            time.sleep(0.02)


def _remove_tree(folder: Path) -> None:
    """Removes a node's folder; its mounts go with its last process, which may take the kernel a moment."""
    deadline = time.monotonic() + CGROUP_TIMEOUT
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def teardown(work: Path) -> None:
    """Kills every recorded process that is still the same one, removes cgroups and data; logs stay. Blocks for a second or two.

    Killing a node's sandbox ends kubelet, runtime, shims and containers with it and frees its mounts and networks.
    """
    everything = records(work)
    for place in sorted({rank(record.name) for record in everything}):
        process.kill([record for record in everything if rank(record.name) == place])
    for cgroup in _noted_cgroups(work):
        _remove_cgroup(cgroup)
    for path in work.glob("*/processes/*.json"):
        path.unlink()
    for data in [*work.glob("*/etcd"), *work.glob("*/n[0-9]*")]:
        _remove_tree(data)


def wipe(work: Path) -> None:
    """`teardown`, then everything but the lock."""
    if not work.exists():
        return
    teardown(work)
    for path in work.iterdir():
        if path.is_dir():
            _remove_tree(path)
        elif path.name != "lock":
            path.unlink()
