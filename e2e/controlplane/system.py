"""What this machine can do: system packages, probes, and the choice between real kubelets and kwok.

`VF_NODES` = real | kwok | auto (default). auto takes real kubelets wherever the probes pass; falling back where they should
pass is an error unless kwok was asked for, so a suite never quietly tests less.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.plan import NodeSource
from e2e.controlplane.render import Machine

Report = Callable[[str], None]
CNI_PLUGINS = Path("/usr/lib/cni")


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package and the file that tells whether what it brings is there."""

    name: str
    brings: str
    why: str


PACKAGES = (
    Package("containerd", "containerd", "runs the pods of real nodes"),
    Package("runc", "runc", "starts containers for containerd"),
    Package("containernetworking-plugins", str(CNI_PLUGINS / "bridge"), "gives pods a network"),
    Package("busybox-static", "busybox", "is the content of every image"),
    Package("iproute2", "ip", "lays cables between the nodes' network namespaces"),
    Package("util-linux", "nsenter", "makes and enters namespaces (unshare, nsenter)"),
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing real nodes need, and why it is missing ("" when it is there)."""

    name: str
    missing: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Which kind of nodes this run uses for members that do not insist, and why."""

    source: NodeSource
    why: str


class WrongMachine(Exception):
    """Real nodes were asked for, or should work here, and do not; the message says what is missing."""


# --- pure ------------------------------------------------------------------------------------------------------------
def decide(wanted: str, *, probes: Sequence[Probe], debian_root: bool) -> Choice:
    """The choice from `VF_NODES` and the probes. On Debian as root every package can be had, so a failing package probe there
    is an error and not a reason to test less. ValueError for an unknown wish."""
    if wanted not in ("", *NodeSource):
        raise ValueError(f"VF_NODES={wanted!r}: real, kwok or auto")
    if wanted == NodeSource.KWOK:
        return Choice(NodeSource.KWOK, "asked for by VF_NODES=kwok")
    failed = [probe for probe in probes if probe.missing]
    if not failed:
        return Choice(NodeSource.REAL, "every probe for real kubelets passed")
    reasons = "; ".join(f"{probe.name}: {probe.missing}" for probe in failed)
    if wanted == NodeSource.REAL:
        raise WrongMachine(f"VF_NODES=real, but {reasons}")
    if debian_root and all(probe.name.startswith("package ") for probe in failed):
        raise WrongMachine(
            f"real kubelets work on this machine once its packages are installed ({reasons}); VF_NODES=kwok tests without"
        )
    return Choice(NodeSource.KWOK, f"real kubelets are not possible here ({reasons}); tests of containers are skipped")


def missing_packages(packages: Iterable[Package], *, found: Callable[[str], bool]) -> list[Package]:
    """Those whose file is not there."""
    return [package for package in packages if not found(package.brings)]


def memory_total(meminfo: str) -> int:
    """Bytes, from /proc/meminfo."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    if match is None:
        raise ValueError("no MemTotal in /proc/meminfo")
    return int(match[1]) * 1024


# --- the edge --------------------------------------------------------------------------------------------------------
def machine() -> Machine:
    """As a kubelet counts it."""
    return Machine(cpu_millis=(os.cpu_count() or 1) * 1000, memory_bytes=memory_total(Path("/proc/meminfo").read_text()))


def _found(brings: str) -> bool:
    return Path(brings).exists() if brings.startswith("/") else shutil.which(brings) is not None


def is_debian() -> bool:
    """Whether packages come by apt-get with Debian's names."""
    try:
        text = Path("/etc/os-release").read_text()
    except FileNotFoundError:
        return False
    return bool(re.search(r"^ID(_LIKE)?=.*debian", text, re.MULTILINE)) and shutil.which("apt-get") is not None


def ensure_packages(*, report: Report = print) -> list[Package]:
    """Installs what is missing on Debian as root; elsewhere says what is missing and what is skipped. What is still missing
    afterwards."""
    missing = missing_packages(PACKAGES, found=_found)
    if not missing:
        return []
    names = [package.name for package in missing]
    if not (is_debian() and os.geteuid() == 0):
        for package in missing:
            report(f"missing: {package.name} ({package.why})")
        report(
            "install these by the names your system uses; until then kwok simulates the nodes "
            "and tests of containers are skipped"
        )
        return missing
    report(f"installing system packages: {' '.join(names)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            report(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
            break
    return missing_packages(PACKAGES, found=_found)


def _run_probe(command: Sequence[str]) -> str:
    """ "" when the command works, else what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"status {done.returncode}")


def _probe_overlay() -> str:
    with tempfile.TemporaryDirectory(prefix="vf-probe-") as scratch:
        for part in ("lower", "upper", "work", "merged"):
            (Path(scratch) / part).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        return _run_probe(["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{scratch}/merged"])


def cgroup_roots() -> list[Path]:
    """Where cgroups are made: the one tree of v2, or each hierarchy of v1 with v2 beside it."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").exists():
        return [top]
    return sorted(path for path in top.iterdir() if path.is_dir() and not path.is_symlink()) if top.is_dir() else []


def _probe_cgroups() -> str:
    roots = cgroup_roots()
    if not roots:
        return "no hierarchy is mounted"
    for root in roots:
        folder = root / f"vf-probe-{os.getpid()}"
        try:
            folder.mkdir()
            folder.rmdir()
        except OSError as error:
            return str(error)
    return ""


def probes() -> list[Probe]:
    """Looks at everything real nodes need."""
    packages = [Probe(f"package {p.name}", f"{p.brings} is not installed") for p in missing_packages(PACKAGES, found=_found)]
    if os.geteuid() != 0:
        return [*packages, Probe("root", "namespaces and cgroups need root")]
    namespaces = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--mount-proc", "true"]
    return [
        *packages,
        Probe("namespaces", _run_probe(namespaces)),
        Probe("overlayfs", _probe_overlay()),
        Probe("cgroups", _probe_cgroups()),
    ]


def choose(environment: Mapping[str, str] | None = None, *, report: Report = print) -> Choice:
    """Installs what can be installed, probes, decides. WrongMachine says why real nodes, wanted or due, are not possible."""
    wanted = (environment if environment is not None else os.environ).get("VF_NODES", "")
    if wanted == NodeSource.KWOK:
        return decide(wanted, probes=(), debian_root=False)
    with (Path(tempfile.gettempdir()) / ".vf-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ensure_packages(report=report)
    return decide(wanted, probes=probes(), debian_root=is_debian() and os.geteuid() == 0)


def main() -> int:
    """Installs what can be installed and says which nodes tests will use; status 1 when real ones should work and do not."""
    try:
        choice = choose(report=lambda line: print(line, flush=True))
    except (WrongMachine, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"nodes: {choice.source} ({choice.why})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
