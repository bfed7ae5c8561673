"""What a Job refers to goes where it goes, and goes when nobody needs it any more."""

from __future__ import annotations

from typing import Any

from apis import keys, kinds
from simulator.world import Doc, World
from tests.support.stage import play
from tests.support.stories import binding_run, job, phase, policy, queue


def typed(kind: kinds.Kind, name: str, *, namespace: str = "", **body: Any) -> Doc:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}


def there(world: World, kind: kinds.Kind, name: str, *, member: str, namespace: str = "default") -> Doc | None:
    return world.get(kind, name, namespace=namespace if kind.namespaced else None, server=member)


def ended(world: World, name: str, *, namespace: str) -> bool:
    doc = world.get(kinds.JOB, name, namespace=namespace) or {}
    return bool(((doc.get("status") or {}).get("state") or {}).get("phase") == "Completed")


def uses(name: str, *, secret: str = "", config: str = "", **spec: Any) -> Doc:
    """A Job whose container gets a Secret or ConfigMap as environment."""
    made = job(name, **spec)
    container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    sources = [{"secretRef": {"name": secret}}] if secret else []
    container["envFrom"] = sources + ([{"configMapRef": {"name": config}}] if config else [])
    return made


def carrying(name: str, *, jobs: list[str], clusters: list[str], namespace: str = "default") -> Doc:
    made = policy(name, jobs=jobs, clusters=clusters)
    made["metadata"]["namespace"] = namespace
    made["spec"]["propagateDeps"] = True
    return made


def test_a_job_finds_its_namespace_queue_class_and_settings_in_a_member_that_had_none_of_them() -> None:
    async def story(world: World) -> None:
        for each in (
            typed(kinds.NAMESPACE, "team"),
            typed(kinds.PRIORITY_CLASS, "urgent", value=1000),
            queue("department", weight=1),
            queue("research", weight=1, parent="department", capability={"cpu": "100"}, guarantee={"resource": {"cpu": "50"}}),
        ):
            await world.apply(each)
        await world.apply(typed(kinds.CONFIGMAP, "settings", namespace="team", data={"a": "1"}), namespace="team")
        await world.apply(carrying("deps", jobs=["train"], clusters=["west"], namespace="team"), namespace="team")
        made = uses("train", config="settings", namespace="team", queue="research", priorityClassName="urgent", runs_for=20)
        await world.apply(made, namespace="team")
        await world.until(lambda: ended(world, "train", namespace="team"), timeout=60, what="the Job runs in west")
        config = there(world, kinds.CONFIGMAP, "settings", member="west", namespace="team")
        assert config is not None and config["data"] == {"a": "1"}
        research = there(world, kinds.QUEUE, "research", member="west")
        assert research is not None and research["spec"]["parent"] == "department"
        assert "guarantee" not in research["spec"], "guarantees are of the federation, not of each member"
        assert there(world, kinds.PRIORITY_CLASS, "urgent", member="west") is not None
        assert there(world, kinds.QUEUE, "research", member="east") is None
        await world.until(
            lambda: there(world, kinds.CONFIGMAP, "settings", member="west", namespace="team") is None, timeout=120
        )
        await world.until(lambda: there(world, kinds.QUEUE, "department", member="west") is None, timeout=120)
        assert there(world, kinds.NAMESPACE, "team", member="west") is not None

    play(story, pods={"team/train": 1})


def test_a_secret_of_two_jobs_goes_with_the_second_also_when_the_hub_is_killed_in_between() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.SECRET, "key", namespace="default", data={"token": "aHVudGVyMg=="}))
        await world.apply(carrying("deps", jobs=["first", "second"], clusters=["west"]))
        await world.apply(uses("first", secret="key", runs_for=10))
        await world.apply(uses("second", secret="key", runs_for=200))
        await world.until(lambda: there(world, kinds.SECRET, "key", member="west") is not None, timeout=30)
        home = keys.execution_namespace("west")
        works = [
            each for each in world.all(kinds.WORK, namespace=home) if keys.COMPANION in (each["metadata"].get("labels") or {})
        ]
        assert len(works) == 1, "one Work per object and cluster"
        await world.until(lambda: phase(world, "first") == "Completed", timeout=60)
        world.kill("hub")
        await world.advance(100)
        assert there(world, kinds.SECRET, "key", member="west") is not None, "the second still needs it"
        changed = typed(kinds.SECRET, "key", namespace="default", data={"token": "bmV3"})
        await world.apply(changed)
        await world.until(
            lambda: (there(world, kinds.SECRET, "key", member="west") or {}).get("data") == {"token": "bmV3"}, timeout=30
        )
        await world.until(lambda: phase(world, "second") == "Completed", timeout=200)
        world.kill("hub")
        await world.until(lambda: there(world, kinds.SECRET, "key", member="west") is None, timeout=200)
        said = [each.get("message", "") for each in world.all(kinds.EVENT)]
        assert not any("aHVudGVyMg" in each or "hunter2" in each for each in said)

    play(story, pods={"default/first": 1, "default/second": 1})


def test_what_a_member_has_of_its_own_is_told_and_left_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(typed(kinds.CONFIGMAP, "settings", namespace="default", data={"a": "hub"}))
        await world.apply(typed(kinds.CONFIGMAP, "settings", namespace="default", data={"a": "west"}), server="west")
        await world.apply(carrying("deps", jobs=["train"], clusters=["west"]))
        await world.apply(uses("train", config="settings", runs_for=30))
        await world.until(
            lambda: any(each.get("reason") == "NameTaken" for each in world.all(kinds.EVENT)), timeout=60, what="it is told"
        )
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        assert (there(world, kinds.CONFIGMAP, "settings", member="west") or {})["data"] == {"a": "west"}

    play(story, pods={"default/train": 1})


def test_the_webhooks_of_members_let_all_of_it_in_and_out() -> None:
    """A member's webhook refuses Jobs of queues it has not got, and the end of a Queue with others under it."""

    async def story(world: World) -> None:
        await world.apply(queue("department", weight=1))
        await world.apply(queue("research", weight=1, parent="department"))
        await world.apply(job("train", queue="research", runs_for=20))
        await world.until(lambda: phase(world, "train") == "Completed", timeout=60)
        run = binding_run(world, "train")
        assert run is not None and (run.epoch, run.refusals) == (1, 0)
        (member,) = run.parts
        await world.until(
            lambda: all(there(world, kinds.QUEUE, name, member=member) is None for name in ("research", "department")),
            timeout=200,
            what="both queues leave, the lower one first",
        )

    play(story, pods={"default/train": 1}, admission=True)
