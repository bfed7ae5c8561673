"""Members as people read them: lines, details, and the objects as they are. Pure but for the printing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from rich.table import Table

from apis import cluster_orders, keys, runs
from apis.cluster_orders import Order
from apis.runs import PartState
from fedctl.flows import Place

Doc = dict[str, Any]
NARROW = ("NAME", "MODE", "STATUS", "VERSION", "NODES", "AGE")
WIDE = ("NAME", "MODE", "STATUS", "VERSION", "NODES", "RUNS", "PROVIDER", "REGION", "ZONES", "AGE")
ORDER_WORDS = {Order.CORDON: "Cordoned", Order.DRAIN: "Draining", Order.DECLARE_LOST: "DeclaredLost"}
FINISHED = "Finished"


@dataclass(frozen=True, slots=True)
class Seen:
    """A Cluster as an informer keeps it here: one command looks at few."""

    namespace: str
    name: str
    uid: str
    version: str
    doc: Doc


def project(document: bytes) -> Seen:
    """A Cluster, whole."""
    doc: Doc = orjson.loads(document)
    meta = doc["metadata"]
    return Seen("", meta["name"], meta.get("uid", ""), meta.get("resourceVersion", ""), doc)


def said(doc: Doc, type: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty where there is none."""
    for each in (doc.get("status") or {}).get("conditions") or []:
        if each.get("type") == type:
            return (str(each.get("status", "")), str(each.get("reason", "")), str(each.get("message", "")))
    return ("", "", "")


def state(doc: Doc) -> str:
    """In one word or two: whether it is there, and what is asked of it."""
    if said(doc, "Registered")[0] == "False":
        return "Refused"
    words = {"True": "Ready", "Unknown": "Silent"}
    found = [words.get(said(doc, "Ready")[0], "NotReady")]
    if doc["metadata"].get("deletionTimestamp"):
        return ",".join([*found, "Leaving"])
    drained = said(doc, "Drained")[0] == "True"
    asked = cluster_orders.orders(doc)
    if Order.DRAIN in asked:
        asked.pop(Order.CORDON, None)
        found.append("Drained" if drained else "Draining")
        asked.pop(Order.DRAIN)
    found += [ORDER_WORDS[order] for order in asked]
    if Order.DECLARE_LOST not in asked and said(doc, "DeclaredLost")[0] == "True":
        found.append("Lost")
    return ",".join(found)


def row(doc: Doc, *, now: datetime.datetime, wide: bool, runs: Mapping[str, int]) -> tuple[str, ...]:
    """One line; its age comes last."""
    meta, spec, status = doc["metadata"], doc.get("spec") or {}, doc.get("status") or {}
    nodes = status.get("nodeSummary") or {}
    zones = spec.get("zones") or ([spec["zone"]] if spec.get("zone") else [])
    narrow = (
        meta["name"],
        spec.get("syncMode", ""),
        state(doc),
        status.get("kubernetesVersion", ""),
        f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
    )
    more = (str(runs.get(meta["name"], 0)), spec.get("provider", ""), spec.get("region", ""), ",".join(zones)) if wide else ()
    return (*narrow, *more, age(meta.get("creationTimestamp", ""), now))


def show(place: Place, docs: Sequence[Doc], *, output: str, runs: Mapping[str, int], header: bool = True) -> None:
    """As a table, by name, or as they are."""
    match output:
        case "json":
            listed = {"apiVersion": "v1", "kind": "List", "items": [_clean(each) for each in docs]}
            text = orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode()
            place.console.print(text, markup=False, highlight=False, soft_wrap=True)
        case "yaml":
            text = yaml.safe_dump_all([_clean(each) for each in docs], sort_keys=False)
            place.console.print(text, markup=False, highlight=False, soft_wrap=True, end="")
        case "name":
            for each in docs:
                place.console.print(f"cluster.cluster.karmada.io/{each['metadata']['name']}", markup=False, highlight=False)
        case _:
            if not docs:
                place.errors.print("No clusters.")
                return
            table = Table(box=None, pad_edge=False, header_style="", show_header=header)
            for column in WIDE if output == "wide" else NARROW:
                table.add_column(column, no_wrap=True)
            for each in docs:
                table.add_row(*row(each, now=place.now, wide=output == "wide", runs=runs))
            place.console.print(table)


def describe(place: Place, doc: Doc, *, lease: Doc | None, runs: int) -> None:
    """One member with everything that is known of it."""
    meta, spec, status = doc["metadata"], doc.get("spec") or {}, doc.get("status") or {}
    notes = meta.get("annotations") or {}
    held = (lease or {}).get("spec") or {}
    zones = ", ".join(spec.get("zones") or [])
    lines = [
        ("Name", meta["name"]),
        ("Status", state(doc)),
        ("Mode", f"{spec.get('syncMode', '')}, Jobs run by {notes.get(f'{keys.GROUP}/agent-mode', 'nobody yet')}"),
        ("Identity", spec.get("id", "")),
        ("Place", " / ".join(each for each in (spec.get("provider", ""), spec.get("region", ""), zones) if each) or "-"),
        ("Labels", ", ".join(f"{key}={value}" for key, value in sorted((meta.get("labels") or {}).items())) or "-"),
        ("Kubernetes", status.get("kubernetesVersion", "-")),
        ("Runs of the hub", str(runs)),
        ("Fence number", str(held.get("leaseTransitions", "-"))),
        ("Last renewal", held.get("renewTime") or "-"),
    ]
    for name, value in lines:
        place.console.print(f"{name + ':':17}{value}", markup=False, highlight=False)
    _amounts(place, status.get("resourceSummary") or {})
    stamps = cluster_orders.stamps(notes)
    for order, why in cluster_orders.orders(doc).items():
        stamp = stamps.get(order.value, cluster_orders.Stamp())
        whose = " ".join(each for each in ("by " + stamp.by if stamp.by else "", "at " + stamp.at if stamp.at else "") if each)
        place.console.print(f"{'Asked:':17}{order.value} {whose}{': ' + why if why else ''}", markup=False, highlight=False)
    for each in spec.get("taints") or []:
        since = f" since {each['timeAdded']}" if each.get("timeAdded") else ""
        value = f"={each['value']}" if each.get("value") else ""
        place.console.print(f"{'Taint:':17}{each['key']}{value}:{each['effect']}{since}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="")
    for column in ("CONDITION", "STATUS", "REASON", "MESSAGE"):
        table.add_column(column, no_wrap=column != "MESSAGE")
    for each in sorted(status.get("conditions") or [], key=lambda each: str(each.get("type"))):
        table.add_row(*(str(each.get(name, "")) for name in ("type", "status", "reason", "message")))
    place.console.print()
    place.console.print(table)


def _amounts(place: Place, summary: Mapping[str, Any]) -> None:
    allocatable, allocated = summary.get("allocatable") or {}, summary.get("allocated") or {}
    for name, amount in sorted(allocatable.items()):
        text = f"{allocated.get(name, 0)} of {amount} allocated"
        place.console.print(f"{name + ':':17}{text}", markup=False, highlight=False)


def live_parts(document: bytes) -> list[str]:
    """Clusters where a run of this binding is not known to have ended."""
    doc: Doc = orjson.loads(document)
    conditions = (doc.get("status") or {}).get("conditions") or []
    if any(each.get("type") == FINISHED and each.get("status") == "True" for each in conditions):
        return []
    text = (doc["metadata"].get("annotations") or {}).get(keys.RUN)
    if text is None:
        return []
    try:
        run = runs.decode_binding(text, where=doc["metadata"]["name"])
    except runs.UnreadableRun:
        return []
    return [name for name, part in sorted(run.parts.items()) if part.state is not PartState.GONE]


def age(created: str, now: datetime.datetime) -> str:
    """How long it is there."""
    if not created:
        return "-"
    seconds = int((now - datetime.datetime.fromisoformat(created)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _clean(doc: Doc) -> Doc:
    meta = {name: value for name, value in doc["metadata"].items() if name != "managedFields"}
    return {**doc, "metadata": meta}
