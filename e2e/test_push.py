"""A push member on real control planes: one process beside the hub, with the kubeconfig of the member and no fencer of its own.

`VF_PUSH=west` (names, or `all`) runs every other story with push members, too.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis import keys, kinds
from e2e import programs
from e2e.apply import Doc, apply, is_ready, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import job, on, text
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(6)]

MEMBER = "north"
"""Its nodes are simulated, and pods on them never end: what is told here is who asks whom, not what pods do."""


@contextlib.asynccontextmanager
async def pushed(running: Federation, hub: KubePort, *, member: str) -> AsyncIterator[None]:
    """The member as a push member, until the story is over."""
    command = programs.push_command(running, member)
    content = Path(command[command.index("--kubeconfig") + 1]).read_bytes()
    namespace, _, name = programs.push_secret(member).partition("/")
    secret = {"metadata": {"name": name}, "data": {"kubeconfig": base64.b64encode(content).decode()}}
    await hub.create(kinds.SECRET, {"apiVersion": "v1", "kind": "Secret", **secret}, namespace=namespace)
    for process in programs.processes_of(member):
        running.programs.terminate(process)
    programs.start_push(running, member)
    try:
        yield
    finally:
        running.programs.terminate(programs.agent_name(member))
        programs.start_member(running, member)
        await hub.delete(kinds.SECRET, name, namespace=namespace)
        mode = "Push" if programs.is_pushed(member) else "Pull"
        await wait_for(hub, kinds.CLUSTER, member, until=lambda doc: doc is not None and doc["spec"]["syncMode"] == mode)
        await wait_ready(hub, kinds.CLUSTER, names=[member])


def unarmed(doc: Doc | None) -> bool:
    conditions = ((doc or {}).get("status") or {}).get("conditions") or []
    return any((each["type"], each["reason"]) == ("FencingArmed", "PushMember") for each in conditions)


async def test_a_push_member_runs_jobs_and_is_never_armed(namespace: str, running: Federation, hub_port: KubePort) -> None:
    await wait_ready(hub_port, kinds.CLUSTER, names=[MEMBER])
    async with pushed(running, hub_port, member=MEMBER):
        await wait_for(hub_port, kinds.CLUSTER, MEMBER, until=lambda doc: is_ready(doc) and unarmed(doc))
        cluster = await wait_for(hub_port, kinds.CLUSTER, MEMBER, until=lambda doc: doc is not None)
        assert cluster is not None
        assert cluster["spec"]["syncMode"] == "Push"
        assert cluster["spec"]["secretRef"] == {"namespace": keys.execution_namespace(MEMBER), "name": f"{MEMBER}-push"}
        await apply(hub_port, text(on(MEMBER), job("pushed")), namespace=namespace)
        await wait_for(hub_port, kinds.JOB, "pushed", namespace=namespace, until=lambda doc: phase(doc) == "Running")
