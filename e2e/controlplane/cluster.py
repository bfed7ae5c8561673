"""One running cluster: boots a control plane and its nodes, and lets a test break and mend its parts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from e2e.controlplane import build, certs, commands, kwok, node, render
from e2e.controlplane.api import Api, ApiRefused
from e2e.controlplane.certs import Authority
from e2e.controlplane.plan import ClusterPlan, NodePlan, NodeSource
from e2e.controlplane.process import Processes, ProcessFailed, Programs

READY_TIMEOUT = 120.0
"""Seconds within which a control plane, or all its nodes, must be ready."""
ADMINISTRATORS = ("system:masters",)


@dataclass(frozen=True, slots=True)
class Parts:
    """What clusters of a run share: built programs, the machine's size, images, choices."""

    built: build.Programs
    machine: render.Machine
    busybox: Path
    images: Sequence[Mapping[str, Any]] = ()
    audit: bool = False
    gogc: int | None = None
    """Garbage collection target of API server and etcd, percent; None for Go's own 100."""


class RunningCluster:
    """A hub or a member. `kubeconfig` is an administrator's."""

    def __init__(self, plan: ClusterPlan, *, parts: Parts, say: Callable[[str], None]) -> None:
        self.plan = plan
        self._parts = parts
        self._say = say
        self._authority = Authority(plan.certs, name=plan.name)
        self.programs = Programs(Processes(records=plan.folder / "processes", logs=plan.logs))

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def kubeconfig(self) -> Path:
        return self.plan.kubeconfig

    @property
    def logs(self) -> Path:
        return self.plan.logs

    @property
    def source(self) -> NodeSource:
        """Where its nodes come from."""
        return self.plan.source

    @property
    def audit_log(self) -> Path:
        """JSON lines of every finished write, when the federation was started with `audit`."""
        return self.plan.folder / "audit.log"

    @property
    def node_names(self) -> tuple[str, ...]:
        return (*(planned.name for planned in self.plan.nodes), *self.plan.kwok_nodes)

    def api(self, *, connections: int = 100, user_agent: str = "raw") -> Api:
        """A raw client as administrator; use it with `async with`."""
        return Api(self.kubeconfig, connections=connections, user_agent=user_agent)

    def kubeconfig_for(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig of another user, for whom only RBAC speaks."""
        path = self.plan.folder / f"{user.replace(':', '-')}.kubeconfig"
        identity = self._authority.client(user, groups=groups)
        path.write_text(render.kubeconfig(server=self.plan.server, name=self.name, identity=identity))
        return path

    # --- boot --------------------------------------------------------------------------------------------------------
    async def boot(self) -> None:
        """Starts everything and returns when the API server serves, controllers run and every node is Ready."""
        self._write_files()
        self.programs.start("etcd", command=commands.etcd(self._parts.built, cluster=self.plan), environment=self._go())
        command = commands.apiserver(self._parts.built, cluster=self.plan, audit=self._parts.audit)
        self.programs.start("apiserver", command=command, environment=self._go())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._boot_controllers())
            group.create_task(self._boot_machines())
        if self.plan.nodes:
            for planned in self.plan.nodes:
                node.start_kubelet(planned, programs=self.programs, built=self._parts.built)
        elif self.plan.kwok_nodes:
            self.programs.start("kwok", command=commands.kwok(self._parts.built, cluster=self.plan))
        async with self.api() as api:
            if self.plan.kwok_nodes:
                await kwok.create_nodes(api, cluster=self.plan)
            await self._wait_nodes(api)
            await self._wait_for(api, "/api/v1/namespaces/default/serviceaccounts/default")
        self._say(
            f"{self.name}: ready, {len(self.node_names)} nodes ({self.source})" if self.node_names else f"{self.name}: ready"
        )

    def _go(self) -> dict[str, str]:
        return {} if self._parts.gogc is None else {"GOGC": str(self._parts.gogc)}

    def _write_files(self) -> None:
        plan, authority = self.plan, self._authority
        alternatives = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        serving = authority.server(names=alternatives, addresses=("127.0.0.1", plan.switch_address))
        certs.write(serving, folder=plan.certs, name="apiserver")
        caller = authority.client("apiserver-kubelet-client", groups=ADMINISTRATORS)
        certs.write(caller, folder=plan.certs, name="kubelet-client")
        front = Authority(plan.certs / "front-proxy", name=f"{plan.name}-front-proxy")
        certs.write(front.client("front-proxy-client"), folder=plan.certs, name="front-proxy-client")
        certs.write_service_account_key(plan.certs)
        administrator = authority.client("admin", groups=ADMINISTRATORS)
        plan.kubeconfig.touch(mode=0o600)
        plan.kubeconfig.write_text(render.kubeconfig(server=plan.server, name=plan.name, identity=administrator))
        (plan.folder / "egress.yaml").write_text(render.egress_selector(plan))
        (plan.folder / "audit-policy.yaml").write_text(render.audit_policy())
        (plan.folder / "kwok.yaml").write_text(kwok.configuration())
        for planned in plan.nodes:
            node.write_node_files(plan, planned, authority=authority, machine=self._parts.machine)

    async def _boot_controllers(self) -> None:
        async with self.api() as api:
            await self._wait_for(api, "/readyz")
        self._say(f"{self.name}: API server ready")
        self.programs.start("controller-manager", command=commands.controller_manager(self._parts.built, cluster=self.plan))

    async def _boot_machines(self) -> None:
        if not self.plan.nodes:
            return
        for planned in self.plan.nodes:
            node.make_cgroup(planned)
        await node.start_sandboxes(self.plan, programs=self.programs)
        await node.start_relay(self.plan, programs=self.programs, busybox=self._parts.busybox, images=self._parts.images)
        for planned in self.plan.nodes:
            await node.start_runtime(planned, programs=self.programs)
        self._say(f"{self.name}: {len(self.plan.nodes)} sandboxes with container runtimes")

    # --- waiting -----------------------------------------------------------------------------------------------------
    async def _wait_for(self, api: Api, path: str) -> None:
        """Until the path answers 200; ProcessFailed with logs when a part of the control plane ends or time is up."""
        deadline = time.monotonic() + READY_TIMEOUT
        last: Exception | None = None
        while time.monotonic() < deadline:
            self.programs.record("etcd")
            self.programs.record("apiserver")
            try:
                await api.raw("GET", path)
                return
            except (ApiRefused, aiohttp.ClientError) as error:
                last = error
            await asyncio.sleep(0.1)
        raise ProcessFailed(f"{self.name}: {path} did not answer within {READY_TIMEOUT:.0f} s: {last}; logs in {self.logs}")

    async def _wait_nodes(self, api: Api) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        wanted = set(self.node_names)
        adjusted: set[str] = set()
        while wanted:
            listed = (await api.get("/api/v1/nodes"))["items"]
            for item in listed:
                if self.plan.nodes and item["metadata"]["name"] not in adjusted:
                    await self._adjust(api, item["metadata"]["name"])
                    adjusted.add(item["metadata"]["name"])
            wanted -= {item["metadata"]["name"] for item in listed if usable(item)}
            if wanted and time.monotonic() > deadline:
                raise ProcessFailed(
                    f"{self.name}: not ready within {READY_TIMEOUT:.0f} s: {sorted(wanted)}; logs in {self.logs}"
                )
            if wanted:
                for planned in self.plan.nodes:
                    self.programs.record(f"kubelet-{planned.number}")
                await asyncio.sleep(0.1)

    async def _adjust(self, api: Api, name: str) -> None:
        """Labels and extended resources of a real node, which a kubelet may not give itself."""
        if self.plan.labels:
            await api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict(self.plan.labels)}})
        if self.plan.shape.extended:
            amounts = {resource: str(amount) for resource, amount in self.plan.shape.extended.items()}
            await api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": amounts, "allocatable": amounts}})

    # --- breaking and mending ----------------------------------------------------------------------------------------
    def stop(self, component: str) -> None:
        """SIGKILL to "etcd", "apiserver", "controller-manager", "kwok" or "relay" (cuts real nodes off from their API
        server)."""
        self.programs.kill(component)

    async def start(self, component: str) -> None:
        """Starts a stopped component again; returns when the API server serves."""
        self.programs.restart(component)
        async with self.api() as api:
            await self._wait_for(api, "/readyz")

    def _planned(self, name: str) -> NodePlan:
        for planned in self.plan.nodes:
            if planned.name == name:
                return planned
        raise KeyError(f"{name} is no real node of {self.name}")

    def kill_kubelet(self, name: str) -> None:
        """SIGKILL to one kubelet: its containers go on."""
        self.programs.kill(f"kubelet-{self._planned(name).number}")

    def start_kubelet(self, name: str) -> None:
        """Starts a killed kubelet again."""
        self.programs.restart(f"kubelet-{self._planned(name).number}")

    def kill_node(self, name: str) -> None:
        """The machine is gone: every process of a real node, containers included, at once."""
        self.programs.kill(f"sandbox-{self._planned(name).number}")


def usable(item: Mapping[str, Any]) -> bool:
    """Whether a Node is Ready and has no taint left from its start."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in item.get("status", {}).get("conditions", []))
    taints = item.get("spec", {}).get("taints", [])
    return ready and not any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in taints)
