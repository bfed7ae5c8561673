from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from e2e.controlplane import build


def test_the_version_is_read_from_go_mod() -> None:
    text = "module m\nrequire (\n\tk8s.io/kubernetes-x v1.0.0\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n"
    assert build.required_version(text, path="k8s.io/kubernetes") == "v1.36.3"
    assert build.required_version("require k8s.io/kubernetes v1.2.3", path="k8s.io/kubernetes") == "v1.2.3"


def test_a_go_mod_without_the_program_is_refused() -> None:
    with pytest.raises(build.BuildError, match="requires no example.org/x"):
        build.required_version("module m\n", path="example.org/x")


@pytest.mark.parametrize("module", build.MODULES, ids=lambda module: module.name)
def test_the_committed_modules_name_a_version(module: build.Module) -> None:
    go_mod = (build.HERE / module.name / "go.mod").read_text()
    assert build.required_version(go_mod, path=module.versioned_by).startswith("v")


def test_kubernetes_is_stamped_with_its_version() -> None:
    flags = build.linker_flags(version="v1.36.3", stamp="a/version")
    assert flags == "-s -w -X a/version.gitVersion=v1.36.3 -X a/version.gitMajor=1 -X a/version.gitMinor=36"


def test_an_entry_changes_with_its_inputs_and_names_versions() -> None:
    etcd = build.MODULES[0]
    one, other = (build.entry_name(etcd, version="v1", go="go1.26.8", inputs=inputs) for inputs in (b"a", b"b"))
    assert one.startswith("etcd-v1-go1.26.8-")
    assert one != other


@pytest.mark.parametrize(("text", "version"), [("go1.26.8", (1, 26)), ("go1.27rc1\n", (1, 27))])
def test_go_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert build.parse_go_version(text) == version


def test_without_go_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"Go 1\.26 or newer is needed .* install the Go 1\.26 release"):
        build.go_version()


@pytest.fixture
def fake_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A `go` that writes a program and counts its calls."""
    calls = tmp_path / "calls"
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nwhile [ "$1" != -o ]; do shift; done\necho built > "$2"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def test_the_second_run_builds_nothing(fake_go: Path) -> None:
    etcd = build.MODULES[0]
    said: list[str] = []
    folder = build.build_module(etcd, go="go1.26.8", report=said.append)
    assert (folder / "etcd").read_text() == "built\n"
    assert said[0].startswith("building etcd v")
    assert build.build_module(etcd, go="go1.26.8", report=said.append) == folder
    assert len(fake_go.read_text().splitlines()) == 1


def test_another_go_version_builds_again(fake_go: Path) -> None:
    etcd = build.MODULES[0]
    build.build_module(etcd, go="go1.26.8", report=lambda _: None)
    build.build_module(etcd, go="go1.26.9", report=lambda _: None)
    assert len(fake_go.read_text().splitlines()) == 2


def test_a_failed_build_leaves_no_entry_and_tells_the_output(fake_go: Path) -> None:
    go = fake_go.parent / "bin" / "go"
    go.write_text("#!/bin/sh\necho no space left; exit 1\n")
    with pytest.raises(build.BuildError, match="no space left"):
        build.build_module(build.MODULES[0], go="go1.26.8", report=lambda _: None)
    assert [path.name for path in build.cache_root().iterdir()] == [".etcd.lock"]


def test_the_lock_is_free_after_a_build(fake_go: Path) -> None:
    build.build_module(build.MODULES[0], go="go1.26.8", report=lambda _: None)
    with (build.cache_root() / ".etcd.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
