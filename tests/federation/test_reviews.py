"""PlacementReviews at a hub: what is asked, what is answered, and that the answer is true."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from apis import kinds
from controllers.admission.webhooks import HUB_KINDS
from machinery.errors import Invalid, ServerFailed
from machinery.port import PatchType
from simulator.api import MemoryPort
from simulator.webhooks import Webhooks
from tests.federation.world import Tree, World, job, story

GROUPS = ("system:authenticated", "data")


def named(kind: kinds.Kind, name: str, **more: Any) -> Tree:
    """An object as people write it."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **more}


class Asker:
    """Somebody who asks, at a hub whose webhooks stamp reviews."""

    def __init__(self, world: World, name: str = "ann", *, namespace: str = "default") -> None:
        world.server.webhooks = world.server.webhooks or Webhooks.before(world.server, plurals=HUB_KINDS)
        self.world = world
        self.namespace = namespace
        self.port = MemoryPort(world.server, agent=name, groups=GROUPS)

    async def ask(self, name: str = "review", **spec: Any) -> Tree:
        """Make a review and wait for the answer."""
        body = named(kinds.PLACEMENT_REVIEW, name, spec=spec)
        await self.port.create(kinds.PLACEMENT_REVIEW, body, namespace=self.namespace)
        return await self.answer(name)

    async def answer(self, name: str = "review") -> Tree:
        found: Tree = {}

        async def answered() -> bool:
            document = await self.port.get(kinds.PLACEMENT_REVIEW, name, namespace=self.namespace)
            found.update(json.loads(document).get("status") or {})
            return "answeredAt" in found

        await self.world.until(answered, within=30)
        return found


def denying(world: World, *wanted: tuple[str, str]) -> None:
    """Everything is allowed but these: verb and resource."""

    def access(review: Tree) -> bool:
        asked = review["resourceAttributes"]
        return (asked["verb"], asked["resource"]) not in wanted

    world.server.access = access


def told(
    tell: Callable[[World, Asker], Any], *, cpus: Iterable[tuple[str, int]] = (("east", 4), ("west", 2)), **hub: Any
) -> None:
    """A story with a hub and members of one node each."""

    async def full(world: World) -> None:
        for name, size in cpus:
            world.member(name, cpus=size, seconds=100_000.0)
        world.hub(**hub)
        asker = Asker(world)

        async def capacity() -> bool:
            listed = (await world.port.list(kinds.CLUSTER_CAPACITY)).items
            ready = [json.loads(each) for each in (await world.port.list(kinds.CLUSTER)).items]
            conditions = [each for tree in ready for each in (tree.get("status") or {}).get("conditions") or []]
            up = [each for each in conditions if each["type"] == "Ready" and each["status"] == "True"]
            return len(up) == len(tuple(cpus)) and all(json.loads(each).get("status") for each in listed)

        await world.until(capacity)
        await world.clock.sleep(1.0)
        await tell(world, asker)

    story(full)


def offer(name: str, price: float) -> Tree:
    classes = [{"name": "all", "prices": {"cpu": str(price), "memory": "0"}}]
    return named(kinds.CLUSTER_OFFER, name, spec={"currency": "EUR", "classes": classes})


# --- what it says ----------------------------------------------------------------------------------------------------
def test_a_manifest_is_told_where_it_would_run_for_how_much_and_until_when_and_nothing_is_made() -> None:
    async def tell(world: World, ann: Asker) -> None:
        for name, price in (("east", 2.0), ("west", 1.0)):
            await world.port.create(kinds.CLUSTER_OFFER, offer(name, price))
        await world.clock.sleep(1.0)
        notes = {"volcano-federation.io/estimated-duration": "30m", "volcano-federation.io/profile": "cost-first"}
        status = await ann.ask(manifest=job("train", pods=2, annotations=notes))
        assert (status["outcome"], status["reason"], status["profile"]) == ("Starts", "Placed", "cost-first")
        assert [(each["cluster"], each["replicas"]) for each in status["placements"]] == [("west", 2)]
        assert (status["cost"], status["currency"], status["runSeconds"]) == ("1.00", "EUR", 1800)
        assert status["runTimeFrom"] == "estimated-duration"
        assert {each["name"]: each["scores"]["cost"] for each in status["clusters"]} == {"east": 50, "west": 100}
        assert status["expectedFinish"] > status["expectedStart"]
        for kind in (kinds.JOB, kinds.WORK, kinds.RESOURCE_BINDING):
            assert (await world.port.list(kind)).items == []

    told(tell)


def test_a_waiting_job_is_told_the_cheapest_change_and_the_change_made_it_starts() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.submit(job("train", pods=6))
        await world.until_phase("train", "Pending")
        status = await ann.ask(job="train")
        assert (status["outcome"], status["reason"]) == ("Waits", "NoClusterFits")
        assert {each["name"]: each["code"] for each in status["clusters"]} == {"east": "NoRoom", "west": "NoRoom"}
        best = status["cheapest"]
        assert [(each["change"], each["count"], each["how"]) for each in best["changes"]] == [("MinAvailable", 4, "Edit")]
        cheaper = [each for each in status["tried"] if each["points"] < best["points"]]
        assert cheaper
        assert not any(each["starts"] for each in cheaper)
        assert ("MinAvailable", 5) in [(each["changes"][0]["change"], each["changes"][0].get("count")) for each in cheaper]
        tasks = (await world.job("train"))["spec"]["tasks"]
        patch = {"spec": {"minAvailable": 4, "tasks": [{**tasks[0], "minAvailable": 4}]}}
        await world.port.patch(kinds.JOB, "train", patch, type=PatchType.MERGE, namespace="default")
        await world.until_phase("train", "Running")

    told(tell)


def test_cheaper_changes_that_were_tried_do_not_start_it() -> None:
    """The dearest of them that is no good, made for real: the Job still waits."""

    async def tell(world: World, ann: Asker) -> None:
        await world.submit(job("train", pods=6))
        await world.until_phase("train", "Pending")
        tried = (await ann.ask(job="train"))["tried"]
        assert [each["starts"] for each in tried if each["changes"][0].get("count") == 5] == [False]
        tasks = (await world.job("train"))["spec"]["tasks"]
        patch = {"spec": {"minAvailable": 5, "tasks": [{**tasks[0], "minAvailable": 5}]}}
        await world.port.patch(kinds.JOB, "train", patch, type=PatchType.MERGE, namespace="default")
        await world.clock.sleep(30)
        assert (await world.state("train"))["phase"] == "Pending"

    told(tell)


def test_a_job_whose_policy_is_too_narrow_starts_when_the_policy_is_widened_as_told() -> None:
    async def tell(world: World, ann: Asker) -> None:
        selector = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "train"}
        placement = {"clusterAffinity": {"clusterNames": ["west"]}}
        spec = {"resourceSelectors": [selector], "placement": placement}
        policy = named(kinds.PROPAGATION_POLICY, "west-only", spec=spec)
        await world.port.create(kinds.PROPAGATION_POLICY, policy, namespace="default")
        await world.submit(job("train", pods=1, cpu=4))
        await world.until_phase("train", "Pending")
        status = await ann.ask(job="train")
        assert [(each["change"], each["how"]) for each in status["cheapest"]["changes"]] == [("AnyCluster", "Policy")]
        assert status["policy"] == "PropagationPolicy default/west-only"
        wide = {"spec": {"placement": {"clusterAffinity": None}}}
        await world.port.patch(kinds.PROPAGATION_POLICY, "west-only", wide, type=PatchType.MERGE, namespace="default")
        await world.until_phase("train", "Running")

    told(tell)


def test_a_full_queue_is_left_for_one_that_the_asker_may_use_and_submitted_there_it_starts() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.queue("narrow", weight=1, capability={"cpu": "1"})
        await world.queue("wide", weight=1)
        await world.queue("secret", weight=1)
        await world.submit(job("train", pods=2, queue="narrow"))
        await world.until_phase("train", "Pending")

        def access(review: Tree) -> bool:
            return review["resourceAttributes"].get("name") not in ("default", "secret")

        world.server.access = access
        status = await ann.ask(job="train")
        assert status["reason"] == "QueueFull"
        # Fewer pods would do as well, and cost more; the default queue is everybody's.
        assert [(each["change"], each["to"]) for each in status["cheapest"]["changes"]] == [("Queue", "default")]
        assert "secret" not in json.dumps(status)
        await world.submit(job("again", pods=2, queue="default"))
        await world.until_phase("again", "Running")

    told(tell)


def test_a_suspended_job_is_told_to_be_resumed() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.submit(job("train", annotations={"volcano-federation.io/suspend": "true"}))

        async def held() -> bool:
            return bool((await world.binding("train"))["metadata"]["annotations"])

        await world.until(held)
        status = await ann.ask(job="train")
        assert (status["outcome"], status["reason"]) == ("Held", "Suspended")
        assert [each["change"] for each in status["cheapest"]["changes"]] == ["Resume"]
        await world.annotate("train", suspend=None)
        await world.until_phase("train", "Running")

    told(tell)


def test_the_same_job_is_explained_while_it_waits_while_it_runs_and_when_it_has_ended() -> None:
    async def tell(world: World, ann: Asker) -> None:
        for member in world.members.values():
            member.seconds = 20.0
        await world.submit(job("first", pods=4))
        await world.until_phase("first", "Running")
        await world.submit(job("train", pods=3))
        await world.until_phase("train", "Pending")
        waits = await ann.ask("one", job="train")
        await world.until_phase("train", "Running", within=300)
        runs = await ann.ask("two", job="train")
        await world.until_phase("train", "Completed", within=300)
        ended = await ann.ask("three", job="train")
        assert [each["outcome"] for each in (waits, runs, ended)] == ["Waits", "Runs", "Ended"]
        assert "cheapest" in waits
        assert runs["placements"] == [{"cluster": "east", "replicas": 3}]
        assert "best of" in runs["message"]
        assert {each["name"] for each in runs["clusters"]} == {"east", "west"}
        assert any("cannot be reached" in each for each in runs["notPromised"])
        assert (ended["reason"], "placements" in ended) == ("Completed", False)

    told(tell)


def test_one_that_its_member_does_not_start_is_placed_and_not_running() -> None:
    async def tell(world: World, ann: Asker) -> None:
        for member in world.members.values():
            member.startup = None
        await world.submit(job("train", annotations={"volcano-federation.io/estimated-duration": "2h"}))

        async def granted() -> bool:
            return bool((await world.binding("train"))["spec"].get("clusters"))

        await world.until(granted)
        await world.clock.sleep(5)
        status = await ann.ask("a", job="train")
        assert (status["outcome"], status["placements"]) == ("Placed", [{"cluster": "east", "replicas": 2}])
        assert "have not started it" in status["message"]
        for member in world.members.values():
            member.startup = 0.0
        await world.until_phase("train", "Running")
        status = await ann.ask("b", job="train")
        assert (status["outcome"], status["runSeconds"], "expectedFinish" in status) == ("Runs", 7200, True)

    told(tell)


def test_a_job_that_was_refused_is_explained_by_its_field() -> None:
    async def tell(world: World, ann: Asker) -> None:
        world.server.webhooks = None
        await world.submit(job("train", queue="nowhere"))
        await world.until_phase("train", "Failed")
        world.server.webhooks = Webhooks.before(world.server, plurals=HUB_KINDS)
        status = await ann.ask(job="train")
        assert (status["outcome"], status["reason"], status["field"]) == ("Ended", "QueueNotFound", "spec.queue")

    told(tell)


def test_relaxations_are_made_before_it_is_planned() -> None:
    async def tell(world: World, ann: Asker) -> None:
        manifest = job("train", pods=6)
        status = await ann.ask("a", manifest=manifest, relax=[{"change": "Replicas", "count": 3}])
        assert (status["outcome"], status["placements"][0]["replicas"]) == ("Starts", 3)
        assert status["notes"] == ["planned as if: run 3 replicas"]
        status = await ann.ask("b", manifest=manifest, relax=[{"change": "Replicas", "task": "nobody", "count": 3}])
        assert (status["outcome"], status["field"]) == ("Refused", "spec.relax")
        status = await ann.ask("c", manifest=manifest, suggest=False)
        assert (status["outcome"], "cheapest" in status) == ("Waits", False)

    told(tell)


def test_the_same_question_gets_the_same_answer() -> None:
    async def tell(world: World, ann: Asker) -> None:
        one, other = [await ann.ask(name, manifest=job("train", pods=6)) for name in ("a", "b")]
        moving = {"answeredAt", "conditions", "expectedStart", "expectedFinish"}
        assert {key: one[key] for key in one.keys() - moving} == {key: other[key] for key in other.keys() - moving}

    told(tell)


# --- whose rights ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wanted", "spec", "text"),
    [
        (("create", "jobs"), {"manifest": job("train")}, "ann may not create jobs.batch.volcano.sh in default"),
        (("get", "jobs"), {"job": "train"}, "ann may not get jobs.batch.volcano.sh train in default"),
        (("use", "queues"), {"manifest": job("train", queue="dear")}, "ann may not use queues.scheduling.volcano.sh dear"),
        (
            ("use", "priorityclasses"),
            {"manifest": job("train", priorityClassName="high")},
            "ann may not use priorityclasses.scheduling.k8s.io high",
        ),
        (
            ("use", "queues"),
            {"manifest": job("train"), "relax": [{"change": "Queue", "to": "dear"}]},
            "ann may not use queues.scheduling.volcano.sh dear",
        ),
    ],
)
def test_what_the_creator_may_not_do_is_not_answered(wanted: tuple[str, str], spec: Tree, text: str) -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.queue("dear", weight=1)
        denying(world, wanted)
        status = await ann.ask(**spec)
        assert (status["outcome"], status["reason"]) == ("Refused", "Denied")
        assert status["message"].startswith(text)
        assert status["conditions"][0]["status"] == "False"
        assert "clusters" not in status

    told(tell)


def test_whoever_may_not_list_clusters_learns_no_names_but_that_of_the_chosen_one() -> None:
    async def tell(world: World, ann: Asker) -> None:
        denying(world, ("list", "clusters"))
        fits = await ann.ask("a", manifest=job("train", pods=2))
        assert ([each["cluster"] for each in fits["placements"]], fits["counts"]) == (["east"], {"Fits": 2})
        assert "west" not in json.dumps(fits)
        waits = await ann.ask("b", manifest=job("train", pods=6))
        assert (waits["message"], waits["counts"]) == ("0 of 2 clusters fit: 2 NoRoom", {"NoRoom": 2})
        assert "cheapest" in waits
        assert not {"east", "west"} & set(json.dumps(waits).replace('"', " ").replace(":", " ").split())

    told(tell)


def test_the_namespace_of_another_cannot_be_asked_about() -> None:
    async def tell(world: World, ann: Asker) -> None:
        elsewhere = job("train")
        elsewhere["metadata"]["namespace"] = "other"
        status = await ann.ask(manifest=elsewhere)
        assert (status["outcome"], status["field"]) == ("Refused", "spec.manifest.metadata.namespace")

    told(tell)


def test_nobody_asks_in_anothers_name() -> None:
    """The API server refuses it by the policy of the hub, also where no webhook answers; unstamped ones are not answered."""

    async def tell(world: World, ann: Asker) -> None:
        world.server.webhooks = None
        for creator in ({"username": "root"}, {"username": "ann", "groups": ["system:masters"]}):
            with pytest.raises(Invalid, match="nobody else"):
                await ann.ask(manifest=job("train"), creator=creator)
        status = await ann.ask("own", manifest=job("train"), creator={"username": "ann", "groups": [*GROUPS]})
        assert status["outcome"] == "Starts"
        status = await ann.ask("none", manifest=job("train"))
        assert (status["outcome"], status["reason"]) == ("Refused", "Unstamped")
        with pytest.raises(Invalid, match="asked once"):
            await ann.port.patch(
                kinds.PLACEMENT_REVIEW,
                "own",
                {"spec": {"suggest": False}},
                type=PatchType.MERGE,
                namespace="default",
            )

    told(tell)


def test_where_the_api_server_does_not_hold_the_name_nothing_is_answered() -> None:
    """A hub that leaves cluster-wide objects to its chart, and whose chart has not brought the policy."""

    async def tell(world: World, ann: Asker) -> None:
        assert (await ann.ask(manifest=job("train")))["reason"] == "Unguarded"

    told(tell, cluster_objects=False)


def test_the_rights_asked_about_are_those_of_the_stamp() -> None:
    async def tell(world: World, ann: Asker) -> None:
        asked: list[Tree] = []

        def access(review: Tree) -> bool:
            asked.append(review)
            return True

        world.server.access = access
        await ann.ask(manifest=job("train"), creator={"username": "root", "groups": ["system:masters"]})
        assert {(each["user"], tuple(each["groups"])) for each in asked} == {("ann", GROUPS)}

    told(tell)


# --- bad input -------------------------------------------------------------------------------------------------------
BROKEN: dict[str, tuple[Any, str]] = {
    "a list": ([1], ""),
    "nothing": ({}, "KindUnknown"),
    "a Deployment": ({"apiVersion": "apps/v1", "kind": "Deployment"}, "KindUnknown"),
    "without a spec": ({"apiVersion": kinds.JOB.api_version, "kind": "Job"}, "InvalidSpec"),
    "a spec that is a text": ({"apiVersion": kinds.JOB.api_version, "kind": "Job", "spec": "x"}, "InvalidSpec"),
    "tasks that are no list": ({"apiVersion": kinds.JOB.api_version, "kind": "Job", "spec": {"tasks": 7}}, "InvalidSpec"),
    "absurd requests": (job("train", cpu="lots"), "InvalidSpec"),
    "a minimum above all": (job("train", minAvailable=99), "InvalidSpec"),
    "metadata that is a list": ({"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": []}, "InvalidSpec"),
    "labels that are numbers": (
        {**job("train"), "metadata": {"name": "train", "labels": {"a": 1}}},
        "InvalidSpec",
    ),
    "a cron without a Job": ({"apiVersion": kinds.CRON_JOB.api_version, "kind": "CronJob", "spec": {}}, "Invalid"),
    "a flow without steps": ({"apiVersion": kinds.JOB_FLOW.api_version, "kind": "JobFlow", "spec": {}}, "Invalid"),
    "too much": ({**job("train"), "x": "y" * (257 << 10)}, "TooLarge"),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_garbage_is_refused_with_a_reason_and_holds_up_nobody(name: str) -> None:
    async def tell(world: World, ann: Asker) -> None:
        manifest, reason = BROKEN[name]
        try:
            status = await ann.ask("bad", manifest=manifest)
        except Invalid:
            assert not reason
        else:
            assert (status["outcome"], status["reason"]) == ("Refused", reason)
            assert status["message"]
        assert (await ann.ask("good", manifest=job("train")))["outcome"] == "Starts"

    told(tell)


@pytest.mark.parametrize("name", ["../../other/jobs/secret", "train/status", "..", "a b", "x" * 250 + "/y", "%2e%2e"])
def test_what_is_no_name_is_not_looked_up(name: str) -> None:
    """A name becomes part of a path at the API server: nobody reaches another namespace by it."""

    async def tell(world: World, ann: Asker) -> None:
        status = await ann.ask("a", job=name)
        assert (status["outcome"], status["field"]) == ("Refused", "spec.job")
        steps = [{"name": "s", "template": name}, {"name": "t", "flow": {"name": name}}]
        for at, step in enumerate(steps):
            status = await ann.ask(f"flow-{at}", manifest=named(kinds.JOB_FLOW, "f", spec={"flows": [step]}))
            assert status["outcome"] == "Refused"

    told(tell)


def test_a_job_that_is_not_there_is_said_not_to_be_there() -> None:
    async def tell(world: World, ann: Asker) -> None:
        assert (await ann.ask(job="nobody"))["reason"] == "NotFound"

    told(tell)


def test_a_flood_of_one_namespace_is_refused_and_another_is_answered_meanwhile() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await world.port.create(kinds.NAMESPACE, named(kinds.NAMESPACE, "quiet"))
        bob = Asker(world, "bob", namespace="quiet")
        flood = [f"r{at:03}" for at in range(120)]
        for name in flood:
            body = named(kinds.PLACEMENT_REVIEW, name, spec={"job": "nobody"})
            await ann.port.create(kinds.PLACEMENT_REVIEW, body, namespace="default")
        manifest = job("train")
        manifest["metadata"]["namespace"] = "quiet"
        assert (await bob.ask(manifest=manifest))["outcome"] == "Starts"
        reasons = [(await ann.answer(name))["reason"] for name in flood]
        assert reasons.count("TooManyReviews") > 0
        assert set(reasons) == {"TooManyReviews", "NotFound"}

    told(tell)


def test_an_api_server_that_fails_for_a_while_is_asked_again_until_it_answers() -> None:
    async def tell(world: World, ann: Asker) -> None:
        fails = 7

        def access(review: Tree) -> bool:
            nonlocal fails
            if fails:
                fails -= 1
                raise ServerFailed("the authoriser is away")
            return True

        world.server.access = access
        assert (await ann.ask(manifest=job("train")))["outcome"] == "Starts"
        assert fails == 0

    told(tell)


def test_a_review_is_gone_ten_minutes_after_its_answer() -> None:
    async def tell(world: World, ann: Asker) -> None:
        await ann.ask(manifest=job("train"))
        await world.clock.sleep(590)
        assert not await world.gone(kinds.PLACEMENT_REVIEW, "review")
        await world.clock.sleep(15)
        assert await world.gone(kinds.PLACEMENT_REVIEW, "review")

    told(tell)


def test_a_cron_job_and_a_template_are_reviewed_as_the_job_they_make() -> None:
    async def tell(world: World, ann: Asker) -> None:
        spec = job("x", pods=2)["spec"]
        cron = named(kinds.CRON_JOB, "nightly", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}})
        template = named(kinds.JOB_TEMPLATE, "t", spec=spec)
        for name, manifest in (("cron", cron), ("template", template)):
            status = await ann.ask(name, manifest=manifest)
            assert (status["outcome"], status["placements"][0]["replicas"]) == ("Starts", 2)

    told(tell)
