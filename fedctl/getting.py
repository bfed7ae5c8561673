"""`fedctl get`: Jobs, flows, queues and what else people submit, in a table or whole."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import kinds
from apis.kinds import Kind
from fedctl import exits, tables, views
from fedctl.desk import Desk, Stop, every
from machinery import errors
from machinery.port import Document

AGAIN: Final = 2.0
"""Seconds between two looks of --watch: one list of a namespace, and nothing is held open."""
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """How a kind is listed. `row`: cells, the wide ones included; `where`: clusters by UID, for wide tables."""

    header: Row
    wide: Row
    row: Callable[[Document, datetime.datetime, Mapping[str, str]], Row]


def job_row(document: Document, now: datetime.datetime, where: Mapping[str, str]) -> Row:
    """A Job: phase, pods that run of those wanted, and where it runs or why it waits."""
    job = views.read_job(document)
    meta, status = job.metadata, job.status
    told = status.state.message or status.state.reason
    minimum = str(job.spec.min_available if job.spec.min_available is not None else job.pods)
    return (
        meta.name,
        job.phase,
        f"{status.running}/{job.pods}",
        job.spec.queue or "default",
        views.age(meta.creation_timestamp, now=now),
        _short(told),
        minimum,
        str(status.retry_count),
        where.get(meta.uid, ""),
    )


def flow_row(document: Document, now: datetime.datetime, where: Mapping[str, str]) -> Row:
    """A flow: phase, steps that are done, why it is not further."""
    flow = views.read_flow(document)
    progress = flow.status.progress
    steps = f"{progress.done}/{progress.steps}" if progress else f"0/{len(flow.spec.flows)}"
    state = flow.status.state
    return flow.metadata.name, state.phase or "Pending", steps, _age(flow.metadata, now), _short(state.reason), state.message


def queue_row(document: Document, now: datetime.datetime, where: Mapping[str, str]) -> Row:
    """A queue: what it may use, what it uses."""
    queue = views.read_queue(document)
    spec, status = queue.spec, queue.status
    return (
        queue.metadata.name,
        status.state or "Unknown",
        spec.parent or "root",
        str(spec.weight),
        _amounts(status.allocated),
        _amounts(spec.capability),
        _age(queue.metadata, now),
        _amounts(spec.deserved),
        _amounts(spec.guarantee),
    )


def plain_row(document: Document, now: datetime.datetime, where: Mapping[str, str]) -> Row:
    """Anything else: its name and age."""
    meta = views.read_flow(document).metadata
    return meta.name, _age(meta, now)


TABLES: Final[dict[Kind, Columns]] = {
    kinds.JOB: Columns(("NAME", "PHASE", "PODS", "QUEUE", "AGE", "WHERE OR WHY"), ("MIN", "RESTARTS", "CLUSTERS"), job_row),
    kinds.JOB_FLOW: Columns(("NAME", "PHASE", "STEPS", "AGE", "REASON"), ("MESSAGE",), flow_row),
    kinds.QUEUE: Columns(
        ("NAME", "STATE", "PARENT", "WEIGHT", "ALLOCATED", "CAPABILITY", "AGE"), ("DESERVED", "GUARANTEE"), queue_row
    ),
}
_PLAIN: Final = Columns(("NAME", "AGE"), (), plain_row)


async def get(
    desk: Desk,
    kind: Kind,
    names: Sequence[str] = (),
    *,
    everywhere: bool = False,
    labels: str = "",
    output: str = "",
    watch: bool = False,
    looks: int | None = None,
) -> int:
    """List objects of a kind, or those of these names. `watch`: again and again, a line for whatever changed; `looks` bounds
    it."""
    tables.form(output)
    columns = TABLES.get(kind, _PLAIN)
    found = await _found(desk, kind, names, everywhere=everywhere, labels=labels)
    if output in ("json", "yaml", "name"):
        trees = [{**_typed(kind), **views.tree(each)} for each in found]
        tables.objects(desk, trees, output=output, plural=kind.name, one=len(names) == 1)
        return exits.OK
    if not found and not names:
        desk.err("No resources found" + ("" if everywhere or not kind.namespaced else f" in {desk.namespace} namespace."))
    shown: dict[tuple[str, ...], Row] = {}
    header = _head(columns, wide=output == "wide", everywhere=everywhere and kind.namespaced)
    first = True
    while True:
        where = await _where(desk, everywhere=everywhere) if output == "wide" and kind == kinds.JOB else {}
        rows = [
            _cells(each, columns, now=desk.now, where=where, wide=output == "wide", everywhere=everywhere and kind.namespaced)
            for each in found
        ]
        news = [row for row in rows if shown.get(_key(row)) != _fresh(row, header)]
        shown |= {_key(row): _fresh(row, header) for row in rows}
        if news:
            desk.out(tables.text(header, news, shown=first))
            first = False
        if looks is not None:
            looks -= 1
        if not watch or looks == 0:
            return exits.OK
        await asyncio.sleep(AGAIN)
        found = await _found(desk, kind, names, everywhere=everywhere, labels=labels)


def _key(row: Row) -> Row:
    return row[:2]


def _fresh(row: Row, header: Row) -> Row:
    """A line without its age, which changes by itself."""
    return tuple(cell for cell, name in zip(row, header, strict=True) if name != "AGE")


def _head(columns: Columns, *, wide: bool, everywhere: bool) -> Row:
    return (*(("NAMESPACE",) if everywhere else ()), *columns.header, *(columns.wide if wide else ()))


def _cells(
    document: Document,
    columns: Columns,
    *,
    now: datetime.datetime,
    where: Mapping[str, str],
    wide: bool,
    everywhere: bool,
) -> Row:
    row = columns.row(document, now, where)
    row = row if wide else row[: len(columns.header)]
    return (views.read_flow(document).metadata.namespace, *row) if everywhere else row


async def _found(desk: Desk, kind: Kind, names: Sequence[str], *, everywhere: bool, labels: str) -> list[Document]:
    namespace = None if everywhere or not kind.namespaced else desk.namespace
    if names:
        return [await one(desk, kind, name) for name in names]
    try:
        return await every(desk.port, kind, namespace=namespace, labels=labels)
    except errors.NotFound:
        raise Stop(f"this hub does not serve {kind.name}", code=exits.NOT_SERVED) from None


async def one(desk: Desk, kind: Kind, name: str) -> Document:
    """One object. Stop when there is none."""
    try:
        return await desk.port.get(kind, name, namespace=desk.namespace if kind.namespaced else None)
    except errors.NotFound:
        where = f" in namespace {desk.namespace}" if kind.namespaced else ""
        raise Stop(f"there is no {kind.kind} {name}{where}", code=exits.NOT_FOUND) from None


async def _where(desk: Desk, *, everywhere: bool) -> dict[str, str]:
    """By UID of its owner, the clusters that a binding names, with pods each."""
    found: dict[str, str] = {}
    for document in await every(desk.port, kinds.RESOURCE_BINDING, namespace=None if everywhere else desk.namespace):
        binding = views.read_binding(document)
        named = ",".join(f"{each.name}:{each.replicas}" if each.replicas else each.name for each in binding.spec.clusters)
        found |= {owner.uid: named for owner in binding.metadata.owner_references}
    return found


def _typed(kind: Kind) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _age(meta: views.Meta, now: datetime.datetime) -> str:
    return views.age(meta.creation_timestamp, now=now)


def _amounts(resources: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(resources.items()) if str(value) not in ("0", "")) or "-"


def _short(text: str, most: int = 96) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
