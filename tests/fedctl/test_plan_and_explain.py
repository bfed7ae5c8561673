"""`fedctl plan` and `fedctl explain`: what people see of the planner's answers, before a real hub in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from apis import kinds
from fedctl import explain, plans
from fedctl.app import app
from fedctl.flows import NOT_FOUND, OK, REFUSED, Place
from fedctl.plans import NO_ANSWER, UNREADABLE, BadFile, read
from fedctl.relaxations import FORMS, BadRelaxation, relaxations
from fedctl.reviewing import NoAnswer, ask
from machinery.clock import Chance, Ids
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual
from tests.federation.test_flow_reviews import flow, template
from tests.federation.test_reviews import Asker, denying, named, offer, told
from tests.federation.world import Tree, World, job

EXAMPLES = Path(__file__).parents[2] / "examples" / "flows"


class Desk:
    """A person at a terminal."""

    def __init__(self, world: World, folder: Path, *, width: int = 140) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.world, self.folder = world, folder
        port = MemoryPort(world.server, agent="ann", groups=("system:authenticated",))
        consoles = (Console(file=self.out, width=width), Console(file=self.err, width=width))
        self.place = Place(port, "default", *consoles, world.clock.now())

    async def plan(self, *documents: Tree, relax: Iterable[str] = (), output: str = "text", suggest: bool = True) -> int:
        file = self.folder / "work.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        clock = self.world.clock
        return await plans.plan(self.place, file, relax=[*relax], output=output, suggest=suggest, clock=clock)

    async def explain(self, target: str, *, relax: Iterable[str] = (), output: str = "text") -> int:
        return await explain.explain(self.place, target, relax=[*relax], output=output, clock=self.world.clock)

    @property
    def said(self) -> str:
        """All that was printed since the last look, lines without the spaces at their ends."""
        text = "\n".join(line.rstrip() for line in self.out.getvalue().splitlines())
        self.out.seek(0)
        self.out.truncate()
        return text


def test_a_job_that_would_start_is_told_with_place_cost_and_end(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        for name, price in (("east", 2.0), ("west", 1.0)):
            await world.port.create(kinds.CLUSTER_OFFER, offer(name, price))
        await world.clock.sleep(1.0)
        desk = Desk(world, tmp_path)
        notes = {"volcano-federation.io/profile": "cost-first", "volcano-federation.io/estimated-duration": "30m"}
        assert await desk.plan(job("train", annotations=notes)) == OK
        said = desk.said
        assert said.startswith("Job train would start now: west is the best of 2 that fit, of 2 clusters")
        for line in ("Profile   cost-first", "Cost      1.00 EUR", "Runs for  30m, by estimated-duration"):
            assert line in said
        assert ["west", "2", "work=2", "all", "OnDemand", "1.00"] in [line.split() for line in said.splitlines()]
        assert (await world.port.list(kinds.PLACEMENT_REVIEW)).items == []
        assert (await world.port.list(kinds.JOB)).items == []

    told(tell)


def test_one_that_would_wait_is_told_what_would_start_it_and_wide_shows_what_would_not(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        desk = Desk(world, tmp_path)
        assert await desk.plan(job("train", pods=6)) == OK
        said = desk.said
        assert "Job train would wait (NoClusterFits)" in said
        assert "  let it start with 4 pods (minAvailable) [edit the Job]" in said
        assert "TRIED" not in said
        assert await desk.plan(job("train", pods=6), output="wide") == OK
        assert "let it start with 5 pods (minAvailable)" in desk.said
        assert await desk.plan(job("train", pods=6), relax=["replicas=work:2"]) == OK
        said = desk.said
        assert "would start now" in said
        assert "planned as if: run 2 replicas of task work" in said
        assert await desk.plan(job("train", pods=6), suggest=False) == OK
        assert "Would start at once" not in desk.said

    told(tell)


def test_the_same_job_is_explained_three_ways(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        for member in world.members.values():
            member.seconds = 20.0
        await world.submit(job("first", pods=4))
        await world.until_phase("first", "Running")
        await world.submit(job("train", pods=3))
        await world.until_phase("train", "Pending")
        desk = Desk(world, tmp_path)
        assert await desk.explain("job/train") == OK
        waits = desk.said
        await world.until_phase("train", "Running", within=300)
        assert await desk.explain("train") == OK
        runs = desk.said
        await world.until_phase("train", "Completed", within=300)
        assert await desk.explain("vcjob/train") == OK
        ended = desk.said
        assert waits.startswith("Job default/train waits (NoClusterFits): 0 of 2 clusters fit")
        assert "Would start at once, the cheapest change" in waits
        assert runs.startswith("Job default/train runs: east is the best of")
        assert "Not promised:\n  - at most one copy at a time" in runs
        assert ended.startswith("Job default/train has ended (Completed)")

    told(tell)


def test_a_flow_is_told_step_by_step_with_the_longest_way(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        desk = Desk(world, tmp_path)
        steps = flow({"prepare": (), "train": ("prepare",), "report": ("prepare",)})
        work = [template("prepare"), template("train", takes="1h"), template("report")]
        assert await desk.plan(steps, *work) == OK
        said = desk.said
        assert said.startswith("JobFlow f would start now: every step would run")
        rows = [line.split() for line in said.splitlines()]
        assert ["*", "train", "east", "+10m", "+1h10m", "-"] in rows
        assert ["report", "east", "+10m", "+20m", "-"] in rows
        assert "* the longest way: f-prepare -> f-train" in said
        assert await desk.plan(steps, work[0]) == OK
        assert "NotMade: JobTemplate train is not there" in desk.said

    told(tell)


@pytest.mark.parametrize("name", ["nested", "report", "training"])
def test_the_examples_of_flows_are_planned(name: str, tmp_path: Path) -> None:
    """A CronJob that makes flows, a flow whose steps are flows of the same file, one whose GPUs nobody has here."""

    async def tell(world: World, ann: Asker) -> None:
        desk = Desk(world, tmp_path)
        documents = [*yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())]
        assert await desk.plan(*documents) == OK, desk.err.getvalue()
        said = desk.said
        assert "NotMade" not in said
        assert ("every step would run" in said) == (name != "training")
        assert ("nvidia.com/gpu" in said) == (name == "training")

    told(tell)


def test_answers_are_printed_for_programs_too(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        desk = Desk(world, tmp_path)
        assert await desk.plan(job("a"), job("b"), output="json") == OK
        assert [(each["about"], each["outcome"]) for each in json.loads(desk.said)] == [
            ("Job a", "Starts"),
            ("Job b", "Starts"),
        ]
        await world.submit(job("a"))
        await world.until_phase("a", "Running")
        assert await desk.explain("job/a", output="yaml") == OK
        assert yaml.safe_load(desk.said)["outcome"] == "Runs"

    told(tell)


def test_mistakes_are_sentences_and_exit_codes(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        desk = Desk(world, tmp_path)
        missing = tmp_path / "missing.yaml"
        code = await plans.plan(desk.place, missing, relax=[], output="text", suggest=True, clock=world.clock)
        assert code == UNREADABLE
        assert await desk.plan({"kind": "Pod"}) == UNREADABLE
        assert await desk.plan(job("train"), relax=["faster"]) == UNREADABLE
        assert await desk.plan(job("train", cpu="lots")) == REFUSED
        assert await desk.explain("job/nobody") == NOT_FOUND
        assert await desk.explain("pod/x") == UNREADABLE
        denying(world, ("get", "jobs"))
        assert await desk.explain("job/train") == REFUSED
        said = desk.err.getvalue()
        assert "missing.yaml" in said
        assert "there is no Job, JobFlow, CronJob or JobTemplate in it" in said
        assert "there are resume, profile=NAME" in said
        assert "Job default/nobody does not exist" in said
        assert "Traceback" not in said + desk.said

    told(tell)


def test_without_webhooks_whoever_asks_gives_his_own_name(tmp_path: Path) -> None:
    async def tell(world: World, ann: Asker) -> None:
        world.server.webhooks = None
        desk = Desk(world, tmp_path)
        assert await desk.plan(job("train")) == OK
        assert "would start now" in desk.said

    told(tell)


def test_a_hub_that_does_not_answer_is_said_not_to_and_the_review_is_taken_away(tmp_path: Path) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        server = ApiServer(clock, ids=ids, chance=chance)
        port = MemoryPort(server, agent="ann")
        with pytest.raises(NoAnswer, match="is federation-hub running"):
            await ask(port, {"job": "train"}, namespace="default", clock=clock)
        assert (await port.list(kinds.PLACEMENT_REVIEW)).items == []
        err = io.StringIO()
        place = Place(port, "default", Console(file=io.StringIO()), Console(file=err), clock.now())
        assert await explain.explain(place, "train", relax=[], output="text", clock=clock) == NO_ANSWER
        assert "did not answer" in err.getvalue()

    run_virtual(main, seed=1)


def test_every_form_of_a_relaxation_is_read() -> None:
    given = [form.replace("TASK", "work").replace("NAME", "x").replace("N", "3").replace("KEY:EFFECT", "k:e") for form in FORMS]
    assert [each["change"] for each in relaxations(given)] == [
        "Resume",
        "Profile",
        "Queue",
        "MinAvailable",
        "Replicas",
        "Replicas",
        "AnyNode",
        "TolerateNode",
        "AnyCluster",
        "TolerateCluster",
        "NoSpread",
        "Divide",
    ]
    assert relaxations(["replicas=a:3"]) == [{"change": "Replicas", "count": 3, "task": "a"}]


@pytest.mark.parametrize("text", ["", "queue", "queue=", "resume=now", "replicas=many", "replicas=-1", "min-available=a:3"])
def test_anything_else_is_not(text: str) -> None:
    with pytest.raises(BadRelaxation):
        relaxations([text])


def test_a_file_asks_about_its_jobs_and_says_what_it_leaves_out() -> None:
    other: dict[str, Any] = named(kinds.QUEUE, "q")
    found, left = read(yaml.safe_dump_all([job("a"), other, template("t"), flow({"s": ()})]))
    assert [(each.title, len(each.templates)) for each in found] == [("Job a", 0), ("JobFlow f", 1)]
    assert left == ["Queue q"]
    found, left = read(yaml.safe_dump_all([template("t")]))
    assert ([each.title for each in found], left) == (["JobTemplate t"], [])
    for text in ("a: [", "- 1", "", "just words"):
        with pytest.raises(BadFile):
            read(text)


def test_the_commands_are_there() -> None:
    for command in ("plan", "explain"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0
        assert "--relax" in result.output
