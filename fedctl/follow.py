"""Follow a flow to its end: watches, no polling; a live table on a terminal, a table per change elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from apis import kinds
from controllers.flows.lifecycle import FlowPhase
from controllers.flows.snapshot import FlowView, project_flow
from fedctl.table import BindingRow, JobRow, StepRow, project_binding, project_job, render, rows
from machinery.clock import Chance, Clock
from machinery.informer import Informers
from machinery.port import Port

ENDS = frozenset({FlowPhase.SUCCEED.value, FlowPhase.FAILED.value})
REFRESHES = 4
"""Redraws a second of the live table, for the running seconds."""


@dataclass(frozen=True, slots=True)
class Followed:
    """How a followed flow ended: its phase in the API, "" if it was not seen, and the last rows."""

    phase: str
    message: str
    rows: list[StepRow]
    bindings: dict[str, BindingRow]


class FlowFollower:
    """Watches one flow with its Jobs and bindings."""

    def __init__(self, port: Port, *, namespace: str, name: str, clock: Clock) -> None:
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._informers = Informers(port, clock, Chance())
        self._flows = self._informers.add(kinds.JOB_FLOW, project_flow, namespace=namespace, fields=f"metadata.name={name}")
        self._jobs = self._informers.add(kinds.JOB, project_job, namespace=namespace)
        self._bindings = self._informers.add(kinds.RESOURCE_BINDING, project_binding, namespace=namespace)
        self._changed = asyncio.Event()
        for informer in (self._flows, self._jobs, self._bindings):
            informer.subscribe(lambda _: self._changed.set())

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Keep the watches for the time of the block."""
        task = asyncio.create_task(self._informers.run())
        try:
            await self._informers.wait_synced()
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def flow(self) -> FlowView | None:
        """The flow as last seen."""
        return self._flows.get(self._namespace, self._name)

    def look(self) -> Followed:
        """Everything known now."""
        flow = self.flow()
        if flow is None:
            return Followed(phase="", message="", rows=[], bindings={})
        jobs: dict[str, JobRow] = {job.name: job for job in self._jobs.values()}
        bindings = {binding.name: binding for binding in self._bindings.values()}
        found = rows(flow, jobs=jobs, bindings=bindings, now=self._clock.now())
        return Followed(phase=flow.status.state.phase, message=flow.status.state.message, rows=found, bindings=bindings)

    async def until_end(self, console: Console) -> Followed:
        """Draw until the flow has ended; returns what was seen last."""
        if console.is_terminal:
            return await self._live(console)
        return await self._printed(console)

    async def _live(self, console: Console) -> Followed:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                seen, flow = self.look(), self.flow()
                if flow is not None:
                    live.update(render(flow, seen.rows), refresh=True)
                if seen.phase in ENDS:
                    return seen
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 1 / REFRESHES)
                self._changed.clear()

    async def _printed(self, console: Console) -> Followed:
        shown: dict[str, tuple[str, str]] = {}
        while True:
            seen = self.look()
            for row in seen.rows:
                state = (row.phase, row.cluster)
                if shown.get(row.step) != state and row.phase != "Waiting":
                    shown[row.step] = state
                    where = f" on {row.cluster}" if row.cluster else ""
                    note = f": {row.note}" if row.note else ""
                    console.print(f"{row.step}: {row.phase}{where}, pods {row.pods}{note}", highlight=False, markup=False)
            if seen.phase in ENDS:
                flow = self.flow()
                if flow is not None:
                    console.print(render(flow, seen.rows))
                return seen
            await self._changed.wait()
            self._changed.clear()
