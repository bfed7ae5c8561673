"""docs/reference/api shows the models as they are; `python -m apis.docgen` writes the pages anew."""

from __future__ import annotations

import re

import pytest

from apis import docgen
from apis.served import SERVED

PAGES = docgen.pages()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_of_the_reference_is_written_from_the_models(page: str) -> None:
    assert (docgen.FOLDER / page).read_text() == PAGES[page]


def test_there_are_no_other_pages_and_every_kind_has_its_heading() -> None:
    assert {path.name for path in docgen.FOLDER.iterdir()} == set(PAGES)
    for served in SERVED:
        assert f"\n## {served.kind.kind}\n" in PAGES[f"{served.kind.group}.md"]


def test_a_field_is_told_with_its_path_type_meaning_and_limits() -> None:
    jobs = PAGES["batch.volcano.sh.md"]
    text = "Pods that start together or not at all; also how many must succeed."
    assert f"| `spec.minAvailable` | integer | {text} (at least 0) |" in jobs
    assert re.search(r"^\| `spec\.tasks\[\]\.replicas` \| integer \|", jobs, flags=re.MULTILINE)
