"""Builds the Go programs once, into a versioned cache outside the checkout.

Each sub-folder with a go.mod is one tool module. A cache entry is keyed by what goes into it (go.mod, go.sum, Go version,
flags), is written beside its place and renamed into it, so it is complete or absent; a lock lets one builder work at a time.
Run `python -m e2e.controlplane.build` to build what is missing and print the paths.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GO_NEEDED = (1, 26)
REPORT_EVERY = 15.0
"""Seconds between two lines of progress while one program builds."""

Report = Callable[[str], None]


class BuildError(Exception):
    """A program could not be built; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Module:
    """One tool module: its folder, the dependency whose version names the cache entry, and its programs by package."""

    name: str
    versioned_by: str
    packages: tuple[tuple[str, str], ...]
    stamp: str = ""
    """Import path of a package whose gitVersion, gitMajor and gitMinor are set to the version; "" for none."""


MODULES = (
    Module("etcd", "go.etcd.io/etcd/server/v3", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    Module(
        "kubernetes",
        "k8s.io/kubernetes",
        tuple((name, f"k8s.io/kubernetes/cmd/{name}") for name in ("kube-apiserver", "kube-controller-manager", "kubelet")),
        stamp="k8s.io/component-base/version",
    ),
    Module("kwok", "sigs.k8s.io/kwok", (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),)),
)

HELM = Module("helm", "helm.sh/helm/v4", (("helm", "helm.sh/helm/v4/cmd/helm"),))
"""Asked for by what renders charts, and by nobody else."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the built programs."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    kubelet: Path
    kwok: Path


# --- pure ------------------------------------------------------------------------------------------------------------
def required_version(go_mod: str, *, path: str) -> str:
    """The version of `path` that a go.mod requires."""
    for line in go_mod.splitlines():
        words = line.removeprefix("require").split()
        if len(words) >= 2 and words[0] == path and words[1].startswith("v"):
            return words[1]
    raise BuildError(f"go.mod requires no {path}")


def linker_flags(*, version: str, stamp: str) -> str:
    """Strips symbols; stamps the version where the program would otherwise call itself a development build."""
    flags = ["-s", "-w"]
    if stamp:
        major, minor, *_ = version.removeprefix("v").split(".")
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {stamp}.{name}={value}" for name, value in values.items()]
    return " ".join(flags)


def entry_name(module: Module, *, version: str, go: str, inputs: bytes) -> str:
    """`<module>-<version>-<go version>-<hash of the inputs>`."""
    return f"{module.name}-{version}-{go}-{hashlib.sha256(inputs).hexdigest()[:12]}"


def parse_go_version(text: str) -> tuple[int, int]:
    """("go1.26.8") -> (1, 26); BuildError when it is not a release."""
    match = re.match(r"go(\d+)\.(\d+)", text)
    if match is None:
        raise BuildError(f"cannot read the Go version {text!r}")
    return int(match[1]), int(match[2])


# --- the edge --------------------------------------------------------------------------------------------------------
def cache_root() -> Path:
    """`$XDG_CACHE_HOME/volcano-federation`, by default under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volcano-federation"


def go_version() -> str:
    """The version of the `go` command, e.g. "go1.26.8"; BuildError says what to install when it is missing or too old."""
    needed = ".".join(map(str, GO_NEEDED))
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            f"Go {needed} or newer is needed to build the control plane programs and there is no `go` on PATH: install the Go "
            f"{needed} release for this machine, add its bin folder to PATH and run this again"
        )
    text = subprocess.run(
        [go, "env", "GOVERSION"], check=True, capture_output=True, text=True, cwd=HERE / "etcd"
    ).stdout.strip()
    if parse_go_version(text) < GO_NEEDED:
        raise BuildError(f"Go {needed} or newer is needed, {go} is {text}: install the Go {needed} release")
    return text


@contextlib.contextmanager
def _lock(path: Path, *, report: Report) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another build (lock {path})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], *, cwd: Path, label: str, report: Report) -> None:
    """Runs one `go build`, with a line every REPORT_EVERY seconds."""
    started = time.monotonic()
    report(f"building {label} …")
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=REPORT_EVERY)
                break
            except subprocess.TimeoutExpired:
                report(f"building {label} … {time.monotonic() - started:.0f} s")
    if process.returncode:
        raise BuildError(f"{' '.join(command)} failed with status {process.returncode}:\n{output[-4000:]}")
    report(f"built {label} in {time.monotonic() - started:.1f} s")


def build_module(module: Module, *, go: str, report: Report = print) -> Path:
    """The folder with the programs of `module`, built if it is not there."""
    folder = HERE / module.name
    go_mod = (folder / "go.mod").read_text()
    version = required_version(go_mod, path=module.versioned_by)
    flags = linker_flags(version=version, stamp=module.stamp)
    inputs = "\0".join([go_mod, (folder / "go.sum").read_text(), flags, *(p for _, p in module.packages)]).encode()
    entry = cache_root() / entry_name(module, version=version, go=go, inputs=inputs)
    if (entry / "bin").is_dir():
        return entry / "bin"
    with _lock(cache_root() / f".{module.name}.lock", report=report):
        if (entry / "bin").is_dir():
            return entry / "bin"
        scratch = entry.with_name(f".{entry.name}.{os.getpid()}")
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "bin").mkdir(parents=True)
        try:
            for name, package in module.packages:
                command = ["go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags]
                output = scratch / "bin" / name
                _compile([*command, "-o", str(output), package], cwd=folder, label=f"{name} {version}", report=report)
            scratch.rename(entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return entry / "bin"


def ensure(*, report: Report = print) -> Programs:
    """Builds what is missing; the second time this only reads three go.mod files."""
    go = go_version()
    where = {name: build_module(module, go=go, report=report) / name for module in MODULES for name, _ in module.packages}
    return Programs(
        etcd=where["etcd"],
        apiserver=where["kube-apiserver"],
        controller_manager=where["kube-controller-manager"],
        kubelet=where["kubelet"],
        kwok=where["kwok"],
    )


def helm(*, report: Report = print) -> Path:
    """The helm program, built if it is not there."""
    return build_module(HELM, go=go_version(), report=report) / "helm"


def main() -> int:
    """Builds and prints the paths."""

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        programs, charts = ensure(report=report), helm(report=report)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in (programs.etcd, programs.apiserver, programs.controller_manager, programs.kubelet, programs.kwok, charts):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
