"""Builders of sessions: nodes, queues, gangs that wait and gangs that run, and the plan that follows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from apis.vectors import ResourceVector
from machinery.informer import Change
from member_agent.scheduling.configuration import DEFAULT, Configuration, parse
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import BUILT_IN, plan
from member_agent.scheduling.snapshot import Gangs, Snapshot
from member_agent.views import GroupStatus, GroupView, NodeView, PodView, QueueView
from policies.shapes import PodShape
from tests.member_agent import test_room
from tests.member_agent.test_room import inventory, node

GIB = 1 << 30


def vector(**amounts: Any) -> ResourceVector:
    return ResourceVector.from_quantities({name.replace("_", "/"): str(amount) for name, amount in amounts.items()})


def nodes(*cpus: int, **more: Any) -> list[NodeView]:
    return [node(f"n{index}", cpu=cpu, **more) for index, cpu in enumerate(cpus)]


def queue(name: str, *, state: str = "Open", parent: str = "", weight: int = 1, **more: Any) -> QueueView:
    for field in ("capability", "guarantee", "deserved"):
        more[field] = vector(cpu=more[field]) if field in more else ResourceVector()
    return QueueView(
        name=name,
        uid=f"uid-{name}",
        version="1",
        parent=parent,
        weight=weight,
        state=state,
        allocated=ResourceVector(),
        **more,
    )


@dataclasses.dataclass(frozen=True)
class Made:
    """A gang: its group, and its pods with their nodes."""

    group: GroupView
    pods: tuple[PodView, ...]
    priority: int


def gang(
    name: str,
    *,
    pods: int = 1,
    cpu: int = 1,
    minimum: int | None = None,
    queue: str = "default",
    on: Sequence[str] = (),
    hub: bool = False,
    phase: str = "Inqueue",
    asks: int | None = None,
    priority: int = 0,
    created: str = "2026-01-01T00:00:00Z",
    shape: PodShape | None = None,
    **more: Any,
) -> Made:
    """`on`: nodes of its first pods; `asks`: cpu of its minimum resources, else what its minimum of pods asks for."""
    least = pods if minimum is None else minimum
    of = shape or test_room.shape(cpu)
    group = dataclasses.replace(
        test_room.group(name, least),
        queue=queue,
        admitted=hub,
        created=created,
        min_resources=vector(cpu=least * cpu if asks is None else asks),
        status=GroupStatus(phase=phase),
        priority_class=f"p{priority}" if priority else "",
        **more,
    )
    made = []
    for index in range(pods):
        where = on[index] if index < len(on) else ""
        one = test_room.pod(f"{name}-{index}", of, group=name, on=where)
        made.append(dataclasses.replace(one, index=index, priority=priority))
    return Made(group, tuple(made), priority)


def configuration(*plugins: str, actions: str = "enqueue, allocate, backfill", tiers: str = "") -> Configuration:
    """Of plugins in one tier, `name` or `name: {argument: value}` with flags beside as `name{flag: false}`."""
    text = tiers or "tiers: [{plugins: [" + ", ".join(each if "{" in each else f"{{name: {each}}}" for each in plugins) + "]}]"
    return parse(f'actions: "{actions}"\n{text}', known=BUILT_IN.known)


USUAL = parse(DEFAULT, known=BUILT_IN.known)


def without(name: str) -> Configuration:
    """The usual configuration without one plugin or action."""
    return dataclasses.replace(
        USUAL,
        actions=tuple(each for each in USUAL.actions if each != name),
        tiers=tuple(tuple(choice for choice in tier if choice.name != name) for tier in USUAL.tiers),
    )


def frozen(
    machines: Sequence[NodeView],
    gangs: Sequence[Made],
    *,
    queues: Sequence[QueueView] = (),
    now: float = 0.0,
    told: Callable[[Gangs], None] = lambda _: None,
) -> Snapshot:
    """The snapshot of a cluster, made as the controller makes it; `told` what else is there."""
    found = inventory(list(machines))
    kept = Gangs(found, scheduler="volcano")
    groups = {(each.group.namespace, each.group.name): each.group for each in gangs}
    for key, group in groups.items():
        kept.group_changed(Change(key, None, group))
    for each in gangs:
        for pod in each.pods:
            change = Change((pod.namespace, pod.name), None, pod)
            found.pod_changed(change)
            kept.pod_changed(change)
    told(kept)
    return kept.freeze(
        groups=groups.get,
        pending={key: group for key, group in groups.items() if group.phase in ("Pending", "Inqueue")},
        priority=lambda name: int(name.removeprefix("p") or 0),
        queues={each.name: each for each in queues or [queue("default")]},
        held_back=lambda pod: False,
        now=now,
    )


def decide(
    machines: Sequence[NodeView],
    *gangs: Made,
    queues: Sequence[QueueView] = (),
    by: Configuration | None = None,
    now: float = 0.0,
    told: Callable[[Gangs], None] = lambda _: None,
) -> Plan:
    return plan(frozen(machines, gangs, queues=queues, now=now, told=told), configuration=by)


def started(found: Plan) -> dict[str, int]:
    """Pods that were given nodes, by gang."""
    return dict(Counter(binding.pod.group for binding in found.bindings))


def places(found: Plan) -> dict[str, int]:
    """Pods by node."""
    return dict(Counter(binding.node for binding in found.bindings))


def admitted(found: Plan) -> list[str]:
    return [name for _, name in found.admitted]


def why(found: Plan, name: str) -> str:
    return found.waiting["ns", name].sentence


def code(found: Plan, name: str) -> str:
    return found.waiting["ns", name].code
