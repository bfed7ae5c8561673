"""Our CRDs on the API servers of a booted federation, put there as our own programs do it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from apis.kinds import Kind
from e2e.controlplane.cluster import RunningCluster
from machinery.clock import Chance, SystemClock
from machinery.crds import apply_crds, packaged
from machinery.kube import KubePort
from machinery.retry import reading


def _kind(definition: Mapping[str, Any]) -> Kind:
    names, spec = definition["spec"]["names"], definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return Kind(spec["group"], version, names["kind"], names["plural"], namespaced=spec["scope"] == "Namespaced")


async def install(clusters: list[RunningCluster]) -> None:
    """Applies every CRD to every cluster, all at once, and waits until all are served."""

    async def one(cluster: RunningCluster) -> None:
        port = await KubePort.from_kubeconfig(str(cluster.kubeconfig))
        try:
            served = packaged()
            await apply_crds(port, served, clock=SystemClock())
            for definition in served:
                # An established kind answers "storage is (re)initializing" for a moment.
                await reading(partial(port.list, _kind(definition), limit=1), clock=SystemClock(), chance=Chance(), attempts=20)
        finally:
            await port.close()

    async with asyncio.TaskGroup() as group:
        for cluster in clusters:
            group.create_task(one(cluster))
    # TLS connections are let go in the next turns of the loop, which may be its last.
    await asyncio.sleep(0.01)
