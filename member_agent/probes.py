"""Asks pods of this member whether they answer, for steps of flows (protocol.md 8, "Probes").

Only pods of the Jobs in question are asked, at their own addresses and ports: a pod on its node's network shares the address
with the node, so that only the ports which its containers declare count as its own. Redirects are not followed, headers that
carry identity or concern the connection are not sent, an answer is read up to 64 KiB and waited for 5 seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from apis import keys, kinds
from controllers.flows.plans import ProbeWanted
from machinery import errors
from machinery.port import Port
from policies.flows.spec import HttpGet

TIMEOUT: Final = 5.0
MAX_ANSWER: Final = 64 * 1024
PODS_AT_ONCE: Final = 16
NOT_SENT: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
NOT_SENT_BEGINNINGS: Final = ("x-remote-", "x-forwarded-", "impersonate-", "proxy-", "sec-")
"""What proxies and API servers say of whom they vouch for."""
PORTS: Final = range(1, 65536)


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None

    def of(self, owner: str) -> bool:
        """Whether it is controlled by the object of this UID ("": any)."""
        return not owner or any(each.controller and each.uid == owner for each in self.owner_references or ())


class _ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    container_port: int = 0


class _Container(msgspec.Struct, frozen=True):
    ports: list[_ContainerPort] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    host_network: bool = False
    containers: list[_Container] | None = None

    @property
    def ports(self) -> frozenset[int] | range:
        """Those that are the pod's own."""
        if not self.host_network:
            return PORTS
        return frozenset(each.container_port for container in self.containers or () for each in container.ports or ())


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    pod_ip: str = msgspec.field(name="podIP", default="")
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


@dataclass(frozen=True, slots=True)
class _Target:
    name: str
    task: str
    address: str
    ports: frozenset[int] | range


_decode = msgspec.json.Decoder(_Pod).decode


class PodProber:
    """Reaches pods of one API server's cluster from where this program runs."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._gate = asyncio.Semaphore(PODS_AT_ONCE)

    async def ask(self, namespace: str, wanted: ProbeWanted, *, owner: str = "") -> str:
        """ "" when every pod answers, else which does not and how. `owner`: only pods that the object of this UID controls."""
        for job in wanted.jobs:
            try:
                pods = await self._pods(namespace, job, owner=owner)
            except errors.ApiError as error:
                return f"pods of Job {job}: {error.message}"
            said = await self._job(job, pods, wanted)
            if said:
                return said
        return ""

    async def _pods(self, namespace: str, job: str, *, owner: str) -> list[_Target]:
        found: list[_Target] = []
        token = ""
        while True:
            page = await self._port.list(kinds.POD, namespace=namespace, labels=f"{keys.JOB_NAME}={job}", continue_token=token)
            for item in page.items:
                pod = _decode(item)
                task = (pod.metadata.annotations or {}).get(keys.TASK_SPEC, "")
                if pod.metadata.of(owner):
                    address = pod.status.pod_ip if pod.status.phase == "Running" else ""
                    found.append(_Target(pod.metadata.name, task, address, pod.spec.ports))
            token = page.continue_token
            if not token:
                return found

    async def _job(self, job: str, pods: Sequence[_Target], wanted: ProbeWanted) -> str:
        questions: list[tuple[str, int, HttpGet | None]] = [
            (each.task_name, each.port, each) for each in wanted.probe.http_get_list or ()
        ]
        questions += [(each.task_name, each.port, None) for each in wanted.probe.tcp_socket_list or ()]
        for task, number, get in questions:
            meant = [pod for pod in pods if not task or pod.task == task]
            if not meant:
                return f"Job {job} has no pod of task {task}" if task else f"Job {job} has no pod"
            answers = await asyncio.gather(*(self._one(pod, number, get) for pod in meant))
            said = next((answer for answer in answers if answer), "")
            if said:
                return said
        return ""

    async def _one(self, pod: _Target, number: int, get: HttpGet | None) -> str:
        if not pod.address:
            return f"pod {pod.name} is not running"
        if number not in pod.ports:
            return f"pod {pod.name}: port {number} is not one of its own"
        async with self._gate:
            try:
                async with asyncio.timeout(TIMEOUT):
                    return await (_connect(pod, number) if get is None else _get(pod, number, get))
            except TimeoutError:
                return f"pod {pod.name}: port {number} does not answer within {TIMEOUT:.0f} s"
            except (OSError, aiohttp.ClientError, ValueError) as error:
                return f"pod {pod.name}: port {number}: {error or type(error).__name__}"


async def _connect(pod: _Target, number: int) -> str:
    _, writer = await asyncio.open_connection(pod.address, number)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""


async def _get(pod: _Target, number: int, get: HttpGet) -> str:
    header = get.http_header
    headers = {header.name: header.value} if header is not None and _may_be_sent(header.name) else {}
    host = f"[{pod.address}]" if ":" in pod.address else pod.address
    # After a slash of ours nothing in the path can lead to another host.
    url = URL(f"http://{host}:{number}/{get.path.lstrip('/')}")
    async with (
        aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.get(url, headers=headers, allow_redirects=False) as answer,
    ):
        await answer.content.read(MAX_ANSWER)
        fine = 200 <= answer.status < 400
        return "" if fine else f"pod {pod.name}: {get.path} on port {number} answers {answer.status}"


def _may_be_sent(name: str) -> bool:
    lower = name.strip().lower()
    return lower not in NOT_SENT and not lower.startswith(NOT_SENT_BEGINNINGS)
