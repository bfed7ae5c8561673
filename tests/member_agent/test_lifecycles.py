"""docs/lifecycles shows the member's tables as they are; `python -m tests.member_agent.test_lifecycles` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from member_agent.jobs.lifecycle import ENDS, JOB, JobEvent, JobPhase
from member_agent.queues.lifecycle import QUEUE
from member_agent.scheduling.holds import HOLD
from member_agent.scheduling.lifecycle import GROUP, GroupEvent, GroupPhase
from member_agent.works.lifecycle import WORK
from policies.tables import Table, UnknownEdge

PAGES: dict[str, Table[Any, Any]] = {
    "hold.md": HOLD,
    "job.md": JOB,
    "podgroup.md": GROUP,
    "queue.md": QUEUE,
    "work.md": WORK,
}
FOLDER = Path(__file__).parent.parent.parent / "docs" / "lifecycles"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_page_of_a_lifecycle_is_drawn_from_its_table(page: str) -> None:
    assert (FOLDER / page).read_text() == PAGES[page].document()


@pytest.mark.parametrize("table", PAGES.values(), ids=PAGES)
def test_every_state_has_a_meaning(table: Table[Any, Any]) -> None:
    states = {state for (source, _), target in table.edges.items() for state in (source, target)}
    assert states <= set(table.meaning)


@pytest.mark.parametrize("end", sorted(ENDS))
def test_nothing_leaves_an_end(end: JobPhase) -> None:
    assert {target for (source, _), target in JOB.edges.items() if source is end} == {end}


def test_an_unknown_edge_raises_with_the_story() -> None:
    with pytest.raises(UnknownEdge, match="Job default/train"):
        JOB.step(JobPhase.COMPLETED, JobEvent.STARTED, story="Job default/train")


def test_a_group_knows_every_event_in_every_phase() -> None:
    assert all(GROUP.knows(phase, event) for phase in GroupPhase for event in GroupEvent)


if __name__ == "__main__":
    for name, table in PAGES.items():
        (FOLDER / name).write_text(table.document())
