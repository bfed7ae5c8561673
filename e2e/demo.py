"""`make demo-real`: the quick start on a real hub and two real members, everything torn down at the end."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

from apis import kinds
from e2e import crds, programs
from e2e.apply import apply, wait_ready
from e2e.controlplane.fleet import Federation, default_work
from e2e.controlplane.plan import Member
from fedctl.demo import NAMESPACE, QUICKSTART, flow_name, show
from machinery.clock import SystemClock
from machinery.kube import KubePort

TIMEOUT = 180.0
"""Seconds the flow may take; about 40 on two cores."""


async def main() -> int:
    """The demo's exit code: 0 only if the flow reached Succeed in the API."""
    console = Console()
    members = {"east": Member(nodes=2), "west": Member(nodes=2)}
    async with Federation(members, work=default_work("demo")) as federation:
        await crds.install(federation.clusters)
        programs.start_all(federation)
        console.print(f"kubectl sees the hub with: --kubeconfig {federation.hub.kubeconfig}", soft_wrap=True, highlight=False)
        port = await KubePort.from_kubeconfig(str(federation.hub.kubeconfig))
        try:
            async with asyncio.timeout(60):
                await wait_ready(port, kinds.CLUSTER, names=list(members))
            text = QUICKSTART.read_text()
            await apply(port, text, namespace=NAMESPACE)
            name = flow_name(text)
            return await show(port, namespace=NAMESPACE, name=name, console=console, clock=SystemClock(), timeout=TIMEOUT)
        finally:
            await port.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
