"""What the documents point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PATHS = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|ya?ml|txt|jsonl))?)`")
LINKS = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def pointers(document: Path) -> list[Path]:
    """Files and folders that a document names: in backticks from the root, in links from where it stands."""
    text = document.read_text()
    named = [ROOT / found for found in PATHS.findall(text)]
    return named + [document.parent / found for found in LINKS.findall(text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_points_to_what_is_there(document: Path) -> None:
    assert [str(path) for path in pointers(document) if not path.exists()] == []


def test_the_architecture_names_a_place_for_each_of_the_eight_steps() -> None:
    rows = re.findall(r"^\| (\d) \w[\w ]* \|(.+)$", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.MULTILINE)
    assert [number for number, _ in rows] == list("12345678")
    assert all(PATHS.search(row) for _, row in rows)
