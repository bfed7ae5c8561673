"""Logs of a Job, from the containers of its members to who asked: over real TLS, with API servers in memory."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from pathlib import Path

import orjson
import pytest

from controllers.channel.settings import Limits
from machinery import errors
from tests.federation.channel.house import TEAM, House, house, until


async def pods_of(built: House, cluster: str, job: str, **logs: str) -> None:
    """Pods of a Job, each with its log."""
    member = built.members[cluster]
    for name, text in logs.items():
        pod = name.replace("_", "-")
        await member.pod(pod, job=job)
        member.logs.of(pod).add(text.encode())


async def test_the_logs_of_all_pods_over_all_members_come_under_their_names(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.member("west")
        await built.job("train", "east", "west")
        await pods_of(built, "east", "train", train_main_0="one\ntwo\n")
        await pods_of(built, "west", "train", train_main_1="three\nfour")
        text = await built.logs("train")
        assert sorted(text.splitlines()) == [
            "[east/train-main-0] one",
            "[east/train-main-0] two",
            "[west/train-main-1] four",
            "[west/train-main-1] three",
        ]


async def test_the_kubelets_parameters_are_passed_on_and_task_and_pod_choose(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        await east.pod("train-side-0", job="train", task="side", containers=("web", "log"))
        east.logs.of("train-side-0", "web").add(b"x\n")
        more = {"tailLines": "5", "sinceSeconds": "60", "timestamps": "true", "previous": "true", "container": "web"}
        assert await built.logs("train", task="side", **more) == "[east/train-side-0] x\n"
        assert east.logs.queries == [
            (f"/api/v1/namespaces/{TEAM}/pods/train-side-0/log", {**more}),
        ]
        await built.logs("train", task="side", pod="train-side-0")
        assert sorted(query["container"] for _, query in east.logs.queries[1:]) == ["log", "web"]


async def test_records_name_where_they_are_from_for_programs_that_ask(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="one\n")
        records = [orjson.loads(line) for line in (await built.logs("train", format="json")).splitlines()]
        assert records == [{"type": "lines", "pod": "train-main-0", "container": "main", "text": "one\n", "cluster": "east"}]


async def test_what_is_printed_does_nothing_to_a_terminal_nor_to_a_page(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="\x1b]0;owned\x07\x1b[31mred\x1b[0m\x07 10%\r<b>20%</b>\n")
        assert await built.logs("train") == "[east/train-main-0] red 10%\n[east/train-main-0] <b>20%</b>\n"
        async with built.person("train", headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert "&lt;b&gt;20%&lt;/b&gt;" in text and "<b>" not in text and "\x1b" not in text


async def test_a_container_that_waits_or_cannot_be_read_is_told_and_holds_up_no_other(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train", started=False)
        await east.pod("train-main-1", job="train")
        east.logs.of("train-main-1").failure = errors.NotFound("the kubelet has it no more")
        await pods_of(built, "east", "train", train_main_2="fine\n")
        assert sorted((await built.logs("train")).splitlines()) == [
            "-- [east/train-main-0] container main waits: ContainerCreating",
            "-- [east/train-main-1] container main: the kubelet has it no more",
            "[east/train-main-2] fine",
        ]


async def test_following_brings_lines_as_they_come_new_pods_too_and_ends_with_the_job(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="one\n")
        async with built.person("train", follow="true", tailLines="10") as answer:
            assert await answer.content.readline() == b"[east/train-main-0] one\n"
            east.logs.of("train-main-0").add(b"two\n")
            assert await answer.content.readline() == b"[east/train-main-0] two\n"
            await east.pod("train-main-1", job="train")
            east.logs.of("train-main-1").add(b"late\n")
            assert await answer.content.readline() == b"[east/train-main-1] late\n"
            for pod in ("train-main-0", "train-main-1"):
                east.logs.of(pod).end()
            await east.phase("train", "Completed")
            assert await answer.content.read() == b""
        tails = {path.split("/")[-2]: query.get("tailLines") for path, query in east.logs.queries}
        assert tails == {"train-main-0": "10", "train-main-1": None}  # what came later is told from its beginning


async def test_a_log_that_breaks_off_is_followed_on_from_where_it_broke(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="again\n")
        east.logs.of("train-main-0").failure = errors.Unreachable("the kubelet went away")
        async with built.person("train", follow="true") as answer:
            assert await answer.content.readline() == b"-- [east/train-main-0] container main: the kubelet went away\n"
            assert await answer.content.readline() == b"[east/train-main-0] again\n"
        assert "sinceTime" in east.logs.queries[1][1]


async def test_whoever_hangs_up_leaves_nothing_running(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="one\n")
        async with built.person("train", follow="true") as answer:
            await answer.content.readline()
            assert east.logs.of("train-main-0").readers == 1
            assert built.channel.switchboard.answers == 1
        await until(lambda: built.channel.switchboard.answers == 0)
        await until(lambda: east.logs.of("train-main-0").readers == 0)


async def test_a_slow_reader_holds_the_member_back_and_memory_stays_small(tmp_path: Path) -> None:
    chunk = b"".join(b"%063d\n" % number for number in range(1024))  # 64 KiB
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        log = east.logs.of("train-main-0")
        log.add(*[chunk] * 1600)  # 100 MiB
        async with built.person("train") as answer:
            await answer.content.readline()
            before = -1
            while east.logs.read != before:  # nobody reads: it comes to rest
                before = east.logs.read
                for _ in range(200):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.05)
            assert east.logs.read < 50 << 20  # the rest waits in buffers of the kernel


async def test_a_hundred_megabytes_come_whole_in_bounded_memory(tmp_path: Path) -> None:
    chunk = b"".join(b"%063d\n" % number for number in range(1024))
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        east.logs.of("train-main-0").add(*[chunk] * 1600)  # 100 MiB, one chunk many times
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        lines = 0
        async with built.person("train") as answer:
            async for piece in answer.content.iter_any():
                lines += piece.count(b"\n")
        assert lines == 1600 * 1024
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 << 10  # KiB


async def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        east.logs.of("train-main-0").add(*["ä".encode() * 50_000] * 4)
        assert await built.logs("train") == "[east/train-main-0] " + "ä" * 200_000 + "\n"


async def test_more_than_the_limit_is_cut_with_a_word_about_it(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(bytes=1 << 20)) as built:
        east = await built.member("east")
        await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        east.logs.of("train-main-0").add(*[b"x" * 1023 + b"\n"] * 2048)
        text = await built.logs("train")
        assert text.endswith("-- [east] more than 1 MiB: ask for less, by tail, since, task or pod\n")
        assert len(text) < 1.1 * (1 << 20)


async def test_a_member_that_is_away_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.member("west", dial=False)
        await built.job("train", "east", "west")
        await built.job("lonely", "west")
        await pods_of(built, "east", "train", train_main_0="one\n")
        away = "its agent is not connected to this hub"
        assert sorted((await built.logs("train")).splitlines()) == [f"-- [west] {away}", "[east/train-main-0] one"]
        assert await built.refused("lonely") == (503, f"Job {TEAM}/lonely: cluster west: {away}")


async def test_a_member_that_goes_away_meanwhile_is_told(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="one\n")
        async with built.person("train", follow="true") as answer:
            await answer.content.readline()
            await built.hang_up("east")
            said = (await answer.content.read()).decode()
        assert said in (
            "-- [east] the connection to its agent was lost\n",
            "-- [east] its agent ended the answer before it was complete\n",
        )
        assert (await built.refused("train"))[0] == 503


@pytest.mark.parametrize("follows", [False, True])
async def test_one_user_does_not_take_all_the_room(tmp_path: Path, *, follows: bool) -> None:
    async with house(tmp_path, limits=Limits(per_user=2, at_once=3)) as built:
        built.hub.readers |= {("bob", TEAM)}
        await built.member("east")
        await built.job("train", "east")
        await pods_of(built, "east", "train", train_main_0="one\n")
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                answer = await stack.enter_async_context(built.person("train", follow="true"))
                await answer.content.readline()
            code, said = await built.refused("train", follow=str(follows).lower())
            assert (code, said) == (429, "you read 2 logs at once already")
            answer = await stack.enter_async_context(built.person("train", token="bob-token", follow="true"))
            await answer.content.readline()
            assert await built.refused("train", token="bob-token") == (429, "this hub sends 3 logs at once already")
        await until(lambda: built.channel.switchboard.answers == 0)
        assert await built.logs("train") == "[east/train-main-0] one\n"
