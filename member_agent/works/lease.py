"""A1's quorum read of the member Lease: one GET answers everybody who asked before it was sent."""

from __future__ import annotations

import asyncio

from apis import keys, kinds
from machinery import errors
from machinery.port import Port
from member_agent.works.snapshot import LeaseAnswer, read_lease


class LeaseReader:
    """Reads the Lease of one member at the hub. A question is never answered by a read sent before it was asked."""

    def __init__(self, port: Port, *, cluster: str) -> None:
        self._port = port
        self._namespace = keys.execution_namespace(cluster)
        self._waiting: list[asyncio.Future[LeaseAnswer]] = []
        self._asked = asyncio.Event()

    async def ask(self) -> LeaseAnswer:
        """The Lease as of a moment after this call. A Lease that is not there yet is held by nobody. Raises ApiError."""
        future: asyncio.Future[LeaseAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._asked.set()
        return await future

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            waiting, self._waiting = self._waiting, []
            try:
                answer = read_lease(await self._port.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=self._namespace))
            except errors.NotFound:
                answer = LeaseAnswer(holder="", fence=0)
            except errors.ApiError as error:
                for future in waiting:
                    if not future.done():
                        future.set_exception(error)
                continue
            for future in waiting:
                if not future.done():
                    future.set_result(answer)
