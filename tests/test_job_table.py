"""The table in docs/concepts/job.md: every field and rule of a Job names tests that exist, and cases of them that exist."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.manifests import refused

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "concepts" / "job.md"
TEST = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)::(test_\w+)(?:\[([^`]*)\])?`")
LEAST = 80
"""Rows that there must be."""


@dataclass(frozen=True, slots=True)
class Row:
    """A rule and what proves it: file, test, and the case ("" for all)."""

    section: str
    rule: str
    proofs: tuple[tuple[str, str, str], ...]


def rows() -> list[Row]:
    """The rows behind the mark of the table."""
    found = []
    for line in PAGE.read_text().split("<!-- table -->")[1].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and re.match(r"\d", cells[0]):
            found.append(
                Row(cells[0], cells[1], tuple((path, test, case or "") for path, test, case in TEST.findall(cells[2])))
            )
    return found


@cache
def functions_of(path: str) -> frozenset[str]:
    """Names of the test functions of a file, read and not run."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text()


def known(path: str, test: str, case: str) -> bool:
    """Whether the file has the test and the test the case: a refusal of tests/manifests, or an id written in the file."""
    if not (ROOT / path).is_file() or test not in functions_of(path):
        return False
    if not case:
        return True
    return case in {str(each) for each in refused()} or f'"{case}"' in source(path)


def test_every_rule_names_a_test_that_exists() -> None:
    wrong = [f"{path}::{test}[{case}]" for row in rows() for path, test, case in row.proofs if not known(path, test, case)]
    assert wrong == []


def test_no_rule_is_without_proof_and_none_stands_twice() -> None:
    assert [row.rule for row in rows() if not row.proofs] == []
    told = [(row.section, row.rule) for row in rows()]
    assert sorted(told) == sorted(set(told))


def test_there_are_rows_for_every_section() -> None:
    assert len(rows()) >= LEAST
    assert {row.section for row in rows()} >= {f"1.{number}" for number in range(1, 10)} | {"2.1"}


def test_a_test_that_is_not_there_would_be_found() -> None:
    assert known("tests/test_job_table.py", "test_there_are_rows_for_every_section", "")
    assert not known("tests/test_job_table.py", "test_of_nothing", "")
    assert not known("tests/no_such_file.py", "test_there_are_rows_for_every_section", "")
    assert not known(
        "tests/controllers/admission/test_refusals.py", "test_what_is_wrong_is_named_with_field_and_reason", "Job: x"
    )
