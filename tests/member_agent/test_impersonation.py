"""What the hub asks for is written in the name of an account of the namespace, with the rights that this cluster gave it."""

from __future__ import annotations

from apis import kinds
from machinery import errors
from simulator.server import ApiServer
from tests.member_agent.test_plain_works import CONFIG, bring, says, there
from tests.member_agent.world import EAST, Doc, Stage, job, play, typed

ACCOUNT = {"works": {"impersonate": "federation-works", "plain_again": 5.0}}
"""Settings of an agent that impersonates."""
TEAM = "system:serviceaccount:team:federation-works"


def only_for(server: ApiServer, user: str, *forbidden: kinds.Kind) -> set[str]:
    """Let nobody but `user` make objects of these kinds, as RBAC would; answers who tried."""
    tried: set[str] = set()

    def check(doc: Doc, old: Doc | None) -> list[object]:
        if server.user.name not in ("kubectl", "kubelet"):
            tried.add(server.user.name)
            if server.user.name != user:
                raise errors.Forbidden(f'User "{server.user.name}" cannot create it', code=403, reason="Forbidden")
        return []

    for kind in forbidden:
        server.validators.setdefault(kind, []).append(check)  # type: ignore[arg-type]
    return tried


def test_an_object_is_written_as_the_account_of_its_namespace() -> None:
    async def story(stage: Stage) -> None:
        tried = only_for(stage.world.servers[EAST], TEAM, kinds.CONFIGMAP)
        work = await bring(stage, CONFIG)
        await stage.until(lambda: says(stage, work) == ("True", "AppliedSuccessful"))
        assert tried == {TEAM}
        await stage.withdraw(work)
        await stage.until(lambda: there(stage, kinds.CONFIGMAP, "settings") is None)

    play(story, settings=ACCOUNT)


def test_a_namespace_that_gave_the_account_nothing_takes_nothing_and_says_denied() -> None:
    async def story(stage: Stage) -> None:
        only_for(stage.world.servers[EAST], TEAM, kinds.CONFIGMAP)
        other = typed(kinds.CONFIGMAP, {"metadata": {"name": "settings", "namespace": "closed"}, "data": {"a": "1"}})
        work = await bring(stage, other)
        await stage.until(lambda: says(stage, work) == ("False", "Denied"))
        text = str(stage.condition(work, "Applied").get("message"))
        assert "system:serviceaccount:closed:federation-works" in text
        assert there(stage, kinds.CONFIGMAP, "settings", namespace="closed") is None

    play(story, settings=ACCOUNT)


def test_a_job_is_made_as_the_account_too_and_refused_where_that_may_not() -> None:
    async def story(stage: Stage) -> None:
        tried = only_for(stage.world.servers[EAST], "nobody", kinds.JOB)
        work = await stage.grant(job("train"))
        await stage.until(lambda: stage.refusal(work) == "Denied")
        assert tried == {f"system:serviceaccount:{job('train')['metadata']['namespace']}:federation-works"}

    play(story, settings=ACCOUNT)
