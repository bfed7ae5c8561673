"""The webhook server over real TLS on loopback: what API servers send, and what nobody should send."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import pytest

from apis import keys, kinds
from apis.kinds import Kind
from apis.scheduling import Queue
from controllers.admission import certificates, webhooks
from controllers.admission.door import Door, DoorRules
from controllers.admission.facts import Facts
from controllers.admission.keyring import server_context, show
from controllers.admission.reviews import Rules
from controllers.admission.server import LARGEST, WebhookServer
from controllers.admission.service import Admission
from controllers.admission.settings import DAY, AdmissionSettings, Lifetimes
from controllers.admission.webhooks import MEMBER_KINDS
from machinery.clock import Chance, Ids, SystemClock
from machinery.errors import Unreachable
from machinery.informer import Informers
from simulator.api import ApiServer, MemoryPort
from tests.controllers.admission.reviewing import Doc, facts, review, thing
from tests.manifests import GOOD_JOB

LIVES = Lifetimes(authority=10 * DAY, serving=2 * DAY, settle=3600)
NAMES = ("127.0.0.1",)


@dataclass
class Known:
    """Facts as a test sets them; `now` is what a fresh read tells, or the error it ends in."""

    then: Facts = field(default_factory=facts)
    now: Facts | Unreachable = field(default_factory=facts)
    synced: bool = True
    reads: int = 0

    def cached(self) -> Facts:
        return self.then

    async def fresh(self) -> Facts:
        self.reads += 1
        if isinstance(self.now, Unreachable):
            raise self.now
        return self.now


class Client:
    """An API server's side of the connection."""

    def __init__(self, port: int, bundle: bytes) -> None:
        self.port = port
        self.url = f"https://127.0.0.1:{port}"
        self.context = ssl.create_default_context(cadata=bundle.decode())

    async def post(self, path: str, body: bytes, *, media: str = "application/json") -> tuple[int, str]:
        """One request on a connection of its own."""
        headers = {"Content-Type": media}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context)) as session,
            session.post(self.url + path, data=io.BytesIO(body), headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    async def ask(self, kind: Kind, verb: str, new: Doc | None, **more: Any) -> Doc:
        """The response of a review that is answered."""
        status, text = await self.post(f"/{kind.plural}/{verb}", review(kind, new, **more))
        assert status == 200, text
        answered = orjson.loads(text)
        assert (answered["apiVersion"], answered["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: Doc = answered["response"]
        return response


@contextlib.asynccontextmanager
async def serving(known: Known, *, door: Door | None = None, most_at_once: int = 256, **rules: Any) -> AsyncIterator[Client]:
    """A server of everything that members serve."""
    now = SystemClock().now()
    ring = certificates.take(certificates.Step.MAKE, ring=None, now=now, names=NAMES, lives=LIVES)
    context = server_context()
    show(context, pair=ring.serving)
    hooks = webhooks.served(MEMBER_KINDS, gates=True)
    server = WebhookServer(
        hooks,
        source=known,
        rules=Rules(**rules),
        context=context,
        door=door,
        most_at_once=most_at_once,
        host="127.0.0.1",
        port=0,
    )
    task = asyncio.create_task(server.run())
    try:
        await server.wait_started()
        yield Client(server.port, ring.bundle)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def job(name: str = "train", **spec: Any) -> Doc:
    return thing(kinds.JOB, name, spec={**GOOD_JOB, **spec})


async def test_a_job_is_completed_and_taken() -> None:
    async with serving(Known()) as client:
        mutated = await client.ask(kinds.JOB, "mutate", job(), uid="u-7")
        assert (mutated["uid"], mutated["allowed"], mutated["patchType"]) == ("u-7", True, "JSONPatch")
        patch = orjson.loads(base64.b64decode(mutated["patch"]))
        assert {"op": "add", "path": "/spec/minAvailable", "value": 3} in patch
        assert await client.ask(kinds.JOB, "validate", job(), uid="u-8") == {"uid": "u-8", "allowed": True}


async def test_a_refusal_names_every_field_and_reason() -> None:
    async with serving(Known()) as client:
        response = await client.ask(kinds.JOB, "validate", job(tasks=[], maxRetry=-1))
        assert response["allowed"] is False
        status = response["status"]
        assert (status["code"], status["reason"]) == (422, "Invalid")
        assert [each["field"] for each in status["details"]["causes"]] == ["spec.maxRetry", "spec.tasks"]
        assert "spec.tasks: No task specified in job spec" in status["message"]


async def test_a_queue_that_was_made_a_moment_ago_is_found() -> None:
    known = Known(now=facts(Queue.of("new")))
    async with serving(known) as client:
        assert (await client.ask(kinds.JOB, "validate", job(queue="new")))["allowed"] is True
        assert known.reads == 1


async def test_nobody_is_refused_by_a_cache_and_nobody_else_is_looked_up() -> None:
    known = Known(then=facts(Queue.of("q", status={"state": "Closed"})), now=facts(Queue.of("q", status={"state": "Open"})))
    async with serving(known) as client:
        assert (await client.ask(kinds.JOB, "validate", job(queue="q")))["allowed"] is True
        assert (await client.ask(kinds.JOB, "validate", job(tasks=[])))["allowed"] is False
        assert (await client.ask(kinds.JOB, "validate", job()))["allowed"] is True
        assert known.reads == 1


async def test_while_queues_cannot_be_read_jobs_pass_with_a_warning_and_queues_do_not() -> None:
    known = Known(now=Unreachable("no route"))
    async with serving(known) as client:
        response = await client.ask(kinds.JOB, "validate", job(queue="ghost"))
        assert response["allowed"] is True
        assert response["warnings"] == ["the queue was not checked: no route"]
        response = await client.ask(kinds.JOB, "validate", job(queue="ghost", maxRetry=-1))
        assert response["allowed"] is False and "ghost" not in response["status"]["message"]
        response = await client.ask(kinds.QUEUE, "validate", thing(kinds.QUEUE, "q", spec={"parent": "ghost"}))
        assert response["allowed"] is False


async def test_a_server_that_has_not_read_the_queues_says_so_and_judges_nothing() -> None:
    async with serving(Known(synced=False)) as client:
        assert (await client.post("/jobs/validate", review(kinds.JOB, job())))[0] == 503


def _without(key: str) -> bytes:
    body = orjson.loads(review(kinds.JOB, job()))
    del body["request"][key]
    return orjson.dumps(body)


BAD: dict[str, tuple[str, bytes, str, int, str]] = {
    "no JSON": ("/jobs/validate", b"{", "application/json", 400, "the body is not JSON"),
    "nothing": ("/jobs/validate", b"", "application/json", 400, "the body is not JSON"),
    "a list": ("/jobs/validate", b"[]", "application/json", 400, "no admission.k8s.io/v1 AdmissionReview"),
    "another version": (
        "/jobs/validate",
        review(kinds.JOB, job()).replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
        "application/json",
        400,
        "no admission.k8s.io/v1 AdmissionReview",
    ),
    "no request": (
        "/jobs/validate",
        orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}),
        "application/json",
        400,
        "request.uid is missing",
    ),
    "no uid": ("/jobs/validate", _without("uid"), "application/json", 400, "request.uid is missing"),
    "no resource": ("/jobs/validate", _without("resource"), "application/json", 400, "serves jobs.batch.volcano.sh"),
    "another kind": (
        "/jobs/validate",
        review(kinds.QUEUE, thing(kinds.QUEUE)),
        "application/json",
        400,
        "the request is about 'queues.scheduling.volcano.sh'",
    ),
    "an operation nobody asked to see": (
        "/jobs/mutate",
        review(kinds.JOB, job(), operation="CONNECT"),
        "application/json",
        400,
        "serves CREATE, not 'CONNECT'",
    ),
    "no object": (
        "/jobs/validate",
        review(kinds.JOB, None, operation="CREATE"),
        "application/json",
        400,
        "CREATE without the object",
    ),
    "an update of nothing": (
        "/jobs/validate",
        review(kinds.JOB, job(), operation="UPDATE"),
        "application/json",
        400,
        "UPDATE without the object",
    ),
    "an object that is none": (
        "/jobs/validate",
        review(kinds.JOB, job(), object="text"),
        "application/json",
        400,
        "request.object is no object",
    ),
    "another media type": ("/jobs/validate", b"{}", "text/plain", 415, "a review is application/json, not text/plain"),
    "no such path": ("/jobs/celebrate", b"{}", "application/json", 404, ""),
    "too much": ("/jobs/validate", b" " * (LARGEST + 1), "application/json", 413, ""),
}


@pytest.mark.parametrize(("path", "body", "media", "status", "says"), BAD.values(), ids=BAD)
async def test_a_bad_review_gets_an_answer_that_says_what_is_wrong_and_the_server_goes_on(
    path: str, body: bytes, media: str, status: int, says: str
) -> None:
    async with serving(Known()) as client:
        answered, text = await client.post(path, body, media=media)
        assert answered == status
        assert says in text
        assert (await client.ask(kinds.JOB, "validate", job()))["allowed"] is True


WHOLE: list[Doc] = [{}, {"metadata": None}, {"metadata": []}, {"metadata": {"annotations": 7}, "spec": {}}]
STRANGE: list[Any] = [
    None,
    7,
    "text",
    [],
    {},
    [None],
    {"tasks": None},
    {"tasks": [None]},
    {"tasks": [{"template": []}]},
    {"plugins": 1},
]


@pytest.mark.parametrize(
    "kind", [kinds.JOB, kinds.CRON_JOB, kinds.JOB_FLOW, kinds.QUEUE, kinds.POD_GROUP, kinds.POD, webhooks.HYPER_NODE]
)
async def test_no_object_however_strange_is_answered_with_a_failure(kind: Kind) -> None:
    async with serving(Known()) as client:
        for verb in [each.verb for each in webhooks.served(MEMBER_KINDS, gates=True) if each.kind == kind]:
            for spec in STRANGE:
                response = await client.ask(kind, verb, {"metadata": {"name": "x"}, "spec": spec})
                assert isinstance(response["allowed"], bool)
            for whole in WHOLE:
                assert isinstance((await client.ask(kind, verb, whole))["allowed"], bool)


async def test_plain_text_and_strangers_do_not_stop_the_server() -> None:
    async with serving(Known()) as client:
        stranger = ssl.create_default_context()
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=stranger)) as session:
                await session.post(client.url + "/jobs/validate", data=b"{}")
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()
        assert (await client.ask(kinds.JOB, "validate", job()))["allowed"] is True


# --- the whole of it -------------------------------------------------------------------------------------------------
async def test_a_program_serves_registers_and_rotates_while_requests_go_on() -> None:
    """On the real clock with certificates that live for seconds: an API server that trusts what the configuration says is
    answered all the time, through renewals and through a change of the authority."""
    server = ApiServer(SystemClock(), ids=Ids(Chance(1)), chance=Chance(1))
    server.create(kinds.NAMESPACE, {"metadata": {"name": keys.SYSTEM_NAMESPACE}})
    server.create(kinds.QUEUE, {**thing(kinds.QUEUE, "default"), "spec": {}})
    port = free_port()
    settings = AdmissionSettings(
        url=f"https://127.0.0.1:{port}",
        host="127.0.0.1",
        port=port,
        lifetimes=Lifetimes(authority=12, serving=6, settle=2),
        pace=0.05,
    )
    program = Admission(MemoryPort(server), clock=SystemClock(), chance=Chance(2), settings=settings, plurals=MEMBER_KINDS)
    name = "volcano-admission-service-jobs-validate"

    def told() -> bytes:
        stored = server.collection(kinds.VALIDATING_WEBHOOKS).get("", name)
        return base64.b64decode(stored.doc["webhooks"][0]["clientConfig"]["caBundle"]) if stored is not None else b""

    assert not program.checks["admission"]()
    async with asyncio.timeout(30), program.registered():
        running = asyncio.create_task(program.run())
        await until(server, lambda: bool(told()))
        assert program.checks["admission"]()
        bundles: list[bytes] = []
        while len(bundles) < 3:  # the first alone, both, the second before the first
            bundle = told()
            assert (await Client(port, bundle).ask(kinds.JOB, "validate", job()))["allowed"] is True
            if bundle not in bundles:
                bundles.append(bundle)
            await asyncio.sleep(0.05)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_two_replicas_that_start_at_once_are_both_trusted_by_what_the_leader_registers() -> None:
    server = ApiServer(SystemClock(), ids=Ids(Chance(1)), chance=Chance(1))
    server.create(kinds.NAMESPACE, {"metadata": {"name": keys.SYSTEM_NAMESPACE}})
    server.create(kinds.QUEUE, {**thing(kinds.QUEUE, "default"), "spec": {}})
    settings = AdmissionSettings(url="https://127.0.0.1:9443", host="127.0.0.1", port=0)
    replicas = [
        Admission(MemoryPort(server), clock=SystemClock(), chance=Chance(seed), settings=settings, plurals=MEMBER_KINDS)
        for seed in (2, 3)
    ]
    name = "volcano-admission-service-jobs-mutate"
    async with asyncio.timeout(20), replicas[0].registered():
        running = [asyncio.create_task(replica.run()) for replica in replicas]
        await until(server, lambda: server.collection(kinds.MUTATING_WEBHOOKS).get("", name) is not None)
        (hook,) = server.read(kinds.MUTATING_WEBHOOKS, name).doc["webhooks"]
        bundle = base64.b64decode(hook["clientConfig"]["caBundle"])
        for replica in replicas:
            await replica.wait_started()
            assert (await Client(replica.port, bundle).ask(kinds.JOB, "mutate", job()))["patchType"] == "JSONPatch"
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_program_that_is_switched_off_serves_nothing_and_removes_what_it_registered() -> None:
    server = ApiServer(SystemClock(), ids=Ids(Chance(1)), chance=Chance(1))
    label = {"app.kubernetes.io/part-of": "volcano-federation"}
    meta = {"name": "volcano-admission-service-jobs-validate", "labels": label}
    server.create(kinds.VALIDATING_WEBHOOKS, {"metadata": meta, "webhooks": []})
    off = AdmissionSettings(enabled=False)
    program = Admission(MemoryPort(server), clock=SystemClock(), chance=Chance(2), settings=off, plurals=MEMBER_KINDS)
    assert (dict(program.checks), program.port) == ({}, 0)
    async with asyncio.timeout(10), program.registered():
        await until(server, lambda: not list(server.collection(kinds.VALIDATING_WEBHOOKS).scan(None)))


async def until(server: ApiServer, holds: Callable[[], bool]) -> None:
    """Look at every change of the API server."""
    changed = asyncio.Event()
    server.listeners.append(lambda change: changed.set())
    while not holds():
        changed.clear()
        await changed.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def door(*, allows: bool) -> Door:
    """A door before an API server that allows everything or nothing."""
    clock, chance = SystemClock(), Chance(1)
    api = ApiServer(clock, ids=Ids(chance), chance=chance)
    api.access = lambda review: allows
    port = MemoryPort(api)
    return Door(port, clock=clock, rules=DoorRules(check_use=True), informers=Informers(port, clock, chance))


async def test_who_may_not_use_a_class_is_forbidden_and_told_which() -> None:
    asks = {"userInfo": {"username": "ann", "groups": []}}
    async with serving(Known(), door=door(allows=True)) as client:
        assert (await client.ask(kinds.JOB, "validate", job(priorityClassName="urgent"), **asks))["allowed"] is True
    async with serving(Known(), door=door(allows=False)) as client:
        response = await client.ask(kinds.JOB, "validate", job(priorityClassName="urgent"), **asks)
        assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
        assert "ann may not use PriorityClass urgent" in response["status"]["message"]


async def test_more_reviews_at_once_than_there_is_room_for_are_told_to_come_again() -> None:
    async with serving(Known(), most_at_once=0) as client:
        status, text = await client.post("/jobs/validate", review(kinds.JOB, job()))
        assert (status, text) == (429, "too many reviews at once: ask again in a second\n")
