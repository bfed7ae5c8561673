"""Steps follow their data, over a whole simulated federation: where a target ran, and how much it left, decide."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import keys, kinds, naming
from policies.views import VERDICTS
from simulator.world import World
from tests.simulation.test_flows import SAYS, ends, jobflow, template
from tests.support.stage import play
from tests.support.stories import phase

Doc = dict[str, Any]


def only(job: str, cluster: str) -> Doc:
    """A policy that sends one Job to one cluster."""
    kind = kinds.PROPAGATION_POLICY
    selector = {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "name": job}
    spec = {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": [cluster]}}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": f"only-{job}"}, "spec": spec}


def reading(made: Doc, reads: str) -> Doc:
    return {**made, "metadata": {**made["metadata"], "annotations": {keys.READS: reads}}}


def source(name: str, cluster: str, size: str) -> Doc:
    kind = kinds.DATA_SOURCE
    spec = {"locality": {"clusterNames": [cluster]}, "size": size}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def record(world: World, step: str) -> Doc:
    status: Doc = (world.get(kinds.JOB_FLOW, "flow") or {})["status"]
    return next(each for each in status["jobStatusList"] if each["step"] == step)


@pytest.mark.parametrize("home", ["east", "west"])
def test_a_step_runs_where_its_target_left_its_data(home: str) -> None:
    async def story(world: World) -> None:
        spec = {
            "flows": [
                {"name": "prepare", "outputs": [{"name": "bytes"}]},
                {"name": "train", "dependsOn": {"targets": ["prepare"]}},
            ]
        }
        await world.apply([only("flow-prepare", home), template("prepare", SAYS.format("50Gi")), template("train", "sleep 1")])
        await world.apply(jobflow(spec))
        await world.until(lambda: ends(world), timeout=200)
        assert phase(world, "flow", kind=kinds.JOB_FLOW) == "Succeed", world.story()
        assert [start.cluster for start in world.records] == [home, home]
        told = f"of 50Gi that it reads 50Gi are in {home} (prepare)"
        assert (record(world, "train")["clusters"], record(world, "train")["placement"]) == ([home], told)
        binding = world.get(kinds.RESOURCE_BINDING, naming.binding_name("flow-train")) or {}
        assert orjson.loads(binding["metadata"]["annotations"][VERDICTS])["data"] == told

    play(story)


def test_a_large_data_source_outweighs_a_small_target() -> None:
    async def story(world: World) -> None:
        spec = {"flows": [{"name": "prepare"}, {"name": "train", "dependsOn": {"targets": ["prepare"]}}]}
        train = reading(template("train", "sleep 1"), "prepare=1Gi,images")
        await world.apply([source("images", "west", "900Gi"), only("flow-prepare", "east")])
        await world.apply([template("prepare", "sleep 1"), train, jobflow(spec)])
        await world.until(lambda: ends(world), timeout=200)
        assert [start.cluster for start in world.records] == ["east", "west"]
        assert record(world, "train")["placement"].startswith("of 901Gi that it reads 900Gi are in west (images)")

    play(story)
