"""Who may read logs: the API server vouches or reviews, and says what somebody may; nobody learns more from a refusal."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from apis import kinds
from controllers.channel.messages import API, GROUP
from controllers.channel.settings import Limits
from controllers.channel.tls import Peer
from federation.channel import identity
from federation.channel.identity import FrontProxy, User
from tests.federation.channel.house import TEAM, House, house, until

PROXY = FrontProxy("pem", names=("front-proxy",))


async def train(built: House) -> None:
    """A Job of the team that says hello."""
    east = await built.member("east")
    await built.job("train", "east")
    await east.pod("train-main-0", job="train")
    east.logs.of("train-main-0").add(b"hello\n")


async def vouching(built: House, *, names: str = '["front-proxy"]') -> None:
    """The hub's API server has a front proxy, and the channel knows it."""
    data = {"requestheader-client-ca-file": built.front_ca.ca.read_text(), "requestheader-allowed-names": names}
    body = {"metadata": {"name": identity.CONFIGURATION}, "data": data}
    await built.hub.create(kinds.CONFIGMAP, body, namespace=identity.NAMESPACE)
    door = built.channel._people
    assert door is not None
    await until(lambda: door.proxy is not None)


async def test_a_token_reads_what_its_user_may_and_the_question_names_the_job(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await train(built)
        assert await built.logs("train") == "[east/train-main-0] hello\n"
        assert built.hub.asked[-1]["resourceAttributes"] == {
            "namespace": TEAM,
            "verb": "get",
            "group": "batch.volcano.sh",
            "version": "v1alpha1",
            "resource": "jobs",
            "subresource": "log",
            "name": "train",
        }


@pytest.mark.parametrize("token", ["", "forged", "x" * 20_000])
async def test_who_shows_no_good_token_is_nobody(tmp_path: Path, token: str) -> None:
    async with house(tmp_path) as built:
        await train(built)
        headers = {"X-Remote-User": "ada", "X-Remote-Group": "system:masters"}
        async with built.person("train", token=token[:7000], headers=headers) as answer:
            assert answer.status == 401
        assert built.hub.asked == []


async def test_who_has_no_right_hears_the_same_whether_the_job_exists_or_not(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await train(built)
        for name in ("train", "nothing"):
            code, said = await built.refused(name, token="bob-token")
            assert code == 403
            assert said == f'user "bob" cannot get jobs/log "{name}" of batch.volcano.sh in namespace "{TEAM}"'
        assert (await built.refused("train", namespace="other"))[0] == 403
        assert built.members["east"].logs.queries == []


async def test_a_flood_of_forged_tokens_is_looked_up_in_turn_and_keeps_nobody_out(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(reviews=1)) as built:
        await train(built)
        asking = [asyncio.create_task(built.refused("train", token=f"forged-{number}")) for number in range(20)]
        assert await built.logs("train") == "[east/train-main-0] hello\n"
        assert {code for code, _ in await asyncio.gather(*asking)} == {401}
        assert built.hub.most == 1


async def test_an_api_server_that_does_not_answer_lets_nobody_in(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await train(built)
        built.hub.broken = True
        assert (await built.refused("train"))[0] == 503
        assert built.members["east"].logs.queries == []


async def test_the_front_proxy_is_believed_by_its_certificate_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await train(built)
        await vouching(built)
        said = {"X-Remote-User": "ada", "X-Remote-Group": "researchers", "X-Remote-Extra-Scopes": "logs"}
        proxy = built.front_ca.client("front-proxy", organization="")
        assert await built.logs("train", token="", client=proxy, headers=said) == "[east/train-main-0] hello\n"
        asked = built.hub.asked[-1]
        assert (asked["user"], asked["groups"], asked["extra"]) == ("ada", ["researchers"], {"scopes": ["logs"]})
        # The right authority, another name: nobody. No certificate, or the header alone: nobody.
        other = built.front_ca.client("somebody", organization="")
        assert (await built.refused("train", token="", client=other, headers=said))[0] == 401
        assert (await built.refused("train", token="", headers=said))[0] == 401
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):  # another authority: no connection at all
            await built.logs("train", token="", client=built.agents_ca.client("front-proxy"), headers=said)


async def test_a_user_behind_the_front_proxy_is_held_against_their_rights_too(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await train(built)
        await vouching(built, names="[]")
        proxy = built.front_ca.client("anybody", organization="")
        code, said = await built.refused("train", token="", client=proxy, headers={"X-Remote-User": "bob"})
        assert (code, said.partition(" cannot")[0]) == (403, 'user "bob"')


def test_the_front_proxy_names_user_groups_and_extra_by_its_own_headers() -> None:
    headers = CIMultiDictProxy(
        CIMultiDict(
            [
                ("X-Remote-User", "ada"),
                ("X-Remote-Group", "a"),
                ("X-Remote-Group", "b"),
                ("X-Remote-Extra-Acme.com%2fproject", "one"),
                ("X-Remote-Extra-Acme.com%2fproject", "two"),
            ]
        )
    )
    user = identity.vouched(headers, peer=Peer("front-proxy", (), 0), proxy=PROXY)
    assert user == User("ada", groups=("a", "b"), extra={"acme.com/project": ("one", "two")})
    with_uid = CIMultiDictProxy(CIMultiDict([("X-Remote-User", "ada"), ("X-Remote-Uid", "7")]))
    assert identity.vouched(with_uid, peer=Peer("front-proxy", (), 0), proxy=PROXY) == User("ada")
    told = replace(PROXY, uid=("X-Remote-Uid",))
    assert identity.vouched(with_uid, peer=Peer("front-proxy", (), 0), proxy=told) == User("ada", "7")
    assert identity.vouched(headers, peer=Peer("other", (), 0), proxy=PROXY) is None
    assert identity.vouched(headers, peer=None, proxy=PROXY) is None
    assert identity.vouched(headers, peer=Peer("front-proxy", (), 0), proxy=None) is None
    nobody = CIMultiDictProxy(CIMultiDict([("X-Remote-Group", "system:masters")]))
    assert identity.vouched(nobody, peer=Peer("front-proxy", (), 0), proxy=PROXY) is None


def test_the_configuration_of_the_front_proxy_is_read_with_its_own_names() -> None:
    data = {
        "requestheader-client-ca-file": "pem",
        "requestheader-allowed-names": '["one","two"]',
        "requestheader-username-headers": '["X-User"]',
        "requestheader-group-headers": '["X-Group"]',
        "requestheader-extra-headers-prefix": '["X-Extra-"]',
    }
    read = identity.read_front_proxy(orjson.dumps({"data": data}))
    assert read == FrontProxy("pem", ("one", "two"), ("X-User",), (), ("X-Group",), ("X-Extra-",))
    assert identity.read_front_proxy(orjson.dumps({"data": {"client-ca-file": "pem"}})) is None


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Authorization": "Bearer abc"}, "abc"),
        ({"Authorization": "bearer  abc "}, "abc"),
        ({"Authorization": f"Basic {base64.b64encode(b'a:b').decode()}"}, ""),
        ({"Authorization": "Bearer " + "x" * 20_000}, ""),
        ({}, ""),
    ],
)
def test_a_bearer_token_is_what_the_header_says_and_not_endless(headers: dict[str, str], token: str) -> None:
    assert identity.bearer(CIMultiDictProxy(CIMultiDict(headers))) == token


async def test_it_says_of_itself_what_an_aggregated_api_must(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        context = ssl.create_default_context(cadata=built.hub_ca.ca.read_text())
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(built.people_url, connector=connector) as session:
            async with session.get(API) as answer:
                resources = await answer.json()
            assert (resources["groupVersion"], resources["resources"][0]["name"]) == (f"{GROUP}/v1alpha1", "jobs/log")
            async with session.get("/apis") as answer:
                assert (await answer.json())["groups"][0]["name"] == GROUP
            async with session.get(f"/apis/{GROUP}") as answer:
                assert (await answer.json())["preferredVersion"]["version"] == "v1alpha1"


async def test_a_job_that_has_no_pods_yet_says_so_and_one_that_is_not_there_too(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        await built.job("waits")
        assert await built.refused("waits") == (400, f"Job {TEAM}/waits waits and has no pods yet")
        assert await built.refused("nothing") == (404, 'jobs.batch.volcano.sh "nothing" not found')


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"folow": "true"}, "folow: no such parameter"),
        ({"follow": "maybe"}, "follow: 'maybe' is neither true nor false"),
        ({"tailLines": "-1"}, "tailLines: '-1' is no whole number"),
        ({"sinceSeconds": "99999999999"}, "sinceSeconds: '99999999999' is no whole number"),
        ({"sinceTime": "yesterday"}, "sinceTime: 'yesterday' is no time"),
        ({"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "1"}, "exclude each other"),
        ({"container": "../../secrets"}, "container: '../../secrets' is no name"),
        ({"format": "yaml"}, "format: 'yaml' is none of"),
    ],
)
async def test_a_question_that_cannot_be_understood_names_what(tmp_path: Path, query: dict[str, str], said: str) -> None:
    async with house(tmp_path) as built:
        await train(built)
        code, message = await built.refused("train", **query)
        assert code == 400 and said in message
