"""Who governs a Job is marked on it, and stays so until its policy goes or another takes it."""

from __future__ import annotations

from typing import Any

from apis import keys, kinds
from apis.kinds import Kind
from machinery.port import PatchType
from policies.claims import CLUSTER_POLICY_NAME, POLICY_ID
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import flow, job, phase, template


def selects(name: str, kind: Kind, *, cluster: str, labels: dict[str, str] | None = None, what: str = "", **spec: Any) -> Doc:
    """A policy that sends what it selects to one cluster."""
    selector: Doc = {"apiVersion": kind.api_version, "kind": kind.kind}
    if labels:
        selector["labelSelector"] = {"matchLabels": labels}
    if what:
        selector["name"] = what
    policy = kinds.PROPAGATION_POLICY
    where = {"clusterAffinity": {"clusterNames": [cluster]}}
    return {
        "apiVersion": policy.api_version,
        "kind": policy.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": [selector], "placement": where, **spec},
    }


def claimed(world: World, kind: Kind, name: str) -> str:
    meta = (world.get(kind, name) or {}).get("metadata") or {}
    notes = meta.get("annotations") or {}
    return str(notes.get(keys.POLICY_NAME) or notes.get(CLUSTER_POLICY_NAME) or "")


def home(world: World, name: str) -> str:
    return next((each.cluster for each in world.records.of_job(f"default/{name}")), "")


async def patched(world: World, name: str, spec: Doc) -> None:
    body = {"spec": spec}
    await world.client().patch(kinds.PROPAGATION_POLICY, name, body, type=PatchType.MERGE, namespace="default")


def test_a_job_is_marked_and_stays_with_its_policy_although_a_better_one_comes() -> None:
    async def story(world: World) -> None:
        await world.apply(selects("first", kinds.JOB, cluster="west"))
        await world.apply(job("train", runs_for=5, pods=1, cpu=1, annotations={f"{keys.GROUP}/suspend": "true"}))
        await world.until(lambda: claimed(world, kinds.JOB, "train") == "first", timeout=20)
        labels = (world.get(kinds.JOB, "train") or {})["metadata"]["labels"]
        uid = (world.get(kinds.PROPAGATION_POLICY, "first") or {})["metadata"]["uid"]
        assert labels[POLICY_ID] == uid
        await world.apply(selects("better", kinds.JOB, cluster="east", what="train", priority=10))
        await world.advance(5)
        assert claimed(world, kinds.JOB, "train") == "first"
        resumed = {"metadata": {"annotations": {f"{keys.GROUP}/suspend": "false"}}}
        await world.client().patch(kinds.JOB, "train", resumed, type=PatchType.MERGE, namespace="default")
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        assert home(world, "train") == "west"
        assert claimed(world, kinds.JOB, "train") == "first", "what has ended keeps its marks"

    play(story)


def test_a_policy_that_preempts_takes_what_waits_and_one_that_goes_leaves_it_to_the_next() -> None:
    async def story(world: World) -> None:
        held = {f"{keys.GROUP}/suspend": "true"}
        await world.apply(selects("first", kinds.JOB, cluster="west"))
        await world.apply(job("train", runs_for=5, annotations=held))
        await world.until(lambda: claimed(world, kinds.JOB, "train") == "first", timeout=20)
        await world.apply(selects("taker", kinds.JOB, cluster="east", what="train", priority=5, preemption="Always"))
        await world.until(lambda: claimed(world, kinds.JOB, "train") == "taker", timeout=20)
        await world.client().delete(kinds.PROPAGATION_POLICY, "taker", namespace="default")
        await world.until(lambda: claimed(world, kinds.JOB, "train") == "first", timeout=20)
        await world.client().delete(kinds.PROPAGATION_POLICY, "first", namespace="default")
        await world.until(lambda: claimed(world, kinds.JOB, "train") == "", timeout=20)

    play(story)


def test_a_policy_of_the_flow_governs_the_jobs_that_it_makes_unless_one_selects_the_job() -> None:
    async def story(world: World) -> None:
        made = flow("report", {"prepare": [], "train": ["prepare"]})
        made["metadata"]["labels"] = {"team": "physics"}
        await world.apply(selects("flows", kinds.JOB_FLOW, cluster="west", labels={"team": "physics"}))
        await world.apply(selects("one", kinds.JOB, cluster="east", what="report-train"))
        for step in ("prepare", "train"):
            await world.apply(template(step, runs_for=3))
        await world.apply(made)
        await world.until(lambda: phase(world, "report-train") == "Completed", timeout=120)
        assert (home(world, "report-prepare"), home(world, "report-train")) == ("west", "east")
        assert claimed(world, kinds.JOB_FLOW, "report") == "flows"
        assert claimed(world, kinds.JOB, "report-prepare") == "flows"
        assert claimed(world, kinds.JOB, "report-train") == "one"

    play(story)


def test_a_policy_of_the_template_governs_by_its_labels_too() -> None:
    async def story(world: World) -> None:
        large = template("prepare", runs_for=3)
        large["metadata"]["labels"] = {"size": "large"}
        await world.apply(selects("templates", kinds.JOB_TEMPLATE, cluster="west", labels={"size": "large"}))
        await world.apply(large)
        await world.apply(flow("report", {"prepare": []}))
        await world.until(lambda: phase(world, "report-prepare") == "Completed", timeout=120)
        assert home(world, "report-prepare") == "west"

    play(story)


def test_marks_that_somebody_writes_of_a_policy_that_does_not_select_the_job_mean_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(selects("other", kinds.JOB, cluster="east", what="other"))
        await world.apply(selects("mine", kinds.JOB, cluster="west"))
        forged = {keys.POLICY_NAMESPACE: "default", keys.POLICY_NAME: "other"}
        await world.apply(job("train", runs_for=3, annotations=forged))
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        assert home(world, "train") == "west" and claimed(world, kinds.JOB, "train") == "mine"

    play(story)
