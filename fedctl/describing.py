"""`fedctl describe`: everything about one Job, queue or flow that somebody who wonders would ask next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from apis import keys, kinds, naming
from fedctl import exits, tables, views
from fedctl.desk import Desk
from fedctl.getting import one
from fedctl.refs import Ref
from machinery import errors

EVENTS: Final = 20
"""Events that are shown, the latest."""
Doc = Mapping[str, Any]


async def describe(desk: Desk, ref: Ref) -> int:
    """Tell of one object."""
    tree = orjson.loads(await one(desk, ref.kind, ref.name))
    lines = [*_head(tree, desk)]
    if ref.kind == kinds.JOB:
        lines += [*_job(tree), *await _placed(desk, ref.name)]
    elif ref.kind == kinds.QUEUE:
        lines += [*_queue(tree)]
    lines += [*_conditions(tree), *await _events(desk, tree)]
    for line in lines:
        desk.out(line)
    return exits.OK


def _head(tree: Doc, desk: Desk) -> Iterator[str]:
    meta = tree["metadata"]
    yield _field("Name", meta["name"])
    if meta.get("namespace"):
        yield _field("Namespace", meta["namespace"])
    yield from _pairs("Labels", meta.get("labels"))
    own = {name: value for name, value in (meta.get("annotations") or {}).items() if name.startswith(f"{keys.GROUP}/")}
    yield from _pairs("Annotations", {name: value for name, value in own.items() if len(value) <= 200})
    yield _field("Age", views.age(meta.get("creationTimestamp", ""), now=desk.now))


def _job(tree: Doc) -> Iterator[str]:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    state = status.get("state") or {}
    yield _field("Phase", state.get("phase") or "Pending")
    if state.get("reason") or state.get("message"):
        yield _field("Because", ": ".join(filter(None, (state.get("reason"), state.get("message")))))
    yield _field("Queue", spec.get("queue") or "default")
    if spec.get("priorityClassName"):
        yield _field("Priority class", spec["priorityClassName"])
    tasks = spec.get("tasks") or []
    wanted = sum(each.get("replicas", 1) for each in tasks)
    counts = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    said = ", ".join(f"{status[name]} {name}" for name in counts if status.get(name))
    yield _field("Pods", f"{wanted} wanted, {spec.get('minAvailable', wanted)} at least" + (f"; {said}" if said else ""))
    if status.get("retryCount"):
        yield _field("Restarts", str(status["retryCount"]))
    yield "Tasks:"
    rows = [(each.get("name", ""), str(each.get("replicas", 1)), _images(each), _requests(each)) for each in tasks]
    yield from _indented(tables.text(("NAME", "PODS", "IMAGE", "EACH ASKS FOR"), rows))
    if status.get("outputs"):
        yield from _pairs("Outputs", status["outputs"])


def _images(task: Doc) -> str:
    return ",".join(each.get("image", "") for each in task["template"]["spec"].get("containers") or ())


def _requests(task: Doc) -> str:
    """Of its first container, which is what most have."""
    containers = task["template"]["spec"].get("containers") or [{}]
    resources = containers[0].get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return ", ".join(f"{name} {value}" for name, value in sorted(asked.items())) or "-"


async def _placed(desk: Desk, name: str) -> list[str]:
    """Where its binding says it runs, and the answers of every cluster."""
    try:
        binding = orjson.loads(await desk.port.get(kinds.RESOURCE_BINDING, naming.binding_name(name), namespace=desk.namespace))
    except (errors.NotFound, errors.Forbidden):
        return []
    lines: list[str] = []
    clusters = (binding.get("spec") or {}).get("clusters") or []
    told = {each.get("clusterName"): each for each in (binding.get("status") or {}).get("aggregatedStatus") or ()}
    if clusters:
        rows = [
            (
                each["name"],
                str(each.get("replicas") or "all"),
                str((told.get(each["name"]) or {}).get("health") or "-"),
                _of_cluster(told.get(each["name"]) or {}),
            )
            for each in clusters
        ]
        lines += ["Clusters:", *_indented(tables.text(("NAME", "PODS", "HEALTH", "SAYS"), rows))]
    lines += list(_verdicts((binding["metadata"].get("annotations") or {}).get(keys.VERDICTS, "")))
    return lines


def _of_cluster(told: Doc) -> str:
    status = told.get("status") or {}
    state = status.get("state") or {}
    return told.get("appliedMessage") or " ".join(filter(None, (state.get("phase"), state.get("message")))) or "-"


def _verdicts(text: str) -> Iterator[str]:
    """Why there, or why nowhere, as the hub wrote it."""
    try:
        said = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return
    if not isinstance(said, dict) or not said:
        return
    yield "Verdicts:"
    for name, value in said.items():
        yield f"  {name}: {_flat(value)}"


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_flat, value))
    return str(value)


def _queue(tree: Doc) -> Iterator[str]:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    yield _field("State", status.get("state") or "Unknown")
    yield _field("Parent", spec.get("parent") or "root")
    yield _field("Weight", str(spec.get("weight", 1)))
    used = status.get("allocated") or {}
    amounts = {name: spec.get(name) or {} for name in ("guarantee", "deserved", "capability")}
    amounts["guarantee"] = amounts["guarantee"].get("resource", amounts["guarantee"])
    names = sorted({*used, *(each for group in amounts.values() for each in group)})
    if names:
        header = ("RESOURCE", "ALLOCATED", "GUARANTEE", "DESERVED", "CAPABILITY")
        rows = [(name, str(used.get(name, 0)), *(str(amounts[each].get(name, "-")) for each in amounts)) for name in names]
        yield "Amounts:"
        yield from _indented(tables.text(header, rows))
    counts = {name: status[name] for name in ("pending", "inqueue", "running", "unknown", "completed") if name in status}
    if counts:
        yield _field("Groups", ", ".join(f"{value} {name}" for name, value in counts.items()))


def _conditions(tree: Doc) -> Iterator[str]:
    conditions = [each for each in (tree.get("status") or {}).get("conditions") or () if each.get("type")]
    if conditions:
        rows = [
            (each["type"], str(each.get("status", "")), each.get("reason", ""), each.get("message", "")) for each in conditions
        ]
        yield "Conditions:"
        yield from _indented(tables.text(("TYPE", "STATUS", "REASON", "MESSAGE"), rows))


async def _events(desk: Desk, tree: Doc) -> list[str]:
    uid = tree["metadata"].get("uid", "")
    namespace = tree["metadata"].get("namespace") or "default"
    try:
        page = await desk.port.list(kinds.EVENT, namespace=namespace, fields=f"involvedObject.uid={uid}")
        found = [orjson.loads(each) for each in page.items]
    except errors.ApiError:  # a hub may keep events from people, and without them this is still an answer
        return []
    mine = [each for each in found if (each.get("involvedObject") or {}).get("uid") == uid]
    mine.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    if not mine:
        return []
    rows = [
        (
            views.age(str(each.get("lastTimestamp") or each["metadata"].get("creationTimestamp") or ""), now=desk.now),
            each.get("type", ""),
            each.get("reason", ""),
            " ".join(str(each.get("message", "")).split()),
        )
        for each in mine[-EVENTS:]
    ]
    return ["Events:", *_indented(tables.text(("AGE", "TYPE", "REASON", "MESSAGE"), rows))]


def _field(name: str, value: str) -> str:
    return f"{name + ':':<16}{value}"


def _pairs(name: str, pairs: Doc | None) -> Iterator[str]:
    for number, (key, value) in enumerate(sorted((pairs or {}).items())):
        yield f"{(name + ':' if not number else ''):<16}{key}={value}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
