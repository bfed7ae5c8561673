"""Every manifest under examples/policies is taken as it is written and places its Job where it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import keys, kinds
from tests.examples.test_jobs import KINDS
from tests.federation.world import World, story

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
PLACES = {
    "affinity": {"west": 2},
    "affinity-terms": {"west": 2},
    "cost-first": {"west": 2},
    "divided-by-room": {"east": 2, "west": 2},
    "divided-by-weight": {"east": 1, "west": 3},
    "efficiency-first": {"east": 2},
    "override": {"west": 2},
}


@pytest.mark.parametrize("name", sorted(PLACES))
def test_the_job_goes_where_the_example_says(name: str) -> None:
    async def tell(world: World) -> None:
        for document in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()):
            kind = KINDS[document["apiVersion"], document["kind"]]
            await world.port.create(kind, document, namespace="default" if kind.namespaced else None)
        for cluster in ("east", "west"):
            world.member(cluster)
        await world.clock.sleep(2)
        world.hub()
        await world.until_phase("train", "Running", "Completed")
        clusters = (await world.binding("train"))["spec"]["clusters"]
        assert {each["name"]: each["replicas"] for each in clusters} == PLACES[name]
        if name == "override":
            assert await images(world) == {"mirror.example/busybox:1.36"}

    story(tell)


async def images(world: World) -> set[str]:
    """Of the Work in west."""
    found: set[str] = set()
    for document in (await world.port.list(kinds.WORK, namespace=keys.execution_namespace("west"))).items:
        manifest: dict[str, Any] = json.loads(document)["spec"]["workload"]["manifests"][0]
        found |= {each["image"] for task in manifest["spec"]["tasks"] for each in task["template"]["spec"]["containers"]}
    return found


def test_every_file_is_listed_and_placed() -> None:
    files = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    listed = re.findall(r"^\| \[([\w-]+)\.yaml\]", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    assert files == listed == sorted(PLACES)
