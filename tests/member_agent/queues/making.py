"""Queues, Commands and PodGroups for tests of the queue role: documents for stories, views for pure examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apis import keys, kinds
from apis.vectors import EMPTY
from machinery.port import PatchType
from member_agent.views import QueueView
from policies.members import CommandView
from simulator.world import World
from tests.member_agent.world import EAST, Stage

Doc = dict[str, Any]
MARK = "volcano.sh/closed-by-parent"


def view(name: str, *, state: str = "Open", parent: str = "root", marked: bool = False, **other: Any) -> QueueView:
    """A queue as the role sees it."""
    bare = QueueView(
        name=name,
        uid=f"uid-{name}",
        version="1",
        parent=parent,
        weight=1,
        capability=EMPTY,
        guarantee=EMPTY,
        state=state,
        allocated=EMPTY,
        closed_by_parent=marked,
    )
    return replace(bare, **other)


def order(queue: str, action: str, *, number: int = 1, uid: str = "") -> CommandView:
    """A Command as the role sees it."""
    return CommandView(
        namespace="default",
        name=f"{queue}-{number}",
        uid=f"command-{number}",
        version=str(number),
        action=action,
        target=("Queue", queue, uid),
    )


async def queue(stage: Stage, name: str, **spec: Any) -> None:
    """Write a Queue."""
    body = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    await stage.world.client(EAST).create(kinds.QUEUE, body)


async def command(stage: Stage, name: str, action: str, *, uid: str = "", namespace: str = "default") -> None:
    """Give an order, as vcctl does."""
    target: Doc = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "name": name}
    body = {
        "apiVersion": kinds.COMMAND.api_version,
        "kind": "Command",
        "metadata": {"generateName": f"{name}-{action.lower()}-"},
        "action": action,
        "target": {**target, "uid": uid or found(stage.world, name).get("metadata", {}).get("uid", "")},
    }
    await stage.world.client(EAST).create(kinds.COMMAND, body, namespace=namespace)


async def write_state(stage: Stage, name: str, state: str) -> None:
    """Write the state by hand, as older clients do."""
    await stage.world.client(EAST).patch(
        kinds.QUEUE, name, {"status": {"state": state}}, type=PatchType.MERGE, subresource="status"
    )


def found(world: World, name: str) -> Doc:
    """The Queue as it is at the member."""
    return world.get(kinds.QUEUE, name, server=EAST) or {}


def state(stage: Stage, name: str) -> str:
    return str((found(stage.world, name).get("status") or {}).get("state", ""))


def marked(stage: Stage, name: str) -> bool:
    return (found(stage.world, name)["metadata"].get("annotations") or {}).get(MARK) == "true"


def commands(stage: Stage) -> list[Doc]:
    return stage.world.all(kinds.COMMAND, server=EAST)


def told(stage: Stage, name: str) -> set[str]:
    """Reasons of events about an object."""
    events = stage.world.all(kinds.EVENT, server=EAST)
    return {event["reason"] for event in events if event["involvedObject"]["name"] == name}


async def settled(stage: Stage, **states: str) -> None:
    """Until each queue has this state and no Command is left."""
    await stage.until(
        lambda: not commands(stage) and all(state(stage, name) == wanted for name, wanted in states.items()),
        timeout=60,
        what=f"{states}",
    )


def local(manifest: Doc, queue: str = keys.DEFAULT_QUEUE) -> Doc:
    """A Job that people submit to the member itself."""
    return {**manifest, "spec": {**manifest["spec"], "queue": queue}}


def reason(stage: Stage, name: str) -> str:
    """Why a Job waits."""
    return str(((stage.local(name) or {}).get("status", {}).get("state") or {}).get("reason", ""))
