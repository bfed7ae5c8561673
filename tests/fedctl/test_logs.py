"""`fedctl logs` beside a hub whose channel is served over real TLS, with a member behind it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console
from typer.testing import CliRunner

from apis import kinds
from controllers.channel.messages import API, Lines, Notice, Record, encode_lines
from fedctl import direct, logs
from fedctl.app import app
from fedctl.flows import Place
from fedctl.logs import NOT_SERVED, Asked, Writer
from machinery import errors
from machinery.port import Page, Port, Streams
from tests.federation.channel.certs import Authority
from tests.federation.channel.house import TEAM, House, Quick, house, typed, until

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Desk:
    """A person at a terminal."""

    def __init__(self, port: Port, streams: Streams) -> None:
        self.port = port
        self.streams = streams
        self.out, self.err = io.StringIO(), io.StringIO()
        self.place = Place(port, TEAM, Console(file=self.out, width=200), Console(file=self.err, width=200), NOW)

    async def logs(self, name: str, **asked: Any) -> int:
        return await logs.logs(self.place, name, Asked(**asked), clock=Quick(), streams=self.streams)

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


@contextlib.asynccontextmanager
async def desk(built: House, *, token: str = "ada-token") -> AsyncIterator[Desk]:
    async with direct.opened(built.people_url, ca=built.hub_ca.ca, token=token) as door:
        yield Desk(built.hub, door)


async def hub_phase(built: House, job: str, phase: str) -> None:
    """The hub's Job is in this phase."""
    found = orjson.loads(await built.hub.get(kinds.JOB, job, namespace=TEAM))
    body = {**found, "status": {"state": {"phase": phase}}}
    await built.hub.replace(kinds.JOB, job, body, namespace=TEAM, subresource="status")


async def runs(built: House, job: str, **text: str) -> None:
    """A Job in east with a pod per text."""
    await built.job(job, "east")
    for name, printed in text.items():
        pod = name.replace("_", "-")
        await built.members["east"].pod(pod, job=job)
        built.members["east"].logs.of(pod).add(printed.encode())


async def test_the_logs_of_a_job_come_under_the_names_of_its_pods(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        await built.member("east")
        await runs(built, "train", train_main_0="one\ntwo", train_main_1="\x1b[31mred\n")
        assert await at.logs("train") == 0
        assert sorted(at.lines) == ["[east/train-main-0] one", "[east/train-main-0] two", "[east/train-main-1] red"]
        assert (
            await at.logs("job/train", tail=3, since=60, timestamps=True, previous=True, container="main", pod="train-main-0")
            == 0
        )
        assert built.members["east"].logs.queries[-1][1] == {
            "container": "main",
            "previous": "true",
            "timestamps": "true",
            "tailLines": "3",
            "sinceSeconds": "60",
        }


async def test_the_logs_of_a_flow_are_those_of_its_jobs(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        await built.member("east")
        made = await flow(built, "nightly")
        await runs(built, "nightly-a", nightly_a_main_0="a\n")
        await runs(built, "other", other_main_0="no\n")
        await own(built, "nightly-a", made)
        assert await at.logs("flow/nightly") == 0
        assert at.lines == ["[east/nightly-a-main-0] a"]


async def flow(built: House, name: str) -> str:
    spec = {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}
    body = typed(kinds.JOB_FLOW, {"metadata": {"name": name}, "spec": spec})
    return str(orjson.loads(await built.hub.create(kinds.JOB_FLOW, body, namespace=TEAM))["metadata"]["uid"])


async def own(built: House, job: str, uid: str) -> None:
    """The flow of this UID made the Job."""
    found = orjson.loads(await built.hub.get(kinds.JOB, job, namespace=TEAM))
    owner = {"apiVersion": kinds.JOB_FLOW.api_version, "kind": "JobFlow", "name": "f", "uid": uid, "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    await built.hub.replace(kinds.JOB, job, found, namespace=TEAM)


async def test_following_waits_for_the_cluster_goes_on_after_a_break_and_ends_with_the_job(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        east = await built.member("east")
        await built.job("train")
        following = asyncio.create_task(at.logs("train", follow=True))
        await until(lambda: f"Job {TEAM}/train waits and has no pods yet" in at.err.getvalue())
        await built.hub.delete(kinds.JOB, "train", namespace=TEAM)
        assert await following == 0

        await runs(built, "serve", serve_main_0="one\n")
        following = asyncio.create_task(at.logs("serve", follow=True))
        await until(lambda: at.lines == ["[east/serve-main-0] one"])
        await built.hang_up("east")
        await until(lambda: "its agent is not connected to this hub" in at.err.getvalue())
        east.logs.of("serve-main-0").chunks[:] = [b"two\n"]
        built.dial(east)
        await until(lambda: at.lines[-1] == "[east/serve-main-0] two")
        assert "sinceTime" in east.logs.queries[-1][1]
        east.logs.of("serve-main-0").end()
        await east.phase("serve", "Completed")
        await hub_phase(built, "serve", "Completed")
        assert await following == 0


async def test_following_a_flow_follows_the_steps_that_come_later_too(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        east = await built.member("east")
        uid = await flow(built, "nightly")
        following = asyncio.create_task(at.logs("flow/nightly", follow=True))
        for step in ("a", "b"):
            job, pod = f"nightly-{step}", f"nightly-{step}-main-0"
            await runs(built, job, **{pod.replace("-", "_"): f"{step}\n"})
            await own(built, job, uid)
            await until(lambda pod=pod, step=step: f"[east/{pod}] {step}" in at.lines)
            east.logs.of(pod).end()
            await east.phase(job, "Completed")
            await hub_phase(built, job, "Completed")
        found = orjson.loads(await built.hub.get(kinds.JOB_FLOW, "nightly", namespace=TEAM))
        body = {**found, "status": {"state": {"phase": "Succeed"}}}
        await built.hub.replace(kinds.JOB_FLOW, "nightly", body, namespace=TEAM, subresource="status")
        assert await following == 0


async def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        await built.member("east", dial=False)
        await built.job("train", "east")
        await built.job("waits")
        assert await at.logs("nothing") == 4
        assert await at.logs("flow/nothing") == 4
        assert await at.logs("pod/x") == 6
        assert await at.logs("waits") == 6
        assert await at.logs("train") == 6
        assert at.err.getvalue().splitlines() == [
            f"Job {TEAM}/nothing does not exist",
            f"JobFlow {TEAM}/nothing does not exist",
            "'pod/x' is neither a Job, job/NAME nor flow/NAME",
            f"Job waits: Job {TEAM}/waits waits and has no pods yet",
            f"Job train: Job {TEAM}/train: cluster east: its agent is not connected to this hub",
        ]
        assert at.lines == []


async def test_who_may_not_read_is_told_so(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built, token="bob-token") as at:
        await built.member("east")
        await runs(built, "train", train_main_0="one\n")
        with pytest.raises(errors.Forbidden, match='user "bob" cannot get jobs/log "train"'):
            await at.logs("train")
        with pytest.raises(errors.Forbidden):
            await at.logs("train", follow=True)


async def test_who_may_read_logs_and_not_watch_jobs_hears_it_instead_of_waiting(tmp_path: Path) -> None:
    async with house(tmp_path) as built, desk(built) as at:
        await built.job("train")

        async def refuses(*args: object, **kwargs: object) -> Page:
            raise errors.Forbidden("jobs is forbidden")

        built.hub.list = refuses  # type: ignore[method-assign]
        with pytest.raises(errors.Forbidden):
            await at.logs("train", follow=True)


class Said:
    """A channel that says what it is told to."""

    def __init__(self, *said: bytes, error: errors.ApiError | None = None) -> None:
        self.said = said
        self.error = error

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        assert path == f"{API}/namespaces/{TEAM}/jobs/train/log"
        for chunk in self.said:
            yield chunk
        if self.error is not None:
            raise self.error


async def test_a_hub_without_a_channel_and_one_that_talks_nonsense_are_named(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.job("train")
        at = Desk(built.hub, Said(error=errors.NotFound("the server could not find the requested resource")))
        assert await at.logs("train") == 4
        assert at.err.getvalue().strip() == NOT_SERVED
        at = Desk(built.hub, Said(b"no log\n"))
        assert await at.logs("train") == 6
        assert "the hub sent something that is no log" in at.err.getvalue()


async def test_what_the_hub_sends_is_cleaned_once_more(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.job("train")
        evil: list[Record] = [
            Lines("p\x1b[2J", "c", "\x1b]0;x\x07text\n", cluster="e\r"),
            Notice("\x1b[1mbold", cluster="east"),
        ]
        at = Desk(built.hub, Said(encode_lines(evil)))
        assert await at.logs("train") == 0
        assert "\x1b" not in at.out.getvalue() + at.err.getvalue()
        assert "\r" not in at.out.getvalue()
        assert at.err.getvalue() == "[east] bold\n"


def test_every_pod_keeps_its_colour() -> None:
    out = io.StringIO()
    writer = Writer(out, coloured=True)
    writer.add(Lines("p", "c", "one\n", cluster="east"))
    writer.add(Lines("p", "c", "two", several=True, cluster="east"))
    writer.end()
    first, second = out.getvalue().splitlines()
    assert first.startswith("\x1b[") and first.endswith("m[east/p] \x1b[0mone")
    assert second == first.replace("[east/p]", "[east/p/c]").replace("one", "two")


async def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    async with house(tmp_path) as built:
        await built.job("train")
        at = Desk(built.hub, Said(encode_lines([Lines("p", "c", "one\n")])))
        writer = Writer(Closed(), coloured=False)
        assert await logs.logs(at.place, "train", Asked(), clock=Quick(), streams=at.streams, writer=writer) == 0


@pytest.mark.parametrize(
    ("url", "token", "said"), [("http://hub:1", "x", "is not https"), ("https://hub:1", "", "wants a token")]
)
async def test_a_direct_way_needs_an_address_and_a_token(url: str, token: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        async with direct.opened(url, ca=None, token=token):
            pass


async def test_a_hub_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "hub").ca
    async with direct.opened("https://127.0.0.1:1", ca=ca, token="x") as door:
        with pytest.raises(errors.Unreachable):
            await anext(door.stream("/x"))


def test_mistakes_of_the_command_line_are_sentences() -> None:
    for arguments, said in (
        (["logs", "train", "--since", "soon"], "'soon' is no duration"),
        (["logs", "train", "-f", "-p"], "what has ended cannot be followed"),
        (["logs", "train", "--tail", "-1"], "greater than or equal to 0"),
        (["logs"], "Missing argument"),
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert said in " ".join(result.output.split())
