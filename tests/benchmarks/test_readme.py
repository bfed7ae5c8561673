"""The README shows the figures that were measured, and no others."""

from __future__ import annotations

import importlib

import pytest

from benchmarks.harness import RESULTS

command = importlib.import_module("benchmarks.__main__")


def test_the_readme_shows_the_table_of_the_kept_results() -> None:
    readme = command.README.read_text()
    assert command.shown(readme, rows=(RESULTS / "table.md").read_text()) == readme


def test_a_readme_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        command.shown("nothing", rows="")
