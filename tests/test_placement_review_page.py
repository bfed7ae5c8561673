"""The page about reviews says what the code does: changes with their points, and how each is made."""

from __future__ import annotations

import re
from pathlib import Path

from apis.review import CHANGES
from federation.reviews import controller, graphs, questions, telling
from policies.relaxing import COSTS, HOWS, How, Kind

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "placement-review.md"
BY = {How.EDIT: "editing the Job", How.SUBMIT: "submitting it again", How.POLICY: "changing the policy"}


def test_every_change_stands_in_the_table_with_its_points_and_way() -> None:
    rows = re.findall(r"^\| (\w+) \| (\d+)(?: to (\d+))? \|.*\| ([\w ]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    graded = (Kind.MINIMUM, Kind.REPLICAS)
    expected = [
        (kind.value, str(COSTS[kind]), str(2 * COSTS[kind]) if kind in graded else "", BY[HOWS[kind]]) for kind in COSTS
    ]
    assert rows == expected
    assert tuple(kind.value for kind in COSTS) == CHANGES == tuple(kind.value for kind in Kind)


def test_the_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert f"At most {controller.MOST_OPEN} reviews" in text
    assert f"at most {questions.LARGEST >> 10} KiB" in text
    assert f"the best {telling.MOST_CLUSTERS} one by one" in text
    assert f"at most {graphs.MOST_JOBS} Jobs" in text
    assert controller.KEPT == 600
