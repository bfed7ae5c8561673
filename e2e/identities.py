"""Our programs under exactly the rights that the charts give them, instead of an administrator's.

At the hub: the ServiceAccount of the hub's chart, and for every member a client certificate that names it, with the rights that
the hub itself gives to its group. In a member: the ServiceAccounts of the member's chart. What is issued lies in the folder of
the federation; `e2e.programs` uses it for whatever is started from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from apis import kinds
from e2e import channel, charts, programs
from e2e.apply import wait_for
from e2e.charts import Doc
from e2e.controlplane.fleet import Federation
from federation.clusters import guard, rights
from machinery.errors import AlreadyExists
from machinery.kube import KubePort

NOT_HERE: Final = frozenset({"Deployment", "Job"})
"""Programs run as processes of the test."""
ACCOUNTS: Final = {"run": "member-agent", "fencer": "member-fencer"}


def objects(chart: str, *, values: Mapping[str, Any] | None = None) -> list[Doc]:
    """What a chart brings, the programs themselves and what only hooks need apart."""
    return [doc for doc in charts.render(chart, values=values) if doc["kind"] not in NOT_HERE and not charts.is_hook(doc)]


async def issue(federation: Federation) -> None:
    """Put what both charts bring in place and write the kubeconfigs; every member has a Cluster, as joining makes it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_issue_hub(federation))
        for name in federation.members:
            group.create_task(_issue_member(federation, name))


async def _issue_hub(federation: Federation) -> None:
    await charts.put(federation.hub, objects("federation", values=channel.VALUES))
    bearer = await charts.token(federation.hub, programs.HUB)
    path = programs.identity(federation, programs.HUB, side="hub")
    path.parent.mkdir(exist_ok=True)
    charts.kubeconfig_with(path, like=federation.hub.kubeconfig, bearer=bearer)
    port = await KubePort.from_kubeconfig(str(federation.hub.kubeconfig))
    try:
        for name in federation.members:
            body = {"apiVersion": kinds.CLUSTER.api_version, "kind": kinds.CLUSTER.kind, "metadata": {"name": name}}
            try:
                await port.create(kinds.CLUSTER, {**body, "spec": {"syncMode": "Pull"}})
            except AlreadyExists:
                continue
    finally:
        await port.close()


async def _issue_member(federation: Federation, name: str) -> None:
    member = federation.members[name]
    await charts.put(member, objects("member-agent", values={"cluster": name, **channel.VALUES}))
    groups = (guard.AGENTS, rights.group_of(name))
    certificate = federation.hub.kubeconfig_for(name, groups=groups).read_text()
    for process, account in ACCOUNTS.items():
        here = programs.identity(federation, programs.process_name(name, process), side="local")
        here.parent.mkdir(exist_ok=True)
        charts.kubeconfig_with(here, like=member.kubeconfig, bearer=await charts.token(member, account))
        there = programs.identity(federation, programs.process_name(name, process), side="hub")
        there.write_text(certificate)
        there.chmod(0o644)  # programs read it as another user


async def start(federation: Federation) -> None:
    """Hub, then every member once it may register."""
    programs.start_hub(federation)
    port = await KubePort.from_kubeconfig(str(federation.hub.kubeconfig))
    try:
        for name in federation.members:
            binding = f"volcano-federation:member:{name}"
            await wait_for(port, kinds.CLUSTER_ROLE_BINDING, binding, until=lambda doc: doc is not None)
    finally:
        await port.close()
    for name in federation.members:
        programs.start_member(federation, name)
