"""Entry points are those of what is installed, and are looked for once."""

from __future__ import annotations

import importlib.metadata

import pytest

from machinery.extensions import entry_points


def test_they_are_those_that_are_installed_by_name() -> None:
    found = entry_points("console_scripts")
    assert [each.name for each in found] == sorted(
        each.name for each in importlib.metadata.entry_points(group="console_scripts")
    )
    assert "member-agent" in {each.name for each in found}
    assert entry_points("volcano_federation.nobody_has_such") == ()


def test_what_is_installed_is_looked_through_once_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    first = entry_points("console_scripts")

    def again(**asked: str) -> importlib.metadata.EntryPoints:
        raise AssertionError(f"looked for a second time: {asked}")

    monkeypatch.setattr(importlib.metadata, "entry_points", again)
    assert entry_points("console_scripts") is first
