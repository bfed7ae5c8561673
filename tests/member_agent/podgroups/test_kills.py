"""The agent is killed before and after every write about groups of pods that come without one; the end is the same."""

from __future__ import annotations

import pytest

from apis import kinds
from simulator.faults import Kill, Moment, Write
from tests.member_agent.podgroups.test_stories import MIN_MEMBER, Cluster, pod
from tests.member_agent.world import EAST, Stage, play

AGENT = f"agent-{EAST}"


def live(*, kill: tuple[int, Moment] | None = None) -> list[Write]:
    """A bare pod, a gang of two under a ReplicaSet that is updated and then scaled to nothing; the agent's writes."""
    log: list[Write] = []

    async def story(stage: Stage) -> None:
        if kill is not None:
            stage.world.faults.at(AGENT, kill[0], kill[1], Kill())
        east = Cluster(stage)
        one = await east.create(kinds.POD, pod("one"))
        web = await east.owned(kinds.REPLICA_SET, "web", replicas=2, annotations={MIN_MEMBER: "2"})
        await east.running("one", "web-0", "web-1")
        names = [f"podgroup-{each['metadata']['uid']}" for each in (one, web)]
        assert sorted(group["metadata"]["name"] for group in east.groups()) == sorted(names)
        await east.patch(kinds.REPLICA_SET, "web", {"metadata": {"annotations": {MIN_MEMBER: "1"}}})
        await stage.until(lambda: east.group(web["metadata"]["uid"])["spec"]["minMember"] == 1)
        await east.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 0}})
        for name in ("web-0", "web-1"):
            await east.delete(kinds.POD, name)
        await stage.until(lambda: [group["metadata"]["name"] for group in east.groups()] == names[:1])
        await stage.world.advance(45)
        assert [group["metadata"]["name"] for group in east.groups()] == names[:1]
        assert sorted(stage.starts()) == ["one", "web-0", "web-1"]
        assert len(stage.world.faults.fired) == (kill is not None)
        log.extend(write for write in stage.world.faults.log if write.actor == AGENT)

    play(story, seed=5)
    return log


@pytest.fixture(scope="module")
def clean() -> list[Write]:
    """A life without accidents: which writes there are about groups."""
    return [write for write in live() if write.server == EAST and write.kind in ("pods", kinds.POD_GROUP.name)]


@pytest.mark.parametrize("moment", list(Moment))
def test_a_kill_at_any_write_about_groups_changes_no_end(clean: list[Write], moment: Moment) -> None:
    groups = [write.verb for write in clean if write.kind == kinds.POD_GROUP.name]
    assert groups.count("create") == 2
    assert groups.count("delete") == 1
    for write in clean:
        live(kill=(write.number, moment))
