"""docs/lifecycles shows the tables as they are; `python -m tests.test_lifecycles` writes the pages anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controllers.flows.lifecycle import FLOW, STEP
from policies.tables import Table

PAGES: dict[str, Table[Any, Any]] = {"jobflow.md": FLOW, "flow-step.md": STEP}
FOLDER = Path(__file__).parent.parent / "docs" / "lifecycles"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_page_of_a_lifecycle_is_drawn_from_its_table(page: str) -> None:
    assert (FOLDER / page).read_text() == PAGES[page].document()


if __name__ == "__main__":
    for name, table in PAGES.items():
        (FOLDER / name).write_text(table.document())
