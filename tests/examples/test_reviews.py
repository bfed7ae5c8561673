"""Every file under examples/reviews is taken as it is written and answered as its page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import kinds
from tests.examples.test_jobs import KINDS
from tests.federation.test_reviews import Asker, told
from tests.federation.world import World

FOLDER = Path(__file__).parents[2] / "examples" / "reviews"
KNOWN = {**KINDS, (kinds.PLACEMENT_REVIEW.api_version, kinds.PLACEMENT_REVIEW.kind): kinds.PLACEMENT_REVIEW}
ANSWERS: dict[str, dict[str, Any]] = {
    "explain": {"outcome": "Waits", "change": ("MinAvailable", 8)},
    "flow": {"outcome": "Starts", "criticalPath": ["nightly-prepare", "nightly-train"]},
    "relaxed": {"outcome": "Starts"},
    "would-start": {"outcome": "Starts", "cost": "4.00", "currency": "EUR"},
    "would-wait": {"outcome": "Waits", "change": ("AnyCluster", None)},
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_the_question_is_answered_as_the_example_says(name: str) -> None:
    async def tell(world: World, ann: Asker) -> None:
        for document in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()):
            kind = KNOWN[document["apiVersion"], document["kind"]]
            await ann.port.create(kind, document, namespace="default" if kind.namespaced else None)
            await world.clock.sleep(2)
        status = await ann.answer(name)
        best = status.get("cheapest", {}).get("changes", [{}])[0]
        found = {**status, "change": (best.get("change"), best.get("count"))}
        assert {key: found[key] for key in ANSWERS[name]} == ANSWERS[name]

    told(tell, cpus=(("east", 4), ("west", 8)))


def test_every_file_is_listed_and_answered() -> None:
    files = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    listed = re.findall(r"^\| \[([\w-]+)\.yaml\]", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    assert files == listed == sorted(ANSWERS)
