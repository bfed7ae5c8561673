"""What people do with Jobs, flows and queues by fedctl, on a federation that does it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis import kinds
from fedctl import describing, exits, getting, manifests, orders, queueing, submitting, topping, views
from fedctl.desk import Desk, Stop, explained
from fedctl.refs import Ref, ref
from fedctl.submitting import Short
from machinery import errors
from simulator.world import World
from tests.support.stage import play
from tests.support.stories import running

FOR_EVER = ("sleep infinity",)


class Terminal:
    """A person at a terminal; what was printed, and what was complained about."""

    def __init__(self, world: World, *, namespace: str = "default") -> None:
        self.printed: list[str] = []
        self.complaints: list[str] = []
        self.desk = Desk(world.client(), namespace, world.clock.now, out=self.printed.append, err=self.complaints.append)
        self._world = world

    @property
    def text(self) -> str:
        return "\n".join(self.printed)

    def clear(self) -> None:
        self.printed.clear()
        self.complaints.clear()


async def runs(world: World, name: str) -> None:
    """Until a container of the Job runs, and everybody has said so."""
    while not running(world, name):
        await world.clock.sleep(1.0)
    await world.clock.sleep(10.0)


def told(story: Callable[[World, Terminal], Awaitable[None]], **given: Any) -> None:
    async def tell(world: World) -> None:
        await story(world, Terminal(world))

    play(tell, pods={"default/train": 2}, **given)


def test_a_job_told_in_flags_is_made_and_shown_with_where_it_runs() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        short = Short("train", "trainer", command=FOR_EVER, replicas=2, cpu="500m")
        assert await submitting.submit(terminal.desk, [submitting.job(short)]) == exits.OK
        assert terminal.text == "job/train made"
        await runs(world, "train")
        terminal.clear()
        assert await getting.get(terminal.desk, kinds.JOB) == exits.OK
        header, line = terminal.text.splitlines()
        assert header.split() == ["NAME", "PHASE", "PODS", "QUEUE", "AGE", "WHERE", "OR", "WHY"]
        assert line.split()[:4] == ["train", "Running", "2/2", "default"]
        terminal.clear()
        await getting.get(terminal.desk, kinds.JOB, output="wide")
        assert any(name in terminal.text for name in world.members) and "CLUSTERS" in terminal.text

    told(story)


def test_describe_tells_what_somebody_who_wonders_asks_next() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("train", "trainer", command=FOR_EVER, cpu="1"))])
        await runs(world, "train")
        await describing.describe(terminal.desk, Ref(kinds.JOB, "train"))
        for said in ("Name:           train", "Phase:          Running", "Tasks:", "trainer", "Clusters:", "cpu 1"):
            assert said in terminal.text, said

    told(story)


def test_orders_are_carried_out_where_the_job_runs() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("train", "trainer", command=FOR_EVER))])
        await runs(world, "train")
        train = ref("job/train")

        async def phase() -> str:
            return views.read_job(await world.client().get(kinds.JOB, "train", namespace="default")).phase

        assert await orders.suspend(terminal.desk, train) == exits.OK
        await world.clock.sleep(60.0)
        assert await phase() in ("Aborted", "Pending")
        assert await orders.resume(terminal.desk, train) == exits.OK
        await world.clock.sleep(60.0)
        assert await phase() == "Running"
        assert await orders.abort(terminal.desk, train) == exits.OK
        await world.clock.sleep(60.0)
        assert await phase() == "Aborted"
        assert await orders.resume(terminal.desk, train) == exits.OK
        await world.clock.sleep(60.0)
        assert await phase() == "Running"
        assert await orders.restart(terminal.desk, train) == exits.OK
        await world.clock.sleep(60.0)
        assert await phase() == "Running"
        assert await orders.delete(terminal.desk, train) == exits.OK
        with pytest.raises(Stop, match="there is no Job train in namespace default"):
            await getting.one(terminal.desk, kinds.JOB, "train")

    told(story, restarts={"default/train": 3})


def test_waiting_ends_with_the_job_and_says_how() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("short", "trainer", command=FOR_EVER))])
        assert await orders.wait(terminal.desk, ref("short"), seconds=2.0) == exits.TIMED_OUT
        assert "and goes on" in terminal.complaints[0]
        await runs(world, "short")
        await orders.abort(terminal.desk, ref("short"))
        assert await orders.wait(terminal.desk, ref("short"), seconds=120.0) == exits.FAILED

    told(story)


def test_a_mistake_in_the_last_document_keeps_the_first_from_being_made(tmp_path: Path) -> None:
    async def story(world: World, terminal: Terminal) -> None:
        good, bad = submitting.job(Short("good", "i")), submitting.job(Short("bad", "i"))
        bad["spec"]["minAvailabel"] = bad["spec"].pop("minAvailable")
        path = tmp_path / "two.yaml"
        path.write_text(yaml.safe_dump_all([good, bad]))
        with pytest.raises(Stop) as stop:
            await submitting.submit(terminal.desk, manifests.read(str(path)))
        assert "Job bad: spec.minAvailabel: no such field; did you mean minAvailable?" in stop.value.text
        assert stop.value.code == exits.USAGE
        again = submitting.job(Short("again", "i"))
        again["spec"]["tasks"].append(dict(again["spec"]["tasks"][0]))
        with pytest.raises(Stop, match="nothing was made"):
            await submitting.submit(terminal.desk, [good, again])
        await getting.get(terminal.desk, kinds.JOB)
        assert terminal.complaints == ["No resources found in default namespace."]

    told(story)


def test_what_is_there_already_is_said_and_nothing_is_made() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("one", "i"))])
        with pytest.raises(Stop, match="Job one is there already"):
            await submitting.submit(terminal.desk, [submitting.job(Short("two", "i")), submitting.job(Short("one", "i"))])
        with pytest.raises(Stop, match="there is no Job two"):
            await getting.one(terminal.desk, kinds.JOB, "two")
        terminal.clear()
        await submitting.submit(terminal.desk, [submitting.job(Short("three", "i"))], dry_run=True)
        assert terminal.text == "Job three would be made"

    told(story)


def test_queues_are_opened_closed_and_told() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await queueing.make(terminal.desk, "research", weight=2)
        await world.clock.sleep(20.0)
        await queueing.operate(terminal.desk, ["research"], action="CloseQueue")
        await world.clock.sleep(20.0)
        terminal.clear()
        await getting.get(terminal.desk, kinds.QUEUE, ["research"])
        assert "Closed" in terminal.text
        await queueing.operate(terminal.desk, ["research"], action="OpenQueue")
        await queueing.reweigh(terminal.desk, "research", weight=5)
        await world.clock.sleep(20.0)
        terminal.clear()
        await describing.describe(terminal.desk, Ref(kinds.QUEUE, "research"))
        assert "State:          Open" in terminal.text and "Weight:         5" in terminal.text

    told(story)


def test_top_tells_how_full_it_is() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(
            terminal.desk, [submitting.job(Short("train", "trainer", command=FOR_EVER, cpu="1", replicas=2))]
        )
        await runs(world, "train")
        await world.clock.sleep(30.0)
        await topping.clusters(terminal.desk)
        await topping.queues(terminal.desk)
        await topping.jobs(terminal.desk, everywhere=True)
        for name in world.members:
            assert name in terminal.text
        assert "%)" in terminal.text and "default/train" in terminal.text

    told(story)


def test_jobs_are_shown_whole_as_json_yaml_and_names() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("one", "i"))])
        terminal.clear()
        await getting.get(terminal.desk, kinds.JOB, ["one"], output="json")
        tree = json.loads(terminal.text)
        assert tree["kind"] == "Job" and "managedFields" not in tree["metadata"]
        terminal.clear()
        await getting.get(terminal.desk, kinds.JOB, output="yaml")
        assert yaml.safe_load(terminal.text)["items"][0]["metadata"]["name"] == "one"
        terminal.clear()
        await getting.get(terminal.desk, kinds.JOB, output="name")
        assert terminal.text == "jobs.batch.volcano.sh/one"
        with pytest.raises(Stop, match="-o xml: one of wide, json, yaml, name"):
            await getting.get(terminal.desk, kinds.JOB, output="xml")

    told(story)


def test_a_watch_prints_a_line_for_whatever_changed() -> None:
    async def story(world: World, terminal: Terminal) -> None:
        await submitting.submit(terminal.desk, [submitting.job(Short("one", "i"))])
        terminal.clear()
        await getting.get(terminal.desk, kinds.JOB, watch=True, looks=30)
        lines = terminal.text.splitlines()
        assert lines[0].startswith("NAME") and sum(line.startswith("NAME") for line in lines) == 1
        assert any("Running" in line for line in lines) and len(lines) < 10

    told(story)


# --- mistakes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jbo/train", "did you mean job"),
        ("job/", "a name comes after the slash"),
        ("pods/x", "none of jobs, flows"),
    ],
)
def test_a_reference_that_means_nothing_is_said(text: str, says: str) -> None:
    with pytest.raises(Stop, match=says):
        ref(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing in it"),
        ("[", "no YAML"),
        ("- 1", "no object"),
        ("kind: Job\napiVersion: batch.volcano.sh/v1alpha1\n", "metadata.name is missing"),
    ],
)
def test_a_file_that_is_no_manifest_is_said(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(Stop, match=says):
        manifests.read(str(path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"spec": {"tasks": [{"name": "a", "replica": 2}]}}, r"spec.tasks\[0\].replica: no such field; did you mean replicas"),
        ({"kind": "Jobs"}, "did you mean Job"),
        ({"apiVersion": "batch.volcano.sh/v1"}, "batch.volcano.sh/v1alpha1"),
        ({"sepc": {}}, "sepc: no such field; did you mean spec"),
    ],
)
def test_a_misspelt_field_is_named_with_the_right_spelling(change: dict[str, Any], says: str) -> None:
    doc = {**submitting.job(Short("a", "i")), **change}
    assert any(re.search(says, each) for each in manifests.misspelt(doc))


def test_examples_have_no_misspelt_fields() -> None:
    for path in sorted(Path("examples").rglob("*.yaml")):
        for doc in yaml.safe_load_all(path.read_text()):
            if isinstance(doc, dict) and "apiVersion" in doc:
                assert not manifests.misspelt(doc), path


def test_what_goes_wrong_is_a_sentence_and_an_exit_code() -> None:
    cause = (errors.FieldCause("spec.queue", "not found"),)
    for error, code, says in (
        (errors.Unreachable("refused"), exits.NO_SERVER, "cannot be reached"),
        (errors.Unauthorized("x"), exits.NOT_ALLOWED, "expired"),
        (errors.Forbidden("x"), exits.NOT_ALLOWED, "not allowed"),
        (errors.Invalid("x", causes=cause), exits.REFUSED, "spec.queue: not found"),
        (Stop("so", code=9), 9, "so"),
    ):
        text, found = explained(error)
        assert found == code and says in text
    with pytest.raises(ZeroDivisionError):
        explained(ZeroDivisionError())
