"""Images for closed networks: every name is answered with busybox, or with the root file system that a table maps it to.

What manifests name is public images; nodes here reach no registry. The stub (see `relay`) serves the documents made here, so
manifests run unmodified as long as their command is one that the file system has.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PAUSE = ("/bin/sh", "-c", 'trap "exit 0" TERM INT; while :; do sleep 2147483 & wait $!; done')
FOLDERS = (
    "bin",
    "sbin",
    "etc",
    "root",
    "home",
    "proc",
    "sys",
    "dev",
    "var",
    "var/run",
    "usr",
    "usr/bin",
    "usr/sbin",
    "opt",
    "mnt",
)
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def busybox_layer(binary: bytes, *, applets: Sequence[str], files: Mapping[str, bytes] | None = None) -> bytes:
    """A root file system as a tar: busybox, a symlink per applet, accounts, a sticky /tmp; `files` (path to content) are
    laid over it, all of them executable. Same input, same bytes."""
    files = files or {}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in (*FOLDERS, "tmp", "var/tmp"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(folder)
        _add(tar, "bin/busybox", binary, mode=0o755)
        for applet in sorted(set(applets) - {"busybox"}):
            for place, target in (("bin", "busybox"), ("usr/bin", "../../bin/busybox")):
                if f"{place}/{applet}" in files:
                    continue
                link = tarfile.TarInfo(f"{place}/{applet}")
                link.type = tarfile.SYMTYPE
                link.linkname = target
                tar.addfile(link)
        for name, text in ACCOUNTS.items():
            _add(tar, name, text.encode(), mode=0o644)
        for folder_name in sorted({str(parent) for name in files for parent in PurePosixPath(name).parents} - {".", *FOLDERS}):
            folder = tarfile.TarInfo(folder_name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name, data in sorted(files.items()):
            _add(tar, name, data, mode=0o755)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = mode
    tar.addfile(info, io.BytesIO(data))


def build_busybox(path: Path, *, binary: Path, files: Mapping[str, bytes] | None = None) -> None:
    """Writes the layer unless it is there."""
    if path.exists():
        return
    applets = subprocess.run([binary, "--list"], check=True, capture_output=True, text=True).stdout.split()
    scratch = path.with_suffix(".new")
    scratch.write_bytes(busybox_layer(binary.read_bytes(), applets=applets, files=files))
    scratch.rename(path)


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their path in a root file system."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def built(images: Sequence[Mapping[str, Any]], *, binary: Path, cache: Path) -> list[dict[str, Any]]:
    """Entries of a table with "folder" (files laid over busybox) turned into entries with "layer", each layer made once per
    content."""
    made = []
    for image in images:
        entry = dict(image)
        if folder := entry.pop("folder", None):
            files = read_folder(Path(folder))
            content = digest(b"".join(name.encode() + b"\0" + data + b"\0" for name, data in sorted(files.items())))
            layer = cache / f"{Path(folder).name}-{content.removeprefix('sha256:')[:12]}.tar"
            build_busybox(layer, binary=binary, files=files)
            entry["layer"] = str(layer)
        made.append(entry)
    return made


@dataclass(frozen=True, slots=True)
class Rule:
    """Images whose `registry/repository:tag` matches `pattern` (as in shells) get the root file system in `layer` (a tar)."""

    pattern: str
    layer: Path
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ("sh",)


class Table:
    """Answers for the registry: manifests by name, blobs by digest."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(rule, self._describe(rule)) for rule in rules]
        self._blobs: dict[str, bytes | Path] = {}
        self._manifests: dict[str, bytes] = {}
        for rule, (manifest, config, layer_digest) in self._rules:
            self._manifests[digest(manifest)] = manifest
            self._blobs[digest(config)] = config
            self._blobs[layer_digest] = rule.layer

    @staticmethod
    def _describe(rule: Rule) -> tuple[bytes, bytes, str]:
        layer = rule.layer.read_bytes()
        layer_digest = digest(layer)
        run: dict[str, Any] = {"Env": [PATH], "Cmd": list(rule.command)}
        if rule.entrypoint:
            run = {"Env": [PATH], "Entrypoint": list(rule.entrypoint)}
        rootfs = {"type": "layers", "diff_ids": [layer_digest]}
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": run, "rootfs": rootfs}).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": LAYER_TYPE, "digest": layer_digest, "size": len(layer)}],
        }
        return json.dumps(manifest).encode(), config, layer_digest

    def manifest(self, name: str, *, reference: str, registry: str) -> bytes | None:
        """By digest, or by tag: the first rule that matches."""
        if reference in self._manifests:
            return self._manifests[reference]
        if reference.startswith("sha256:"):
            return None
        image = f"{registry}/{name}:{reference}"
        return next((manifest for rule, (manifest, _, _) in self._rules if fnmatch.fnmatchcase(image, rule.pattern)), None)

    def blob(self, wanted: str) -> bytes | None:
        found = self._blobs.get(wanted)
        return found.read_bytes() if isinstance(found, Path) else found


def table(busybox: Path, *, images: Sequence[Mapping[str, Any]]) -> Table:
    """The pause image, the rules of `images` ({"pattern", "layer", "entrypoint"?, "command"?}, see `built`), then busybox for
    all else."""
    rules = [Rule("sandbox.local/pause:*", busybox, PAUSE)]
    for image in images:
        entrypoint, command = tuple(image.get("entrypoint", ())), tuple(image.get("command", ("sh",)))
        rules.append(Rule(image["pattern"], Path(image["layer"]), entrypoint, command))
    return Table([*rules, Rule("*", busybox)])
