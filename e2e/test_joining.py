"""A cluster joins on real control planes: a token that is good once, a certificate that the hub's own controllers sign, rights
that are its own and nobody else's."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from apis import kinds
from e2e import confined, programs
from e2e.apply import wait_for
from e2e.controlplane.fleet import Federation
from fedctl import joining
from fedctl.joining import Hub, Wish
from machinery import errors
from machinery.clock import Chance
from machinery.kube import KubePort
from member_agent.joining import credential
from policies.joining import Token

pytestmark = pytest.mark.issue(8)

NAMESPACE = "federation-system"


async def invited(running: Federation, hub_port: KubePort, cluster: str) -> tuple[Hub, Token]:
    """What `fedctl cluster join` leaves at the hub, and the token."""
    token = joining.new_token(Chance())
    expires = datetime.datetime.now(datetime.UTC) + joining.LIFE
    await joining.prepare(hub_port, Wish(cluster), token=token, expires=expires)
    return joining.hub_of(running.hub.kubeconfig, None), token


async def join(running: Federation, *, cluster: str, hub: Hub, token: Token, secret: str) -> tuple[int, str]:
    """`member-agent join` as the chart's hook runs it, in the member north; its exit status and what it says."""
    folder = running.work / "joining"  # where another user may read
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes(hub.authority)
    (folder / "token").write_text(str(token))
    (folder / "member").write_bytes(running.members["north"].kubeconfig.read_bytes())
    command = [*confined.prefix(), programs.executable("member-agent"), "join", "--cluster", cluster, "--server", hub.server]
    command += ["--ca-file", str(folder / "ca.crt"), "--token-file", str(folder / "token"), "--secret", secret]
    command += ["--kubeconfig", str(folder / "member")]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def credential_of(member: KubePort, secret: str) -> dict[str, bytes]:
    return credential.parts_of(orjson.loads(await member.get(kinds.SECRET, secret, namespace=NAMESPACE)))


async def test_a_cluster_joins_by_a_token_and_reaches_what_is_its_own(
    running: Federation, hub_port: KubePort, member_ports: dict[str, KubePort], tmp_path: Path
) -> None:
    hub, token = await invited(running, hub_port, "south")
    try:
        code, said = await join(running, cluster="south", hub=hub, token=token, secret="south-hub")
        assert (code, said.strip()) == (0, "cluster south has joined")
        binding = "volcano-federation:member:south"
        await wait_for(hub_port, kinds.CLUSTER_ROLE_BINDING, binding, until=lambda doc: doc is not None)

        config = tmp_path / "south.kubeconfig"
        config.write_bytes((await credential_of(member_ports["north"], "south-hub"))["kubeconfig"])
        south = await KubePort.from_kubeconfig(str(config))
        try:
            cluster: dict[str, Any] = orjson.loads(await south.get(kinds.CLUSTER, "south"))
            assert cluster["spec"]["syncMode"] == "Pull"
            for other in ("east", "west"):
                with pytest.raises(errors.Forbidden):
                    await south.get(kinds.CLUSTER, other)
        finally:
            await south.close()

        # Once more: what is good is kept. By a thief, elsewhere: the token was used.
        code, said = await join(running, cluster="south", hub=hub, token=token, secret="south-hub")
        assert code == 0 and "the token is not used" in said
        code, said = await join(running, cluster="south", hub=hub, token=token, secret="stolen-hub")
        assert code == 1 and "used already" in said and "Traceback" not in said
    finally:
        await hub_port.delete(kinds.CLUSTER, "south")


async def test_a_stolen_token_makes_nobody_another_member(running: Federation, hub_port: KubePort) -> None:
    hub, token = await invited(running, hub_port, "southwest")
    try:
        code, said = await join(running, cluster="west", hub=hub, token=token, secret="thief-hub")
        assert code == 1 and "CN is west, and must be southwest" in said and "Traceback" not in said
    finally:
        await hub_port.delete(kinds.CLUSTER, "southwest")


async def test_a_member_that_is_alive_is_not_joined_again(running: Federation, hub_port: KubePort) -> None:
    await wait_for(hub_port, kinds.CLUSTER, "east", until=lambda doc: _ready(doc))
    with pytest.raises(joining.CannotJoin, match="its agent is alive"):
        await invited(running, hub_port, "east")


def _ready(doc: dict[str, Any] | None) -> bool:
    conditions = ((doc or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
