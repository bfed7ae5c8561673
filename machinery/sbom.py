"""The bill of materials of an installation, from the lock: CycloneDX 1.6 as JSON, the same bytes for the same lock.

`python -m machinery.sbom requirements-run.lock` writes it to standard output; `make sbom` to build/sbom.cdx.json. It lists what
the lock pins and with which hashes, so that it holds for every platform: a component that only some need says so by its marker.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import orjson

NAME: Final = "volcano-federation"
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")
_RUNS = re.compile(r"[-_.]+")


class UnreadableLock(ValueError):
    """A line of a lock that is neither a pinned requirement nor a hash; says which."""


@dataclass(frozen=True, slots=True)
class Component:
    """One pinned distribution: its name as registries compare names, the hashes of its files, its marker ("": always)."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    marker: str = ""

    @property
    def purl(self) -> str:
        """As the package URL scheme names it."""
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def document(self) -> dict[str, Any]:
        """As CycloneDX has it."""
        found: dict[str, Any] = {
            "type": "library",
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            "purl": self.purl,
        }
        if self.hashes:
            found["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in self.hashes]
        if self.marker:
            found["properties"] = [{"name": "volcano-federation:marker", "value": self.marker}]
        return found


def normal(name: str) -> str:
    """A distribution's name as registries compare names."""
    return _RUNS.sub("-", name).lower()


def components(lock: str) -> tuple[Component, ...]:
    """What a hash-pinned lock pins, by name; raises UnreadableLock."""
    return tuple(sorted(_components(lock), key=lambda each: (each.name, each.version, each.marker)))


def _components(lock: str) -> Iterator[Component]:
    pin: re.Match[str] | None = None
    hashes: list[str] = []
    for number, line in enumerate(lock.splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        digest = _HASH.match(text)
        if digest is not None and pin is not None:
            hashes.append(digest["digest"])
            continue
        if pin is not None:
            yield _component(pin, hashes)
        pin, hashes = _PIN.match(text), []
        if pin is None:
            raise UnreadableLock(f"line {number}: {text[:80]!r} pins nothing")
    if pin is not None:
        yield _component(pin, hashes)


def _component(pin: re.Match[str], hashes: list[str]) -> Component:
    return Component(normal(pin["name"]), pin["version"], tuple(sorted(hashes)), (pin["marker"] or "").strip())


def bill(lock: str, *, version: str) -> bytes:
    """The bill of this version of ours with what the lock pins."""
    found = components(lock)
    ours = f"pkg:pypi/{NAME}@{version}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": ours, "name": NAME, "version": version, "purl": ours},
        },
        "components": [each.document for each in found],
        "dependencies": [{"ref": ours, "dependsOn": [each.purl for each in found]}],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(bill(Path(sys.argv[1]).read_text(), version=metadata.version(NAME)))
