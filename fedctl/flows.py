"""What `fedctl flow` does: look at flows, and ask for steps to run again, to wait, or to go on."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table

from apis import kinds
from controllers.flows.snapshot import FlowView, project_flow
from fedctl import exits
from fedctl.pictures import graphviz, mermaid, text
from fedctl.table import StepRow, project_binding, project_job, render, rows
from machinery import errors
from machinery.port import PatchType, Port

OK: Final = exits.OK
NOT_FOUND: Final = exits.NOT_FOUND
NOT_SERVED: Final = exits.NOT_SERVED
REFUSED: Final = exits.REFUSED
"""Exit codes beside those of `app`: there is no such flow; the server's JobFlow has no such field; the server said no."""

PICTURES: Final[dict[str, Callable[[FlowView, list[StepRow]], str]]] = {"mermaid": mermaid, "graphviz": graphviz, "text": text}


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look, and where to say what was found."""

    port: Port
    namespace: str
    console: Console
    errors: Console
    now: datetime.datetime

    def missing(self, name: str) -> int:
        """There is no such flow."""
        self.errors.print(f"JobFlow {self.namespace}/{name} does not exist", style="red", markup=False)
        return NOT_FOUND


async def get(place: Place, *, everywhere: bool) -> int:
    """`fedctl flow get`: one line a flow."""
    table = Table(box=None, pad_edge=False, header_style="")
    for column in (*(("NAMESPACE",) if everywhere else ()), "NAME", "PHASE", "STEPS", "AGE", "REASON"):
        table.add_column(column, no_wrap=column != "REASON")
    flows = [project_flow(item) for item in await _all(place, kinds.JOB_FLOW, everywhere=everywhere)]
    for flow in sorted(flows, key=lambda flow: (flow.namespace, flow.name)):
        state, progress = flow.status.state, flow.status.progress
        steps = f"{progress.done}/{progress.steps}" if progress else f"0/{len(flow.steps)}"
        line = [flow.name, state.phase or "Pending", steps, _age(flow.created, place.now), state.reason]
        table.add_row(*([flow.namespace] if everywhere else []), *line)
    if not flows:
        where = "" if everywhere else f" in namespace {place.namespace}"
        place.errors.print(f"No JobFlows{where}.")
        return OK
    place.console.print(table)
    return OK


async def describe(place: Place, name: str) -> int:
    """`fedctl flow describe`: the graph with states, the table, and why it is not further."""
    flow = await _flow(place, name)
    if flow is None:
        return place.missing(name)
    found = await _rows(place, flow)
    state, progress = flow.status.state, flow.status.progress
    done = f", {progress.done} of {progress.steps} steps over" if progress else ""
    place.console.print(f"JobFlow {flow.namespace}/{flow.name}: {state.phase or 'Pending'}{done}", markup=False)
    if state.reason or state.message:
        place.console.print(f"{state.reason}: {state.message}" if state.reason else state.message, markup=False)
    place.console.print()
    place.console.print(text(flow, found), markup=False, highlight=False)
    place.console.print()
    place.console.print(render(flow, found))
    return OK


async def export(place: Place, name: str, *, form: str) -> int:
    """`fedctl flow export`: Mermaid, Graphviz or text."""
    flow = await _flow(place, name)
    if flow is None:
        return place.missing(name)
    place.console.print(PICTURES[form](flow, await _rows(place, flow)), markup=False, highlight=False, soft_wrap=True, end="")
    return OK


async def suspend(place: Place, name: str, *, value: bool) -> int:
    """`fedctl flow suspend` and `resume`."""
    said = "suspended: what runs goes on, nothing else begins" if value else "goes on"
    return await _ask(place, name, {"suspend": value}, said=said)


async def retry(place: Place, name: str, *, steps: list[str], request: str) -> int:
    """`fedctl flow retry`: run failed steps (or those named, and all that wait for them) again. `request`: an id of its own."""
    flow = await _flow(place, name)
    if flow is None:
        return place.missing(name)
    known = {step.name for step in (*flow.steps, *flow.handlers)}
    unknown = [step for step in steps if step not in known]
    if unknown:
        place.errors.print(f"JobFlow {flow.name} has no step {', '.join(unknown)}", style="red", markup=False)
        return NOT_FOUND
    which = ", ".join(steps) if steps else "what failed"
    return await _ask(place, name, {"resumeFrom": {"id": request, "steps": steps or None}}, said=f"runs {which} again")


async def _ask(place: Place, name: str, spec: dict[str, Any], *, said: str) -> int:
    """Write a field of ours, and see that it stayed: a server whose JobFlow lacks it drops it silently."""
    try:
        document = await place.port.patch(kinds.JOB_FLOW, name, {"spec": spec}, type=PatchType.MERGE, namespace=place.namespace)
    except errors.NotFound:
        return place.missing(name)
    except (errors.Forbidden, errors.Invalid) as error:
        place.errors.print(error.message, style="red", markup=False)
        return REFUSED
    kept = orjson.loads(document).get("spec", {})
    lost = [field for field, value in spec.items() if value and field not in kept]
    if lost:
        place.errors.print(f"this server's JobFlow has no field {lost[0]} (ExtensionsNotServed)", style="red", markup=False)
        return NOT_SERVED
    place.console.print(f"JobFlow {place.namespace}/{name} {said}", markup=False, highlight=False)
    return OK


# --- reading ---------------------------------------------------------------------------------------------------------


async def _flow(place: Place, name: str) -> FlowView | None:
    try:
        return project_flow(await place.port.get(kinds.JOB_FLOW, name, namespace=place.namespace))
    except errors.NotFound:
        return None


async def _rows(place: Place, flow: FlowView) -> list[StepRow]:
    jobs = [project_job(item) for item in await _all(place, kinds.JOB)]
    bindings = [project_binding(item) for item in await _bindings(place)]
    return rows(
        flow,
        jobs={job.name: job for job in jobs},
        bindings={binding.name: binding for binding in bindings},
        now=place.now,
    )


async def _bindings(place: Place) -> list[bytes]:
    """A member without a hub has none."""
    try:
        return await _all(place, kinds.RESOURCE_BINDING)
    except errors.NotFound:
        return []


async def _all(place: Place, kind: kinds.Kind, *, everywhere: bool = False) -> list[bytes]:
    found: list[bytes] = []
    token = ""
    while True:
        page = await place.port.list(kind, namespace=None if everywhere else place.namespace, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found


def _age(created: str, now: datetime.datetime) -> str:
    if not created:
        return "-"
    seconds = int((now - datetime.datetime.fromisoformat(created)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"
