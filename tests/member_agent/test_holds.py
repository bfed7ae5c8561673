"""A part of a gang over clusters: room is held without pods until the hub releases it, withdraws it or is away for too long."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis import keys, kinds
from simulator.faults import Action, Delay, Kill, Moment, Write
from simulator.nodes import uniform
from simulator.world import HUB, Member
from tests.member_agent.world import EAST, Stage, job, play

AGENT = f"agent-{EAST}"


def group(stage: Stage) -> dict[str, Any]:
    found = stage.world.all(kinds.POD_GROUP, server=EAST)
    return next((each for each in found if each["metadata"]["name"].startswith("part")), {})


def hold(stage: Stage) -> dict[str, Any]:
    text = (group(stage).get("metadata", {}).get("annotations") or {}).get(keys.HOLD)
    return orjson.loads(text) if text else {}


def prepared(stage: Stage, work: str) -> str:
    """What the hub is told: status and reason."""
    found = stage.condition(work, "Prepared")
    return " ".join(str(found[each]) for each in ("status", "reason")) if found else ""


async def release(stage: Stage, work: str) -> None:
    """Phase 3: all parts are prepared."""
    document = stage.work(work)
    assert document is not None
    record = orjson.loads(document["metadata"]["annotations"][keys.RUN])
    text = orjson.dumps({**record, "release": True}).decode()
    await stage.patch_work(work, {"metadata": {"annotations": {keys.RUN: text}}})


def test_pods_that_keep_apart_have_nodes_of_their_own_held_and_go_there() -> None:
    """Anti-affinity by the labels that the Job's controller gives its pods, which nobody has read before they are there."""

    async def story(stage: Stage) -> None:
        apart = job("part", replicas=2)
        selector = {"matchLabels": {"volcano.sh/job-name": "part"}}
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        spec = apart["spec"]["tasks"][0]["template"]["spec"]
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        work = await stage.grant(apart, epoch=2, release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        held = [node for each in hold(stage)["held"] for node in each["nodes"]]
        assert len(set(held)) == 2
        await release(stage, work)
        await stage.until(lambda: len(stage.running("part")) == 2, timeout=60)
        assert sorted(pod["spec"]["nodeName"] for pod in stage.pods("part")) == sorted(held)

    play(story)


def test_room_is_held_without_pods_and_the_pods_go_there_once_released() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=8), epoch=2, release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        assert hold(stage)["n"] == 2
        held = {node: each["count"] for each in hold(stage)["held"] for node in each["nodes"]}
        assert sum(held.values()) == 8
        assert stage.pods() == []
        await stage.grant(job("other", replicas=9), hub_job="other-uid")
        await stage.until(lambda: stage.refusal(other(stage)) == "NoRoom", timeout=60)
        await release(stage, work)
        await stage.until(lambda: len(stage.running("part")) == 8, timeout=60)
        nodes = [pod["spec"]["nodeName"] for pod in stage.pods("part")]
        assert {node: nodes.count(node) for node in held} == held
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=120)

    def other(stage: Stage) -> str:
        names = (str(each["metadata"]["name"]) for each in stage.world.all(kinds.WORK))
        return next(name for name in names if "other" in name)

    play(story)


def test_a_local_job_gets_none_of_what_is_held() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=12), release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        await stage.world.client(EAST).create(kinds.JOB, job("local", replicas=6), namespace="default")
        await stage.world.advance(60)
        assert stage.running("local") == []
        await release(stage, work)
        await stage.until(lambda: len(stage.running("part")) == 12, timeout=60)
        await stage.until(lambda: len(stage.running("local")) == 6, timeout=120)

    play(story)


def test_a_part_whose_room_local_jobs_have_taken_says_why_and_holds_it_as_soon_as_it_is_free() -> None:
    """The hub was promised the room in the same instant in which the member gave it away."""

    async def story(stage: Stage) -> None:
        big = job("local", replicas=10, command="sleep 50")
        work = await stage.grant(job("part", replicas=8, minimum=8), release=False)
        await stage.world.client(EAST).create(kinds.JOB, big, namespace="default")
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=120)
        assert stage.pods("part") == []

    play(story)


def test_a_withdrawn_part_gives_its_room_back() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=12), release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        await stage.world.client(EAST).create(kinds.JOB, job("local", replicas=6), namespace="default")
        await stage.world.advance(30)
        assert stage.running("local") == []
        await stage.withdraw(work)
        await stage.until(lambda: len(stage.running("local")) == 6, timeout=60)
        await stage.until(lambda: stage.work(work) is None, timeout=60)
        assert not [start for start in stage.starts() if start.startswith("part")]

    play(story)


def test_a_hub_that_is_away_for_five_minutes_finds_the_hold_dropped_and_no_late_release_is_obeyed() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=12), epoch=4, release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        stage.world.faults.cut(AGENT, HUB)
        await stage.world.advance(240)
        assert "dropped" not in hold(stage)
        await stage.world.advance(120)
        assert hold(stage)["n"] == 4
        assert hold(stage)["dropped"].startswith("the hub was away for ")
        await stage.world.client(EAST).create(kinds.JOB, job("local", replicas=6, command="sleep 5000"), namespace="default")
        await stage.until(lambda: len(stage.running("local")) == 6, timeout=60)
        await release(stage, work)
        stage.world.faults.heal(AGENT, HUB)
        await stage.until(lambda: prepared(stage, work) == "False HoldDropped", timeout=120)
        await stage.world.advance(120)
        assert stage.pods("part") == []

    play(story)


def test_a_hub_that_answers_keeps_the_hold_for_as_long_as_it_likes() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=2), release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        await stage.world.advance(1500)
        assert "dropped" not in hold(stage)
        await release(stage, work)
        await stage.until(lambda: len(stage.running("part")) == 2, timeout=60)

    play(story)


def test_an_agent_that_starts_anew_knows_what_it_holds() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("part", replicas=12), release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        before = hold(stage)
        stage.world.kill(AGENT)
        await stage.world.client(EAST).create(kinds.JOB, job("local", replicas=6), namespace="default")
        await stage.world.advance(90)
        assert stage.running("local") == []
        assert hold(stage) == before
        await release(stage, work)
        await stage.until(lambda: len(stage.running("part")) == 12, timeout=60)

    play(story)


# --- kills -----------------------------------------------------------------------------------------------------------


def live(*, kill: tuple[int, Moment] | None = None) -> list[Write]:
    """A part prepares, is released, runs and ends; the agent's writes."""
    log: list[Write] = []

    async def story(stage: Stage) -> None:
        if kill is not None:
            stage.world.faults.at(AGENT, kill[0], kill[1], Kill())
        work = await stage.grant(job("part", replicas=3, command="sleep 3"), release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=200)
        assert stage.pods() == []
        await release(stage, work)
        await stage.until(lambda: stage.reported(work) == "Completed", timeout=200)
        await stage.world.advance(10)
        log.extend(write for write in stage.world.faults.log if write.actor == AGENT)
        assert len(stage.world.faults.fired) == (kill is not None)
        assert sorted(stage.starts()) == ["part-work-0", "part-work-1", "part-work-2"]

    play(story, seed=3, member=Member(nodes=uniform("node", 2, cpu="2")))
    return log


@pytest.fixture(scope="module")
def clean() -> list[Write]:
    """A life without accidents: the writes about the Job, its group and its pods."""
    about = (kinds.JOB.name, kinds.POD_GROUP.name, kinds.WORK.name, "pods")
    return [write for write in live() if write.kind.split("/")[0] in about]


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_of_a_part_that_prepares_changes_no_end(clean: list[Write], moment: Moment) -> None:
    assert [write.verb for write in clean if write.kind == kinds.POD_GROUP.name].count("patch") >= 2
    for write in clean:
        live(kill=(write.number, moment))


def given_up(
    *, action: Action | None = None, moment: Moment = Moment.BEFORE, number: int = 0, late: float = 0.0
) -> list[Write]:
    """The hub is away until a hold is given up, comes back and releases it; with an accident at one write. `late`: seconds
    after which it is back already and releases, when the write about giving up may still be on its way."""
    log: list[Write] = []

    async def story(stage: Stage) -> None:
        if action is not None:
            stage.world.faults.at(AGENT, number, moment, action)
        work = await stage.grant(job("part", replicas=3, command="sleep 5000"), epoch=4, release=False)
        await stage.until(lambda: prepared(stage, work) == "True Prepared", timeout=60)
        stage.world.faults.cut(AGENT, HUB)
        await stage.world.advance(late or 700)
        await release(stage, work)
        stage.world.faults.heal(AGENT, HUB)
        await stage.world.advance(180)
        assert len(stage.world.faults.fired) == (action is not None)
        dropped = "dropped" in hold(stage)
        assert prepared(stage, work) == ("False HoldDropped" if dropped else "True Prepared")
        assert len(stage.running("part")) == (0 if dropped else 3), "given up or released, never both and never neither"
        assert dropped or late
        log.extend(write for write in stage.world.faults.log if write.actor == AGENT and write.kind == kinds.POD_GROUP.name)

    play(story, seed=7, member=Member(nodes=uniform("node", 2, cpu="2")))
    return log


@pytest.fixture(scope="module")
def giving_up() -> Write:
    """The write by which a hold is given up, in a life without accidents."""
    (write,) = [write for write in given_up() if write.time > 200]
    return write


@pytest.mark.parametrize("moment", list(Moment))
def test_an_agent_killed_while_it_gives_a_hold_up_obeys_no_later_release(giving_up: Write, moment: Moment) -> None:
    given_up(action=Kill(), moment=moment, number=giving_up.number)


@pytest.mark.parametrize("moment", list(Moment))
def test_a_release_that_meets_the_giving_up_wins_or_loses_whole(giving_up: Write, moment: Moment) -> None:
    given_up(action=Delay(40.0), moment=moment, number=giving_up.number, late=giving_up.time)
