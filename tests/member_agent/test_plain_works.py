"""Works that bring what Jobs refer to: applied, kept, refused, removed; the runs beside them notice nothing."""

from __future__ import annotations

import orjson
import pytest

from apis import keys, kinds, naming
from machinery import errors
from member_agent import carried
from member_agent.views import WorkView, project_work
from member_agent.works import plain
from member_agent.works.plain import Apply, Keep
from member_agent.works.planner import Refuse
from tests.member_agent.world import EAST, HOME, Doc, Stage, job, play, typed

CONFIG = typed(kinds.CONFIGMAP, {"metadata": {"name": "settings", "namespace": "team"}, "data": {"a": "1", "b": "2"}})
SECRET = typed(kinds.SECRET, {"metadata": {"name": "key", "namespace": "team"}, "data": {"token": "aHVudGVyMg=="}})


async def bring(stage: Stage, manifest: Doc, *, preserve: bool = False) -> str:
    """The hub sends an object; the name of its Work."""
    meta, kind = manifest["metadata"], carried.CARRIED.get((manifest["apiVersion"], manifest["kind"]), kinds.POD)
    name = naming.work_name(meta["name"], namespace=meta.get("namespace", ""), kind=kind)
    body = {
        "metadata": {"name": name, "namespace": HOME, "finalizers": [keys.WORK_FINALIZER]},
        "spec": {"workload": {"manifests": [manifest]}, "preserveResourcesOnDeletion": preserve},
    }
    await stage.world.client().create(kinds.WORK, typed(kinds.WORK, body), namespace=HOME)
    return name


def there(stage: Stage, kind: kinds.Kind, name: str, *, namespace: str = "team") -> Doc | None:
    return stage.world.get(kind, name, namespace=namespace, server=EAST)


def says(stage: Stage, work: str) -> tuple[str, str]:
    found = stage.condition(work, "Applied")
    return (str(found.get("status", "")), str(found.get("reason", "")))


def test_an_object_comes_with_its_namespace_follows_its_work_and_goes_with_it() -> None:
    async def story(stage: Stage) -> None:
        work = await bring(stage, CONFIG)
        await stage.until(lambda: says(stage, work) == ("True", "AppliedSuccessful"))
        found = there(stage, kinds.CONFIGMAP, "settings")
        assert found is not None and found["data"] == {"a": "1", "b": "2"}
        assert found["metadata"]["annotations"][keys.WORK_NAME] == work
        changed = {**CONFIG, "data": {"a": "3"}}
        await stage.patch_work(work, {"spec": {"workload": {"manifests": [changed]}}})
        await stage.until(lambda: (there(stage, kinds.CONFIGMAP, "settings") or {}).get("data") == {"a": "3"})
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)
        assert there(stage, kinds.CONFIGMAP, "settings") is None
        assert stage.world.get(kinds.NAMESPACE, "team", server=EAST) is not None

    play(story)


def test_what_is_to_be_preserved_stays_as_the_members_own() -> None:
    async def story(stage: Stage) -> None:
        work = await bring(stage, typed(kinds.NAMESPACE, {"metadata": {"name": "team"}}), preserve=True)
        await stage.until(lambda: says(stage, work)[0] == "True")
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)
        found = stage.world.get(kinds.NAMESPACE, "team", server=EAST)
        assert found is not None and keys.WORK_NAME not in (found["metadata"].get("annotations") or {})

    play(story)


def test_an_object_of_somebody_else_is_left_alone_until_the_work_says_overwrite() -> None:
    async def story(stage: Stage) -> None:
        own = {**CONFIG, "data": {"a": "mine"}}
        await stage.world.apply(typed(kinds.NAMESPACE, {"metadata": {"name": "team"}}), server=EAST)
        await stage.world.apply(own, namespace="team", server=EAST)
        work = await bring(stage, CONFIG)
        await stage.until(lambda: says(stage, work) == ("False", "NameTaken"))
        assert (there(stage, kinds.CONFIGMAP, "settings") or {})["data"] == {"a": "mine"}
        asked = {**CONFIG["metadata"], "annotations": {"work.karmada.io/conflict-resolution": "overwrite"}}
        await stage.patch_work(work, {"spec": {"workload": {"manifests": [{**CONFIG, "metadata": asked}]}}})
        await stage.until(lambda: says(stage, work)[0] == "True")
        assert (there(stage, kinds.CONFIGMAP, "settings") or {})["data"] == {"a": "1", "b": "2"}

    play(story)


def test_a_refused_work_takes_nothing_with_it_when_it_goes() -> None:
    async def story(stage: Stage) -> None:
        await stage.world.apply(typed(kinds.NAMESPACE, {"metadata": {"name": "team"}}), server=EAST)
        await stage.world.apply({**CONFIG, "data": {"a": "mine"}}, namespace="team", server=EAST)
        work = await bring(stage, CONFIG)
        await stage.until(lambda: says(stage, work)[0] == "False")
        await stage.withdraw(work)
        await stage.until(lambda: stage.work(work) is None)
        assert (there(stage, kinds.CONFIGMAP, "settings") or {})["data"] == {"a": "mine"}

    play(story)


def test_what_somebody_deleted_here_is_there_again_after_a_while() -> None:
    async def story(stage: Stage) -> None:
        work = await bring(stage, CONFIG)
        await stage.until(lambda: says(stage, work)[0] == "True")
        await stage.world.client(EAST).delete(kinds.CONFIGMAP, "settings", namespace="team")
        await stage.until(lambda: there(stage, kinds.CONFIGMAP, "settings") is not None, timeout=400)

    play(story)


def test_a_killed_agent_goes_on_and_runs_beside_notice_nothing() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.grant(job("train"))
        works = [await bring(stage, each) for each in (CONFIG, SECRET)]
        await stage.world.advance(0.02)
        stage.world.kill("agent-east")
        await stage.until(lambda: all(says(stage, each)[0] == "True" for each in works))
        await stage.until(lambda: stage.reported(run) == "Completed")
        stage.world.kill("agent-east")
        for each in works:
            await stage.withdraw(each)
        await stage.until(lambda: all(stage.work(each) is None for each in works))
        assert there(stage, kinds.SECRET, "key") is None and there(stage, kinds.CONFIGMAP, "settings") is None

    play(story)


def test_a_job_waits_for_the_queue_and_class_that_are_on_their_way() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.grant(job("train", queue="research", priorityClassName="urgent"))
        await stage.world.advance(4)
        waiting = stage.condition(run, "Waiting")
        assert waiting["reason"] == "CompanionMissing" and stage.local("train") is None
        assert "Queue research, PriorityClass urgent" in waiting["message"]
        await bring(stage, typed(kinds.QUEUE, {"metadata": {"name": "research"}, "spec": {"weight": 1}}))
        await bring(stage, typed(kinds.PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000}))
        await stage.until(lambda: stage.local("train") is not None, timeout=3, what="it starts as soon as both are there")
        await stage.until(lambda: stage.reported(run) == "Completed")
        assert stage.condition(run, "Waiting") == {}

    play(story)


def test_nobody_waits_for_ever_for_a_queue_that_never_comes() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.grant(job("train", queue="nowhere"))
        await stage.until(lambda: stage.condition(run, "Applied") != {}, timeout=30, what="it gets an answer")

    play(story)


# --- the decision ----------------------------------------------------------------------------------------------------


def view(manifest: Doc) -> WorkView:
    meta = {"name": "w", "namespace": HOME, "uid": "u", "resourceVersion": "1"}
    return project_work(orjson.dumps({"metadata": meta, "spec": {"workload": {"manifests": [manifest]}}}))


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        (kinds.CONFIGMAP, "x", "kube-system"),
        (kinds.SECRET, "x", keys.SYSTEM_NAMESPACE),
        (kinds.NAMESPACE, "kube-more", ""),
        (kinds.PRIORITY_CLASS, "system-mine", ""),
        (kinds.QUEUE, "default", ""),
    ],
    ids=lambda each: each.kind if isinstance(each, kinds.Kind) else str(each),
)
def test_what_is_the_clusters_own_is_denied(kind: kinds.Kind, name: str, namespace: str) -> None:
    refusal = plain.unfit(view(typed(kind, {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}})))
    assert refusal is not None and refusal.reason == "Denied"


def test_rights_webhooks_and_definitions_of_kinds_are_refused() -> None:
    async def story(stage: Stage) -> None:
        works = [
            await bring(stage, typed(kind, {"metadata": {"name": f"{kind.plural}.example.com"}}))
            for kind in (kinds.CRD, kinds.VALIDATING_WEBHOOKS, kinds.ADMISSION_POLICY)
        ]
        await stage.until(lambda: all(stage.refusal(each) == "Invalid" for each in works))

    play(story)


def test_an_equal_object_of_somebody_else_is_good_enough() -> None:
    present = {**CONFIG, "data": {**CONFIG["data"], "more": "x"}}
    assert plain.answer(view(CONFIG), manifest=CONFIG, present=present) == Keep(plain.IN_PLACE)
    answer = plain.answer(view(CONFIG), manifest=CONFIG, present={**CONFIG, "data": {"a": "1"}})
    assert isinstance(answer, Refuse)


def test_what_was_applied_is_not_applied_again_unless_it_differs() -> None:
    work = view(CONFIG)
    present = plain.body(work, CONFIG)
    assert plain.answer(work, manifest=CONFIG, present=present) == Keep(plain.APPLIED)
    assert plain.answer(work, manifest=CONFIG, present={**present, "data": {}}) == Apply(take=True)
    assert plain.answer(work, manifest=CONFIG, present=None) == Apply(take=False)


def test_what_an_api_server_says_of_a_secret_is_not_repeated() -> None:
    error = errors.Invalid("data[token]: Invalid value: hunter2", request="patch")
    assert "hunter2" not in plain.refusal(error, kind=kinds.SECRET).message
    assert "hunter2" in plain.refusal(error, kind=kinds.CONFIGMAP).message
