"""The bill of materials says what is installed: nothing is missing, nothing has another version."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from machinery.sbom import NAME, Component, UnreadableLock, bill, components, normal

LOCK = (Path(__file__).parents[2] / "requirements-run.lock").read_text()
MADE_UP = """\
# by hand
Some_Thing==1.2 ; sys_platform == 'win32' \\
    --hash=sha256:{b} \\
    --hash=sha256:{a}
other==3
""".format(a="a" * 64, b="b" * 64)


def needed(name: str) -> set[str]:
    """Names of everything that a distribution requires here, without extras."""
    found: set[str] = set()
    todo = [name]
    while todo:
        for text in metadata.requires(todo.pop()) or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            if normal(wanted.name) not in found:
                found.add(normal(wanted.name))
                todo.append(wanted.name)
    return found


def test_what_the_bill_names_for_this_machine_is_installed_in_that_version() -> None:
    here = [each for each in components(LOCK) if not each.marker or Marker(each.marker).evaluate()]
    assert {each.name: each.version for each in here} == {each.name: metadata.version(each.name) for each in here}


def test_everything_that_an_installation_needs_is_in_the_bill() -> None:
    assert needed(NAME) - {each.name for each in components(LOCK)} == set()


def test_every_component_has_hashes_and_the_same_lock_makes_the_same_bytes() -> None:
    assert [each.name for each in components(LOCK) if not each.hashes] == []
    assert bill(LOCK, version="1") == bill(LOCK, version="1")


def test_the_bill_is_cyclonedx() -> None:
    read = json.loads(bill(MADE_UP, version="0.1"))
    assert (read["bomFormat"], read["specVersion"]) == ("CycloneDX", "1.6")
    assert read["metadata"]["component"]["purl"] == "pkg:pypi/volcano-federation@0.1"
    refs = [each["bom-ref"] for each in read["components"]]
    assert refs == read["dependencies"][0]["dependsOn"] == ["pkg:pypi/other@3", "pkg:pypi/some-thing@1.2"]
    assert read["components"][1]["properties"] == [{"name": "volcano-federation:marker", "value": "sys_platform == 'win32'"}]


def test_a_lock_is_read_with_names_hashes_and_markers() -> None:
    assert components(MADE_UP) == (
        Component("other", "3"),
        Component("some-thing", "1.2", ("a" * 64, "b" * 64), "sys_platform == 'win32'"),
    )


@pytest.mark.parametrize("line", ["thing>=1", "-e .", "--hash=sha256:" + "a" * 64, "thing @ https://example.com/thing.whl"])
def test_what_pins_nothing_is_named(line: str) -> None:
    with pytest.raises(UnreadableLock, match="line 1"):
        components(line)
