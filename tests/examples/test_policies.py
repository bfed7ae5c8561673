"""Every manifest under examples/policies is taken as it is written and places its Job where it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import keys, kinds
from simulator.world import World as Simulated
from tests.examples.test_jobs import KINDS
from tests.federation.world import World, story
from tests.support.stage import play

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
PLACES = {
    "affinity": {"west": 2},
    "affinity-terms": {"west": 2},
    "cost-first": {"west": 2},
    "default-policy": {"west": 2},
    "divided-by-room": {"east": 2, "west": 2},
    "divided-by-weight": {"east": 1, "west": 3},
    "efficiency-first": {"east": 2},
    "federated-quota": {"west": 2},
    "override": {"west": 2},
    "priority": {"west": 2},
    "propagate-deps": {"west": 1},
    "spot": {"west": 2},
    "spread": {"east": 1, "west": 1},
    "suspension": {"west": 2},
}
OBJECTS = {
    "kubernetes-job": (kinds.BATCH_JOB, "count", ["west"]),
    "plain-objects": (kinds.CONFIGMAP, "endpoints", ["east", "west"]),
}
"""Examples of other kinds than Volcano's Job: what they send, and where."""


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


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_other_objects_go_where_the_example_says(name: str) -> None:
    kind, what, places = OBJECTS[name]

    async def tell(world: Simulated) -> None:
        await world.apply((FOLDER / f"{name}.yaml").read_text())

        def there() -> list[str]:
            return [each for each in ("east", "west") if world.get(kind, what, server=each) is not None]

        await world.until(lambda: there() == places, timeout=30)
        if name == "plain-objects":
            west = world.get(kind, what, server="west") or {}
            assert west["data"] == {"registry": "mirror.west.example"}

    play(tell)


def test_every_file_is_listed_and_placed() -> None:
    files = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    listed = re.findall(r"^\| \[([\w-]+)\.yaml\]", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    assert files == listed == sorted({*PLACES, *OBJECTS})
