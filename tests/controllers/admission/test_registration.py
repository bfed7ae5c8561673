"""What the API server is told about the webhook server, on virtual time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from controllers.admission import webhooks
from controllers.admission.keyring import Keyring
from controllers.admission.registration import Registration, configuration
from controllers.admission.resource_groups import ResourceGroup
from controllers.admission.settings import DAY, AdmissionSettings, Lifetimes
from controllers.admission.webhooks import HUB_KINDS, MEMBER_KINDS, Verb
from machinery.clock import Chance, Ids
from machinery.informer import Informers
from machinery.port import PatchType
from simulator.api import ApiServer, MemoryPort
from simulator.loop import SimClock, run_virtual

LIVES = Lifetimes(authority=10 * DAY, serving=2 * DAY, settle=3600)
SETTINGS = AdmissionSettings(url="https://127.0.0.1:9443", lifetimes=LIVES)
BOTH = (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS)
JOBS = "volcano-admission-service-jobs-validate"

Doc = dict[str, Any]


class Stage:
    """An API server, and a program with its leader."""

    def __init__(self, clock: SimClock, chance: Chance, ids: Ids, group: asyncio.TaskGroup) -> None:
        self.clock, self.chance, self.group = clock, chance, group
        self.server = ApiServer(clock, ids=ids, chance=chance)
        self.server.create(kinds.NAMESPACE, {"metadata": {"name": keys.SYSTEM_NAMESPACE}})
        self.port = MemoryPort(self.server)
        self.changes = 0
        self.server.listeners.append(self._count)

    def _count(self, change: object) -> None:
        self.changes += 1

    def lead(
        self, *, settings: AdmissionSettings = SETTINGS, plurals: tuple[str, ...] = MEMBER_KINDS, enabled: bool = True
    ) -> tuple[Keyring | None, list[asyncio.Task[None]]]:
        informers = Informers(self.port, self.clock, self.chance)
        tasks = [self.group.create_task(informers.run())]
        ring = None
        if enabled:
            ring = Keyring(
                self.port,
                informers=informers,
                clock=self.clock,
                namespace=settings.namespace,
                name=settings.secret,
                names=settings.names(),
                lives=settings.lifetimes,
            )
            tasks.append(self.group.create_task(ring.run()))
        registration = Registration(
            self.port,
            informers=informers,
            clock=self.clock,
            settings=settings,
            webhooks=webhooks.served(plurals),
            keyring=ring,
        )
        tasks.append(self.group.create_task(registration.run()))
        return ring, tasks

    def names(self) -> list[str]:
        return sorted(stored.name for kind in BOTH for stored in self.server.collection(kind).scan(None))

    def get(self, name: str = JOBS, *, kind: kinds.Kind = kinds.VALIDATING_WEBHOOKS) -> Doc:
        doc: Doc = orjson.loads(self.server.read(kind, name).raw)
        return doc

    def bundles(self) -> set[bytes]:
        found = [orjson.loads(stored.raw) for kind in BOTH for stored in self.server.collection(kind).scan(None)]
        return {base64.b64decode(each["clientConfig"]["caBundle"]) for doc in found for each in doc["webhooks"]}


def play(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        async with asyncio.TaskGroup() as group:
            await story(Stage(clock, chance, ids, group))
            for task in [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]:
                task.cancel()

    run_virtual(main, seed=1)


def wanted(plurals: tuple[str, ...]) -> list[str]:
    return sorted(each.configuration for each in webhooks.served(plurals))


def test_a_configuration_per_kind_and_verb_is_registered_and_trusts_our_authority() -> None:
    async def story(stage: Stage) -> None:
        ring, _ = stage.lead()
        await stage.clock.sleep(20)
        assert ring is not None
        assert stage.names() == wanted(MEMBER_KINDS)
        assert stage.bundles() == {ring.bundle}

    play(story)


def test_a_leader_without_work_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.lead()
        await stage.clock.sleep(20)
        before = stage.changes
        await stage.clock.sleep(DAY)
        assert stage.changes == before

    play(story)


def test_every_configuration_follows_a_rotation() -> None:
    async def story(stage: Stage) -> None:
        ring, _ = stage.lead()
        assert ring is not None
        seen = set()
        for _ in range(10 * 24):
            await stage.clock.sleep(3630)
            assert stage.bundles() == {ring.bundle}
            seen.add(ring.bundle)
        assert len(seen) >= 3

    play(story)


def test_what_somebody_changes_or_deletes_is_put_right() -> None:
    async def story(stage: Stage) -> None:
        stage.lead()
        await stage.clock.sleep(20)
        good = stage.get()["webhooks"]
        harm = {"webhooks": [{**good[0], "failurePolicy": "Fail", "matchConditions": []}]}
        await stage.port.patch(kinds.VALIDATING_WEBHOOKS, JOBS, harm, type=PatchType.MERGE)
        await stage.port.delete(kinds.MUTATING_WEBHOOKS, "volcano-admission-service-jobs-mutate")
        await stage.clock.sleep(30)
        assert stage.get()["webhooks"] == good
        assert stage.names() == wanted(MEMBER_KINDS)

    play(story)


def test_those_of_an_installed_volcano_are_left_alone() -> None:
    async def story(stage: Stage) -> None:
        theirs = {"metadata": {"name": JOBS}, "webhooks": []}
        await stage.port.create(kinds.VALIDATING_WEBHOOKS, theirs)
        stage.lead()
        await stage.clock.sleep(20)
        assert stage.get()["webhooks"] == []
        assert stage.names() == wanted(MEMBER_KINDS)

    play(story)


def test_switched_off_all_of_ours_are_removed_and_nobody_elses() -> None:
    async def story(stage: Stage) -> None:
        _, tasks = stage.lead()
        await stage.clock.sleep(20)
        for task in tasks:
            task.cancel()
        await stage.port.create(kinds.VALIDATING_WEBHOOKS, {"metadata": {"name": "theirs"}, "webhooks": []})
        stage.lead(enabled=False)
        await stage.clock.sleep(20)
        assert stage.names() == ["theirs"]

    play(story)


def test_kinds_that_are_no_longer_served_lose_their_configurations() -> None:
    async def story(stage: Stage) -> None:
        _, tasks = stage.lead()
        await stage.clock.sleep(20)
        for task in tasks:
            task.cancel()
        stage.lead(plurals=("jobs",))
        await stage.clock.sleep(20)
        assert stage.names() == wanted(("jobs",))

    play(story)


# --- what is said ----------------------------------------------------------------------------------------------------
def entries(plurals: tuple[str, ...] = MEMBER_KINDS, **more: Any) -> dict[str, Doc]:
    found = webhooks.served(plurals, **more)
    return {each.configuration: configuration(each, settings=SETTINGS, bundle=b"ca")["webhooks"][0] for each in found}


def test_an_outage_stops_nothing_but_changes_of_queues() -> None:
    fails = {name for name, entry in entries().items() if entry["failurePolicy"] == "Fail"}
    assert fails == {"volcano-admission-service-queues-validate"}


def test_nobody_waits_longer_than_ten_seconds_and_our_own_namespaces_are_never_asked_about() -> None:
    for entry in entries().values():
        assert entry["timeoutSeconds"] <= 10
        assert entry["namespaceSelector"]["matchExpressions"][0]["values"] == ["federation-system", "kube-system"]
        assert entry["sideEffects"] == "None"


def test_pods_of_others_never_reach_us() -> None:
    (condition,) = entries()["volcano-admission-service-pods-validate"]["matchConditions"]
    assert condition["expression"] == "has(object.spec.schedulerName) && object.spec.schedulerName in ['volcano']"
    assert "volcano-admission-service-pods-mutate" not in entries()
    (condition,) = entries(schedulers=("volcano", "batch"))["volcano-admission-service-pods-validate"]["matchConditions"]
    assert condition["expression"].endswith("object.spec.schedulerName in ['volcano', 'batch']")


def test_pods_are_completed_only_where_a_group_or_the_gate_asks_for_it() -> None:
    group = ResourceGroup.model_validate({"resourceGroup": "gpu", "object": {"key": "namespace", "value": ["ml"]}})
    (condition,) = entries(groups=(group,))["volcano-admission-service-pods-mutate"]["matchConditions"]
    assert condition["expression"] == "request.namespace == 'ml'"
    (condition,) = entries(gates=True)["volcano-admission-service-pods-mutate"]["matchConditions"]
    assert "schedulerName in ['volcano']" in condition["expression"]


def test_the_server_is_reached_by_url_or_by_service() -> None:
    assert entries()[JOBS]["clientConfig"]["url"] == "https://127.0.0.1:9443/jobs/validate"
    hook = next(each for each in webhooks.served(("jobs",)) if each.verb is Verb.VALIDATE)
    there = configuration(hook, settings=AdmissionSettings(service="hooks"), bundle=b"ca")["webhooks"][0]["clientConfig"]
    assert there["service"] == {"name": "hooks", "namespace": "federation-system", "path": "/jobs/validate", "port": 443}


def test_the_hub_serves_what_users_write_there() -> None:
    kinds_of = {each.kind.plural for each in webhooks.served(HUB_KINDS)}
    assert kinds_of == {
        *("jobs", "jobflows", "jobtemplates", "queues", "cronjobs", "placementreviews", "clusters"),
        *(kind.plural for kind in webhooks.PLACING),
    }
    assert not {each.kind for each in webhooks.served(MEMBER_KINDS)} & set(webhooks.PLACING)
    with pytest.raises(ValueError, match="no webhook for elephants"):
        webhooks.served(("elephants",))
