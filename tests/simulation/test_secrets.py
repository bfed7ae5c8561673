"""What people confide to their Jobs stands where they wrote it and nowhere else.

It is in no log line, event, status or condition, and in no object that tells how things stand. Marked values go wherever a user
can put one, through what works and what fails.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from apis import kinds
from machinery import errors, logs
from simulator.store import Change
from simulator.world import HUB, Doc, World
from tests.simulation.test_companions import carrying, ended, typed, uses
from tests.support.stage import play

MARKERS = {
    "secret": "marker-of-a-secret-7f3a",
    "other": "marker-of-another-secret-91c2",
    "env": "marker-of-an-environment-55d0",
    "token": "marker-of-a-token-e8b1",
    "url": "https://ann:marker-of-a-password-03ff@example.com/data",
    "command": "marker-of-a-command-44aa",
}
TELLING = {
    kinds.EVENT,
    kinds.RESOURCE_BINDING,
    kinds.CLUSTER_CAPACITY,
    kinds.CLUSTER,
    kinds.LEASE,
    kinds.QUEUE,
    kinds.USAGE_REPORT,
    kinds.PLACEMENT_REVIEW,
}
"""Kinds that tell how things stand: nothing of them may hold what somebody confided. Of others that holds for the status."""


def found_in(text: str) -> list[str]:
    """Names of the markers in a text, plain or as Secrets write them."""
    return [
        name
        for name, marker in MARKERS.items()
        if marker in text or base64.b64encode(marker.encode()).decode().rstrip("=") in text
    ]


class Listener(logging.Handler):
    """Every log line of every level as machines get it, and what leaked through one."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.leaks: list[str] = []
        self.lines = 0
        self._json = logs.JsonFormatter()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        line = self._json.format(record)
        self.leaks += [f"{name} in a log line: {line[:200]}" for name in found_in(line)]


@contextmanager
def listening() -> Iterator[Listener]:
    """All loggers of the project at their most talkative."""
    listener, root = Listener(), logging.getLogger()
    before = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        yield listener
    finally:
        root.removeHandler(listener)
        root.setLevel(before)


def watch_what_is_told(world: World) -> tuple[list[str], set[str]]:
    """Leaks in what API servers are told from now on, and the kinds that told something."""
    leaks: list[str] = []
    kinds_seen: set[str] = set()

    def look(server: str, change: Change) -> None:
        if change.new is None:
            return
        doc: Doc = change.new.doc
        told: Any = doc if change.new.kind in TELLING else doc.get("status")
        if told:
            kinds_seen.add(change.new.kind.kind)
            text = orjson.dumps(told).decode()
            leaks.extend(
                f"{name} in {change.new.kind.kind} {change.new.namespace}/{change.new.name} of {server}"
                for name in found_in(text)
            )

    for name, server in world.servers.items():
        server.listeners.append(lambda change, name=name: look(name, change))  # type: ignore[misc]
    return leaks, kinds_seen


def confided(name: str, *, namespace: str = "team", **spec: Any) -> Doc:
    """A Job with a marked value wherever people put such."""
    made = uses(name, secret="key", namespace=namespace, **spec)
    made["metadata"].setdefault("annotations", {}).update(
        {"example.com/token": MARKERS["token"], "example.com/from": MARKERS["url"]}
    )
    container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "PASSWORD", "value": MARKERS["env"]}, {"name": "SOURCE", "value": MARKERS["url"]}]
    container["args"] = [MARKERS["command"]]
    return made


def secret(name: str, marker: str, **more: Any) -> Doc:
    data = {"token": base64.b64encode(marker.encode()).decode()}
    return typed(kinds.SECRET, name, namespace="team", type="Opaque", data=data, **more)


def test_what_is_confided_to_a_job_is_told_to_nobody_whether_it_runs_waits_fails_or_is_refused() -> None:
    async def story(world: World) -> None:
        leaks, seen = watch_what_is_told(world)
        with listening() as heard:
            await world.apply(typed(kinds.NAMESPACE, "team"))
            await world.apply(secret("key", MARKERS["secret"]), namespace="team")
            await world.apply(carrying("deps", jobs=["runs", "fails", "waits"], clusters=["west"], namespace="team"))
            await world.apply(confided("runs", runs_for=5), namespace="team")
            await world.until(lambda: ended(world, "runs", namespace="team"), timeout=120, what="it runs")
            await _a_member_has_another_secret_of_that_name(world)
            await world.apply(confided("waits", cpu="9999"), namespace="team")
            broken = confided("bad")
            broken["spec"]["minAvailable"] = 99
            await _tried(world, broken)
            world.kill("hub")
            world.kill("agent-west")
            await world.advance(60)
        works = world.all(kinds.WORK)
        reasons = {each.get("reason") for work in works for each in (work.get("status") or {}).get("conditions") or ()}
        assert "NameTaken" in reasons
        assert ended(world, "runs", namespace="team") and not ended(world, "waits", namespace="team")
        assert heard.lines > 0
        assert {"Event", "Job", "Work", "ResourceBinding", "Pod"} <= seen
        assert leaks == []
        assert heard.leaks == []

    play(story)


async def _a_member_has_another_secret_of_that_name(world: World) -> None:
    """Its people made one: the Work that brings ours is refused, and the words of the refusal do not quote either."""
    port = world.client("west")
    await world.apply(secret("own", MARKERS["other"]), namespace="team")
    theirs = {**secret("own", "theirs"), "immutable": True}
    await port.create(kinds.SECRET, theirs, namespace="team")
    job = confided("again", runs_for=5)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"secretRef": {"name": "own"}}]
    await world.apply(carrying("more", jobs=["again"], clusters=["west"], namespace="team"), namespace="team")
    await world.apply(job, namespace="team")
    await world.advance(30)


async def _tried(world: World, body: Doc) -> None:
    """Written if the API server takes it."""
    try:
        await world.client(HUB).create(kinds.JOB, body, namespace="team")
    except errors.ApiError as error:
        assert found_in(str(error)) == []


def test_whoever_listens_would_have_heard() -> None:
    with listening() as heard:
        logging.getLogger("federation.test").debug("a Job with %s", MARKERS["env"])
        logging.getLogger("federation.test").info("data: %s", base64.b64encode(MARKERS["secret"].encode()).decode())
    assert len(heard.leaks) == 2
