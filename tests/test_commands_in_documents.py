"""Every fedctl command of the documents, in a console block or named in a sentence, is one that fedctl would carry out."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import typer

from fedctl.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("client/*.md")])
TYPED = re.compile(r"^\$ (?:fedctl|kubectl fed) (.+)$", flags=re.MULTILINE)
NAMED = re.compile(r"`fedctl ([^`]+)`")


def typed(page: Path) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in TYPED.findall(page.read_text())]


def named(page: Path) -> list[list[str]]:
    return [text.split() for text in NAMED.findall(page.read_text())]


def astray(words: list[str]) -> str:
    """The word that stands where a command should; empty when they lead to one, or when options begin before that."""
    at: Any = typer.main.get_command(app)
    for word in words:
        if not hasattr(at, "commands") or word.startswith("-"):
            return ""
        if word not in at.commands:
            return word
        at = at.commands[word]
    return ""


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_to_be_typed_is_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that is not there is all that may be missing; files that the reader is to make are made."""
    carried: list[list[str]] = []

    def carry(work: Coroutine[Any, Any, int]) -> int:
        work.close()
        carried.append([])
        return 0

    monkeypatch.setattr(asyncio, "run", carry)
    command = typer.main.get_command(app)
    for words in typed(page):
        command.main(_with_files(words, tmp_path), standalone_mode=False)
    assert len(carried) == len(typed(page))


def _with_files(words: list[str], folder: Path) -> list[str]:
    made = []
    for word in words:
        if re.fullmatch(r"[\w./-]+\.(ya?ml|csv)", word) and not (ROOT / word).exists():
            (folder / word).write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}")
            made.append(str(folder / word))
        else:
            made.append(str(ROOT / word) if "/" in word and (ROOT / word).is_file() else word)
    return made


@pytest.mark.parametrize("page", [page for page in PAGES if named(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_a_sentence_names_is_there(page: Path) -> None:
    assert [f"fedctl {' '.join(words)}" for words in named(page) if astray(words)] == []
