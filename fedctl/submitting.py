"""`fedctl submit`: any manifest, or a Job told in a few flags. Everything is tried before anything is made."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from apis.kinds import Kind
from fedctl import exits, manifests, orders
from fedctl.desk import Desk, Stop
from fedctl.refs import Ref
from machinery import errors

GPU: Final = "nvidia.com/gpu"
Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Short:
    """A Job of one task, as flags tell it. Amounts as Kubernetes writes them; 0 and "" are not asked for."""

    name: str
    image: str
    command: Sequence[str] = ()
    replicas: int = 1
    minimum: int | None = None
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    queue: str = ""
    profile: str = ""
    priority: str = ""
    max_run_time: str = ""


def job(short: Short) -> Doc:
    """The Job."""
    wants = {name: value for name, value in (("cpu", short.cpu), ("memory", short.memory)) if value}
    limits = {GPU: str(short.gpus)} if short.gpus else {}
    container: Doc = {"name": "main", "image": short.image}
    if short.command:
        words = list(short.command)
        container["command"] = ["sh", "-c", words[0]] if len(words) == 1 and shlex.split(words[0]) != words else words
    resources = {name: value for name, value in (("requests", {**wants, **limits}), ("limits", limits)) if value}
    if resources:
        container["resources"] = resources
    notes = ((keys.PROFILE, short.profile), (keys.MAX_RUN_TIME, short.max_run_time))
    spec: Doc = {
        "minAvailable": short.replicas if short.minimum is None else short.minimum,
        "tasks": [
            {
                "name": "main",
                "replicas": short.replicas,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            }
        ],
    }
    spec |= {name: value for name, value in (("queue", short.queue), ("priorityClassName", short.priority)) if value}
    meta: Doc = {"name": short.name}
    annotations = {name: value for name, value in notes if value}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": meta, "spec": spec}


async def submit(desk: Desk, documents: Sequence[Doc], *, dry_run: bool = False, wait: float | None = None) -> int:
    """Make objects of these documents: first all are tried, so that a mistake in the last keeps the first from being made.
    `wait`: seconds to stay until Jobs and flows have ended."""
    wrong = [f"{_said(doc)}: {each}" for doc in documents for each in manifests.misspelt(doc)]
    if wrong:
        raise Stop(
            "\n".join(["the manifest is not right, nothing was made:", *(f"  {each}" for each in wrong)]), code=exits.USAGE
        )
    served = await _served(desk, documents)
    for doc, kind in zip(documents, served, strict=True):
        await _tried(desk, doc, kind)
    if dry_run:
        for doc in documents:
            desk.out(f"{_said(doc)} would be made")
        return exits.OK
    for doc, kind in zip(documents, served, strict=True):
        made = await desk.port.create(kind, doc, namespace=_namespace(desk, doc, kind))
        name = doc["metadata"].get("name") or _name(made)
        desk.out(f"{kind.kind.lower()}/{name} made")
    return await _ends(desk, documents, seconds=wait) if wait is not None else exits.OK


async def _tried(desk: Desk, doc: Doc, kind: Kind) -> None:
    """As the hub would take it. What needs a namespace that another document makes cannot be tried before."""
    try:
        await desk.port.create(kind, doc, namespace=_namespace(desk, doc, kind), dry_run=True)
    except errors.AlreadyExists:
        raise Stop(
            f"{_said(doc)} is there already; nothing was made. kubectl apply changes what is there", code=exits.REFUSED
        ) from None
    except errors.NotFound as error:
        raise Stop(f"{_said(doc)}: {error.message}; nothing was made", code=exits.NOT_FOUND) from None
    except errors.Invalid as error:
        told = [f"{cause.field}: {cause.message}" for cause in error.causes if cause.field] or [error.message]
        raise Stop(f"{_said(doc)}: {'; '.join(told)}; nothing was made", code=exits.REFUSED) from None


async def _served(desk: Desk, documents: Sequence[Doc]) -> list[Kind]:
    """The kind of every document; those that this program does not know are asked for."""
    found = []
    for doc in documents:
        kind = manifests.kind_of(doc)
        found.append(kind if kind is not None else await _discovered(desk, doc))
    return found


async def _discovered(desk: Desk, doc: Mapping[str, Any]) -> Kind:
    import orjson

    version = doc["apiVersion"]
    path = "/api/v1" if version == "v1" else f"/apis/{version}"
    try:
        listed = orjson.loads(await desk.port.request("GET", path))
    except errors.NotFound:
        listed = {}
    for each in listed.get("resources") or ():
        if each["kind"] == doc["kind"] and "/" not in each["name"]:
            group, _, short = version.rpartition("/")
            return Kind(group, short, doc["kind"], each["name"], namespaced=each["namespaced"])
    raise Stop(f"{_said(doc)}: this hub does not serve {version} {doc['kind']}; nothing was made", code=exits.NOT_SERVED)


async def _ends(desk: Desk, documents: Sequence[Doc], *, seconds: float) -> int:
    worst = exits.OK
    for doc in documents:
        kind = manifests.kind_of(doc)
        if kind in (kinds.JOB, kinds.JOB_FLOW) and kind is not None:
            worst = max(worst, await orders.wait(desk, Ref(kind, doc["metadata"]["name"]), seconds=seconds))
    return worst


def _namespace(desk: Desk, doc: Mapping[str, Any], kind: Kind) -> str | None:
    return doc["metadata"].get("namespace", desk.namespace) if kind.namespaced else None


def _name(document: bytes) -> str:
    import orjson

    return str(orjson.loads(document)["metadata"]["name"])


def _said(doc: Mapping[str, Any]) -> str:
    return f"{doc['kind']} {doc['metadata'].get('name') or doc['metadata'].get('generateName')}"
