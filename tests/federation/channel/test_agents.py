"""The agents' door: a certificate speaks for one member, and nobody answers for another."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from apis import kinds
from controllers.channel import messages
from controllers.channel.messages import LogsAsked, Notice, ProbeAsked, Probed
from controllers.channel.tls import pin
from tests.federation.channel.house import TEAM, House, Member, house, until


@contextlib.asynccontextmanager
async def stranger(built: House, client: tuple[Path, Path] | None) -> AsyncIterator[aiohttp.ClientSession]:
    """Somebody who shows this certificate at the agents' door."""
    context = ssl.create_default_context(cadata=built.hub_ca.ca.read_text())
    if client is not None:
        context.load_cert_chain(*client)
    async with aiohttp.ClientSession(built.agents_url, connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def status_of(built: House, client: tuple[Path, Path] | None) -> int:
    """What the door says to somebody: 101 when it lets them in, 0 when there is no connection."""
    async with stranger(built, client) as session:
        try:
            async with session.ws_connect(messages.CONTROL):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status
        except (aiohttp.ClientError, OSError):
            return 0


async def test_only_the_certificate_of_a_registered_member_is_let_in(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        assert await status_of(built, built.agents_ca.client("east")) == 101
        assert await status_of(built, built.agents_ca.client("nobody")) == 403  # no such member
        assert await status_of(built, built.agents_ca.client("east", organization="people", file="user")) == 403
        assert await status_of(built, built.agents_ca.client("", file="nameless")) == 403
        assert await status_of(built, built.front_ca.client("east")) == 0  # another authority
        assert await status_of(built, None) == 0


async def test_a_connection_ends_with_its_member_and_with_its_certificate(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        await built.member("west", dial=False)
        for name in ("east", "west"):
            async with stranger(built, built.agents_ca.client(name)) as session:
                async with session.ws_connect(messages.CONTROL) as socket:
                    await until(lambda name=name: name in built.channel.switchboard.clusters)
                    if name == "east":
                        await built.hub.delete(kinds.CLUSTER, "east")
                    else:
                        built.clock.ahead = datetime.timedelta(days=2)
                    assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
                    assert socket.close_code == 1008
                await until(lambda: built.channel.switchboard.clusters == [])


async def test_nobody_answers_for_another_member(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        await built.member("west", dial=False)
        await built.job("train", "east")
        async with (
            stranger(built, built.agents_ca.client("east")) as east,
            stranger(built, built.agents_ca.client("west")) as west,
            east.ws_connect(messages.CONTROL) as socket,
            west.ws_connect(messages.CONTROL) as other,
        ):
            await until(lambda: built.channel.switchboard.clusters == ["east", "west"])
            asking = asyncio.create_task(built.logs("train"))
            ask = messages.read_ask((await socket.receive()).data)
            assert isinstance(ask, LogsAsked)
            forged = messages.encode_lines([Notice("trust me", cluster="east")])
            async with west.post(f"{messages.ANSWERS}{ask.number}", data=forged) as answer:
                assert answer.status == 410
            await other.send_str(messages.encode(Probed(ask.number, "trust me")).decode())
            honest = messages.encode_lines([Notice("from \x1b[31mme\nand more", "pod] [west/x\n", cluster="west")])
            async with east.post(f"{messages.ANSWERS}{ask.number}", data=honest) as answer:
                assert answer.status == 204
            # Under the name that its certificate has, whatever it says.
            assert await asking == "-- [east/podwestx] from me and more\n"
            async with east.post(f"{messages.ANSWERS}{ask.number}", data=honest) as answer:
                assert answer.status == 410  # once


@pytest.mark.parametrize("sent", [b"nonsense\n", b'{"type":"lines"}\n', b"x" * (messages.MAX_RECORD + 10)])
async def test_what_is_no_record_ends_the_answer_with_a_word(tmp_path: Path, sent: bytes) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        await built.job("train", "east")
        async with stranger(built, built.agents_ca.client("east")) as east, east.ws_connect(messages.CONTROL) as socket:
            await until(lambda: built.channel.switchboard.clusters == ["east"])
            asking = asyncio.create_task(built.logs("train"))
            ask = messages.read_ask((await socket.receive()).data)
            with contextlib.suppress(aiohttp.ClientError):
                async with east.post(f"{messages.ANSWERS}{ask.number}", data=sent) as answer:
                    assert answer.status == 400
            assert await asking == "-- [east] its agent sent something that cannot be read\n"


async def test_what_is_no_message_ends_the_connection(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        async with stranger(built, built.agents_ca.client("east")) as east, east.ws_connect(messages.CONTROL) as socket:
            await socket.send_str('{"type":"root"}')
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_new_certificates_are_shown_and_asked_for_without_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east", dial=False)
        old = built.agents_ca.client("east")
        assert await status_of(built, old) == 101
        new = type(built.agents_ca)(tmp_path, "renewed")
        built.agents_ca.ca.write_bytes(new.ca.read_bytes())
        fresh = new.client("east")
        while await status_of(built, fresh) != 101:
            pass
        assert await status_of(built, old) == 0


async def refused_by(member: Member, house: House, **settings: object) -> None:
    """Its agent dials with these settings and never gets in."""
    house.dial(member, **settings)
    for _ in range(200):
        await asyncio.sleep(0.001)
        assert member.name not in house.channel.switchboard.clusters
    await house.hang_up(member.name)


async def test_an_agent_believes_only_the_authority_that_is_pinned_and_the_name_it_dialled(tmp_path: Path) -> None:
    from cryptography import x509

    async with house(tmp_path) as built:
        east = await built.member("east", dial=False)
        right = pin(x509.load_pem_x509_certificate(built.hub_ca.pair.certificate))
        await refused_by(east, built, ca_pins=("sha256:" + "0" * 64,))
        await refused_by(east, built, ca=built.front_ca.ca)
        await refused_by(east, built, hubs=(built.agents_url.replace("127.0.0.1", "127.0.0.2"),))
        built.dial(east, ca_pins=(right,), hubs=(built.agents_url.replace("127.0.0.1", "localhost"),))
        await until(lambda: built.channel.switchboard.clusters == ["east"])


async def test_an_agent_that_lost_the_hub_dials_again(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.member("east")
        await built.job("train", "east")
        line = built.channel.switchboard._lines["east"][-1]
        await built.hub.delete(kinds.CLUSTER, "east")
        await until(lambda: built.channel.switchboard.clusters == [])
        body = {
            "apiVersion": kinds.CLUSTER.api_version,
            "kind": "Cluster",
            "metadata": {"name": "east"},
            "spec": {"syncMode": "Pull"},
        }
        await built.hub.create(kinds.CLUSTER, body)
        await until(lambda: built.channel.switchboard.clusters == ["east"])
        assert built.channel.switchboard._lines["east"][-1] is not line


# --- what an agent answers -------------------------------------------------------------------------------------------


async def said(built: House, ask: LogsAsked | ProbeAsked) -> str:
    """What the agent of east says to a question of the hub, whoever put it up to ask."""
    switchboard = built.channel.switchboard
    if isinstance(ask, ProbeAsked):
        return await switchboard.probe(
            "east", job=ask.job, namespace=ask.namespace, gets=ask.http_get_list, sockets=ask.tcp_socket_list
        )
    from federation.channel.switchboard import Reception

    reception = Reception()
    leg = switchboard.logs("east", job=ask.job, namespace=ask.namespace, options=ask.options, reception=reception)
    found = [record async for record in reception.records()]
    return leg.trouble or "".join(record.text for record in found)


async def test_an_agent_speaks_only_of_jobs_that_a_work_here_is_of(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        uid = await built.job("train", "east")
        await east.pod("train-main-0", job="train")
        east.logs.of("train-main-0").add(b"mine\n")
        await east.job("private", work_uid="")
        await east.pod("private-main-0", job="private")
        assert await said(built, LogsAsked(0, uid, TEAM)) == "mine\n"
        for job, namespace in (("another", TEAM), ("", TEAM), (uid, "other"), (east.uids["private"], TEAM)):
            assert await said(built, LogsAsked(0, job, namespace)) == "no Work here is of this Job"
            assert await said(built, ProbeAsked(0, job, namespace)) == "no Work here is of this Job"


async def test_a_pod_with_the_labels_of_a_job_and_another_owner_is_not_its_pod(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        uid = await built.job("train", "east")
        await east.pod("train-main-0", job="train", owner="somebody")
        east.logs.of("train-main-0").add(b"not yours\n")
        assert await said(built, LogsAsked(0, uid, TEAM)) == "there is no such pod or container here"
        assert east.logs.queries == []


async def test_a_job_that_was_made_by_somebody_else_under_the_same_name_is_not_spoken_of(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        east = await built.member("east")
        uid = await built.job("train", "east")
        await east.port.delete(kinds.JOB, "train", namespace=TEAM)
        await east.job("train", work_uid="of-nobody")
        await east.pod("train-main-0", job="train")
        await until(lambda: True)
        text = await said(built, LogsAsked(0, uid, TEAM))
        assert text in (f"Job {TEAM}/train has not been made here", "there is no such pod or container here")
        assert east.logs.queries == []
