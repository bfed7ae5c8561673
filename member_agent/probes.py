"""Asks pods of this member whether they answer, for steps of flows (protocol.md 8, "Probes").

Only pods of the Jobs in question are asked, at their own addresses; redirects are not followed, headers that carry identity or
concern the connection are not sent, an answer is read up to 64 KiB and waited for 5 seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

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
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class _Meta(msgspec.Struct, frozen=True):
    name: str
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    pod_ip: str = msgspec.field(name="podIP", default="")
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()


@dataclass(frozen=True, slots=True)
class _Target:
    name: str
    task: str
    address: str


_decode = msgspec.json.Decoder(_Pod).decode


class PodProber:
    """Reaches pods of one API server's cluster from where this program runs."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._gate = asyncio.Semaphore(PODS_AT_ONCE)

    async def ask(self, namespace: str, wanted: ProbeWanted) -> str:
        """ "" when every pod answers, else which does not and how."""
        for job in wanted.jobs:
            try:
                pods = await self._pods(namespace, job)
            except errors.ApiError as error:
                return f"pods of Job {job}: {error.message}"
            said = await self._job(job, pods, wanted)
            if said:
                return said
        return ""

    async def _pods(self, namespace: str, job: str) -> list[_Target]:
        found, token = [], ""
        while True:
            page = await self._port.list(kinds.POD, namespace=namespace, labels=f"{keys.JOB_NAME}={job}", continue_token=token)
            for item in page.items:
                pod = _decode(item)
                task = (pod.metadata.annotations or {}).get(keys.TASK_SPEC, "")
                found.append(_Target(pod.metadata.name, task, pod.status.pod_ip if pod.status.phase == "Running" else ""))
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
    headers = {header.name: header.value} if header is not None and header.name.lower() not in NOT_SENT else {}
    host = f"[{pod.address}]" if ":" in pod.address else pod.address
    async with (
        aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.get(f"http://{host}:{number}{get.path}", headers=headers, allow_redirects=False) as answer,
    ):
        await answer.content.read(MAX_ANSWER)
        fine = 200 <= answer.status < 400
        return "" if fine else f"pod {pod.name}: {get.path} on port {number} answers {answer.status}"
