"""What `fedctl cluster` does: look at members, and ask something of them on their Cluster objects, as kubectl could.

Nothing here stops or moves a run: the hub does what the object asks, and says in its conditions how far it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis import cluster_orders, keys, kinds
from apis.cluster_orders import DECLARE_LOST, DRAIN, ORDERED_BY, Order
from fedctl import cluster_table, exits
from fedctl.flows import NOT_FOUND, OK, REFUSED, Place
from machinery import errors
from machinery.clock import Chance, Clock, stamp
from machinery.informer import Informers

Doc = dict[str, Any]
Confirm = Callable[[str], bool]
"""Asks the person; False: no."""

NOT_CONFIRMED: Final = exits.NOT_CONFIRMED
TIMED_OUT: Final = exits.TIMED_OUT
"""Exit codes beside those of `flows`: the person said no, or nobody could be asked; it is not done yet, and goes on."""
CONFLICTS: Final = 5
"""Attempts to write a Cluster that others write too."""
CORDON: Final = {"key": keys.TAINT_UNSCHEDULABLE, "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Wait:
    """Whether to stay until it is done, and for how many seconds at most."""

    stay: bool = True
    seconds: float = 3600.0


async def get(place: Place, names: Sequence[str], *, output: str, labels: str, watch: bool, clock: Clock) -> int:
    """`fedctl cluster get`: one line a member."""
    found = await _all(place, labels=labels)
    missing = [name for name in names if name not in found]
    if missing:
        return _missing(place, missing)
    chosen = [doc for name, doc in sorted(found.items()) if not names or name in names]
    runs = await _runs(place) if output == "wide" else {}
    cluster_table.show(place, chosen, output=output, runs=runs)
    if watch:
        await _watch(place, names, output=output, labels=labels, clock=clock)
    return OK


async def _watch(place: Place, names: Sequence[str], *, output: str, labels: str, clock: Clock) -> None:
    """A line for every change of what a line shows; until interrupted."""
    shown: dict[str, tuple[str, ...]] = {}
    async with _seen(place, clock=clock, labels=labels) as (clusters, changed):
        while True:
            for name, doc in sorted(clusters().items()):
                line = cluster_table.row(doc, now=clock.now(), wide=output == "wide", runs={})
                if (not names or name in names) and shown.get(name, line[:-1]) != line[:-1]:
                    cluster_table.show(place, [doc], output=output, runs={}, header=False)
                shown[name] = line[:-1]
            await changed()


async def describe(place: Place, name: str) -> int:
    """`fedctl cluster describe`: everything that is known of one."""
    doc = await _read(place, name)
    if doc is None:
        return _missing(place, [name])
    namespace = keys.execution_namespace(name)
    lease = await _optional(place, kinds.LEASE, keys.MEMBER_LEASE, namespace)
    cluster_table.describe(place, doc, lease=lease, runs=(await _runs(place)).get(name, 0))
    return OK


async def cordon(place: Place, names: Sequence[str], *, value: bool) -> int:
    """`fedctl cluster cordon` and `uncordon`: nothing new goes there; what runs goes on. `uncordon` ends a drain, too."""

    def change(doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        others = [each for each in spec.get("taints") or [] if not cluster_orders.is_cordon(each)]
        spec["taints"] = [*others, dict(CORDON)] if value else others
        if not value:
            (doc["metadata"].get("annotations") or {}).pop(DRAIN, None)

    code = OK
    for name in names:
        said = "cordoned: it takes nothing new" if value else "takes new work again"
        code = max(code, await _ask(place, name, change, said=said))
    return code


async def drain(place: Place, name: str, *, why: str, confirm: Confirm, wait: Wait, clock: Clock) -> int:
    """`fedctl cluster drain`: what runs there runs elsewhere, one run after the other."""
    doc = await _read(place, name)
    if doc is None:
        return _missing(place, [name])
    count = (await _runs(place)).get(name, 0)
    if count and not confirm(f"{_count(count)} of {name} will be stopped and started again elsewhere. Drain it?"):
        return NOT_CONFIRMED

    def change(doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        spec["taints"] = [*(each for each in spec.get("taints") or [] if not cluster_orders.is_cordon(each)), dict(CORDON)]
        doc["metadata"].setdefault("annotations", {})[DRAIN] = why or "true"

    code = await _ask(place, name, change, said="is drained: its runs move one after the other")
    if code != OK or not wait.stay:
        return code
    return await _follow(
        place, name, "Drained", done=lambda doc: cluster_table.said(doc, "Drained")[0] == "True", wait=wait, clock=clock
    )


async def unjoin(place: Place, name: str, *, confirm: Confirm, wait: Wait, clock: Clock) -> int:
    """`fedctl cluster unjoin`: it leaves the federation. Whoever unjoins one that is not heard from says that it is lost."""
    doc = await _read(place, name)
    if doc is None:
        return _missing(place, [name])
    count = (await _runs(place)).get(name, 0)
    absent = cluster_table.said(doc, "Ready")[0] == "Unknown"
    if not confirm(_unjoin_question(name, count, absent=absent)):
        return NOT_CONFIRMED
    if absent and count:
        code = await _declare(place, name, why="unjoined while it was not heard from")
        if code != OK:
            return code
    await place.port.delete(kinds.CLUSTER, name)
    place.console.print(f"Cluster {name} leaves the federation", markup=False, highlight=False)
    if not wait.stay:
        return OK
    return await _follow(place, name, "Drained", done=lambda doc: doc is None, wait=wait, clock=clock)


def _unjoin_question(name: str, count: int, *, absent: bool) -> str:
    if not count:
        return f"Nothing of the hub runs in {name}. Remove it from the federation?"
    if absent:
        return (
            f"{name} is not heard from, and {_count(count)} may still run there. Unjoining it is your word that they do not: "
            "they start again elsewhere, and are recorded as declared by you. Do it?"
        )
    return f"{_count(count)} of {name} will be stopped and started again elsewhere. Remove it from the federation?"


async def declare_lost(place: Place, name: str, *, why: str, confirm: Confirm, wait: Wait, clock: Clock) -> int:
    """`fedctl cluster declare-lost`: a person's word that nothing runs there any more (protocol.md 2, H4)."""
    doc = await _read(place, name)
    if doc is None:
        return _missing(place, [name])
    if cluster_table.said(doc, "Ready")[0] == "True":
        text = f"Cluster {name} is heard from: drain it, or unjoin it. Only one that is silent can be declared lost"
        place.errors.print(text, style="red", markup=False)
        return REFUSED
    count = (await _runs(place)).get(name, 0)
    question = (
        f"{_count(count)} of {name} will start again elsewhere. If it is not lost but only cut off, they run twice. "
        "It is recorded with your name. Is it lost?"
    )
    if not confirm(question):
        return NOT_CONFIRMED
    code = await _declare(place, name, why=why)
    if code != OK or not wait.stay:
        return code
    over = lambda doc: doc is None or _answered(doc)  # noqa: E731
    code = await _follow(place, name, "DeclaredLost", done=over, wait=wait, clock=clock)
    after = await _read(place, name)
    return code if code != OK or after is None or cluster_table.said(after, "DeclaredLost")[0] == "True" else REFUSED


def _answered(doc: Doc) -> bool:
    """The hub has carried the word out, or refused it."""
    return DECLARE_LOST not in (doc["metadata"].get("annotations") or {})


async def _declare(place: Place, name: str, *, why: str) -> int:
    def change(doc: Doc) -> None:
        doc["metadata"].setdefault("annotations", {})[DECLARE_LOST] = why

    return await _ask(place, name, change, said="is declared lost")


# --- writing ---------------------------------------------------------------------------------------------------------


async def _ask(place: Place, name: str, change: Callable[[Doc], None], *, said: str) -> int:
    """Write an order with our name beside it; the hub's webhook, where there is one, writes the name again."""
    user = await _me(place)
    for attempt in range(CONFLICTS):
        doc = await _read(place, name)
        if doc is None:
            return _missing(place, [name])
        before: Doc = orjson.loads(orjson.dumps(doc))
        change(doc)
        notes = doc["metadata"].setdefault("annotations", {})
        whose = cluster_orders.stamped(doc, old=before, by=user, at=stamp(place.now))
        notes.pop(ORDERED_BY, None)
        if whose is not None:
            notes[ORDERED_BY] = whose
        try:
            await place.port.replace(kinds.CLUSTER, name, doc)
        except errors.Conflict:
            if attempt == CONFLICTS - 1:
                raise
            continue
        except errors.Invalid as error:
            place.errors.print(error.message, style="red", markup=False)
            return REFUSED
        break
    place.console.print(f"Cluster {name} {said}", markup=False, highlight=False)
    return OK


async def _me(place: Place) -> str:
    """Who we are to the API server; "" where it does not tell."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        document = await place.port.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=kind)
    except errors.ApiError:
        return ""
    info = (orjson.loads(document).get("status") or {}).get("userInfo") or {}
    return str(info.get("username") or "")


# --- reading ---------------------------------------------------------------------------------------------------------


async def _follow(place: Place, name: str, condition: str, *, done: Callable[[Any], bool], wait: Wait, clock: Clock) -> int:
    """Tell what the hub says of it until it is done; the order stands when nobody looks."""
    told = ""
    try:
        async with asyncio.timeout(wait.seconds), _seen(place, clock=clock) as (clusters, changed):
            while True:
                doc = clusters().get(name)
                status, reason, message = cluster_table.said(doc, condition) if doc is not None else ("", "", "")
                if message and message != told:
                    place.console.print(f"{reason}: {message}", markup=False, highlight=False)
                    told = message
                if done(doc):
                    return OK
                await changed()
    except TimeoutError:
        place.errors.print(f"not done within {wait.seconds:.0f} s; the hub goes on with it", style="yellow", markup=False)
        return TIMED_OUT


Seen = tuple[Callable[[], Mapping[str, Doc]], Callable[[], Any]]


@contextlib.asynccontextmanager
async def _seen(place: Place, *, clock: Clock, labels: str = "") -> AsyncIterator[Seen]:
    """All Clusters as they are now, and a way to wait for the next change."""
    informers = Informers(place.port, clock, Chance())
    clusters = informers.add(kinds.CLUSTER, cluster_table.project, labels=labels)
    news = asyncio.Event()
    clusters.subscribe(lambda _: news.set())

    async def changed() -> None:
        await news.wait()
        news.clear()

    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced()
        news.clear()
        yield lambda: {each.name: each.doc for each in clusters.values()}, changed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _read(place: Place, name: str) -> Doc | None:
    return await _optional(place, kinds.CLUSTER, name, None)


async def _optional(place: Place, kind: kinds.Kind, name: str, namespace: str | None) -> Doc | None:
    try:
        found: Doc = orjson.loads(await place.port.get(kind, name, namespace=namespace))
    except errors.NotFound:
        return None
    return found


async def _all(place: Place, *, labels: str) -> dict[str, Doc]:
    found: dict[str, Doc] = {}
    token = ""
    while True:
        page = await place.port.list(kinds.CLUSTER, labels=labels, continue_token=token)
        for item in page.items:
            doc: Doc = orjson.loads(item)
            found[doc["metadata"]["name"]] = doc
        token = page.continue_token
        if not token:
            return found


async def _runs(place: Place) -> dict[str, int]:
    """By cluster, how many runs are not known to have ended; empty for somebody who may not see the bindings of all."""
    counts: dict[str, int] = {}
    token = ""
    while True:
        try:
            page = await place.port.list(kinds.RESOURCE_BINDING, continue_token=token)
        except errors.Forbidden:
            return {}
        for item in page.items:
            for name in cluster_table.live_parts(item):
                counts[name] = counts.get(name, 0) + 1
        token = page.continue_token
        if not token:
            return counts


def _missing(place: Place, names: Sequence[str]) -> int:
    for name in names:
        place.errors.print(f"Cluster {name} does not exist", style="red", markup=False)
    return NOT_FOUND


def _count(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


__all__ = ["Order", "Wait", "cordon", "declare_lost", "describe", "drain", "get", "unjoin"]
