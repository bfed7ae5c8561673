"""Orders that the hub writes on a Work reach the member's Job, are carried out once, and are acknowledged (protocol.md 2)."""

from __future__ import annotations

from apis import keys
from tests.member_agent.upstream.test_stories import acknowledged
from tests.member_agent.world import Stage, job, play


def test_an_order_on_the_work_restarts_the_job_once_and_is_acknowledged() -> None:
    async def story(stage: Stage) -> None:
        work = await stage.grant(job("train", command="sleep 1000"))
        await stage.until(lambda: stage.reported(work) == "Running")
        order = {"metadata": {"annotations": {keys.COMMAND: '{"id": "7", "action": "RestartJob"}'}}}
        await stage.patch_work(work, order)
        await stage.until(lambda: acknowledged(stage, work) == ["7"], timeout=200)
        await stage.until(lambda: len(stage.running("train")) == 2)
        stage.world.kill("agent-east")
        await stage.world.advance(120)
        assert len(stage.starts()) == 4

    play(story)
