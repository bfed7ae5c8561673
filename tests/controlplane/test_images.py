from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.controlplane import images
from e2e.controlplane.relay import parse_connect


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path]:
    busybox, other = tmp_path / "busybox.tar", tmp_path / "other.tar"
    busybox.write_bytes(images.busybox_layer(b"ELF", applets=["sh", "true"]))
    other.write_bytes(b"tar")
    return busybox, other


def test_the_root_file_system_has_applets_accounts_and_a_sticky_tmp() -> None:
    layer = images.busybox_layer(b"ELF", applets=["true", "sh", "busybox"])
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert tar.getmember("usr/bin/true").linkname == "../../bin/busybox"
        assert tar.getmember("tmp").mode == 0o1777
        assert tar.getmember("bin/busybox").isfile()


def test_the_same_input_makes_the_same_layer() -> None:
    assert images.busybox_layer(b"ELF", applets=["a", "b"]) == images.busybox_layer(b"ELF", applets=["b", "a"])


def test_any_image_name_is_answered_and_its_blobs_are_there(layers: tuple[Path, Path]) -> None:
    table = images.table(layers[0], images=())
    body = table.manifest("library/nginx", reference="1.14.2", registry="docker.io")
    assert body is not None
    manifest = json.loads(body)
    assert table.blob(manifest["layers"][0]["digest"]) == layers[0].read_bytes()
    config = json.loads(table.blob(manifest["config"]["digest"]) or b"")
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert table.manifest("library/nginx", reference=images.digest(body), registry="docker.io") == body


def test_the_table_maps_an_image_to_its_own_root_file_system(layers: tuple[Path, Path]) -> None:
    rule = {"pattern": "docker.io/example/mpi:*", "layer": str(layers[1]), "command": ["mpirun"]}
    table = images.table(layers[0], images=[rule])
    mapped = json.loads(table.manifest("example/mpi", reference="v1", registry="docker.io") or b"")
    plain = json.loads(table.manifest("example/mpi", reference="v1", registry="quay.io") or b"")
    assert mapped["layers"][0]["digest"] == images.digest(b"tar")
    assert plain["layers"][0]["digest"] == images.digest(layers[0].read_bytes())


def test_an_unknown_digest_is_not_answered(layers: tuple[Path, Path]) -> None:
    table = images.table(layers[0], images=())
    assert table.manifest("library/nginx", reference="sha256:00", registry="docker.io") is None
    assert table.blob("sha256:00") is None


def test_the_proxy_reads_connect_requests() -> None:
    assert parse_connect(b"CONNECT 10.65.255.1:10250 HTTP/1.1\r\nHost: x\r\n\r\n") == ("10.65.255.1", 10250)
    with pytest.raises(ValueError, match="GET instead of CONNECT"):
        parse_connect(b"GET / HTTP/1.1\r\n\r\n")


def test_files_of_a_folder_lie_over_busybox_and_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/true").write_text("#!/bin/sh\n")
    (tmp_path / "opt/tool").mkdir(parents=True)
    (tmp_path / "opt/tool/run").write_text("#!/bin/sh\n")
    layer = images.busybox_layer(b"ELF", applets=["true"], files=images.read_folder(tmp_path))
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert [member.name for member in tar if member.name.endswith("/true")] == ["bin/true", "usr/bin/true"]
        assert tar.getmember("usr/bin/true").isfile()
        assert tar.getmember("opt/tool").isdir()
        assert tar.getmember("opt/tool/run").mode == 0o755


def test_a_layer_is_made_once_per_content(tmp_path: Path) -> None:
    binary, folder = tmp_path / "busybox", tmp_path / "mpi"
    binary.write_text("#!/bin/sh\necho sh\n")
    binary.chmod(0o755)
    folder.mkdir()
    (folder / "mpiexec").write_text("one")
    table = [{"pattern": "*/mpi:*", "folder": str(folder)}]
    first = images.built(table, binary=binary, cache=tmp_path)
    again = images.built(table, binary=binary, cache=tmp_path)
    (folder / "mpiexec").write_text("two")
    other = images.built(table, binary=binary, cache=tmp_path)
    assert first == again
    assert first != other
    assert all(Path(entry["layer"]).exists() and entry["pattern"] == "*/mpi:*" for entry in first + other)
