"""For every plugin, argument and flag that has a say in evictions a cluster in which turning it off changes who goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from member_agent.views.pods import Manner
from tests.member_agent.scheduling import test_pdb, test_reclaim
from tests.member_agent.scheduling.build import Made, configuration, gang, nodes, queue
from tests.member_agent.scheduling.rounds import Rounds, of

PREEMPT = "enqueue, allocate, backfill, preempt"
RECLAIM = "enqueue, allocate, backfill, reclaim"


@dataclass(frozen=True)
class Evicting:
    """Beside `beside` the plugin stands, with `on` or with `off` behind its name (None: not at all)."""

    plugin: str
    switch: str
    cluster: Callable[..., Rounds]
    beside: tuple[str, ...] = ("priority",)
    on: str = ""
    off: str | None = None
    actions: str = PREEMPT

    def __str__(self) -> str:
        return f"{self.plugin}: {self.switch}"

    def victims(self, more: str | None) -> list[str]:
        own = () if more is None else (f"{{name: {self.plugin}{more}}}",)
        by = configuration(*own, *self.beside, "predicates", actions=self.actions)
        return sorted(each.pod.name for each in self.cluster(by=by).round().evictions)


def flag(name: str) -> str:
    return f", enable{name}: false"


def crowded(**more: object) -> Rounds:
    """A gang that has its minimum and no more, under a more important one."""
    low = gang("low", pods=2, on=["n0", "n1"], priority=1, phase="Running")
    return Rounds(nodes(1, 1), low, gang("high", priority=9), **more)  # type: ignore[arg-type]


def borrowed(**more: object) -> Rounds:
    """One queue holds all of what two deserve half of."""
    queues = [queue("q1", deserved=1), queue("q2", deserved=1)]
    gangs = test_reclaim.running("j1", "n0", "n1"), test_reclaim.coming("j2")
    return test_reclaim.rounds(2, *gangs, queues=queues, **more)


def whole(**more: object) -> Rounds:
    """The same, of a gang that needs both."""
    queues = [queue("q1"), queue("q2")]
    gangs = test_reclaim.running("j1", "n0", "n1", minimum=2), test_reclaim.coming("j2")
    return test_reclaim.rounds(2, *gangs, queues=queues, **more)


def above(**more: object) -> Rounds:
    """A queue beyond what it deserves under one that is not."""
    queues = [queue("q1", deserved=4), queue("q11", parent="q1", deserved=2), queue("q2", deserved=3)]
    nodes_of = [f"n{index}" for index in range(4)]
    gangs = test_reclaim.running("j11", *nodes_of, queue="q11"), test_reclaim.coming("j2")
    return test_reclaim.rounds(4, *gangs, queues=queues, **more)


def tree(**more: object) -> Rounds:
    """By the annotated tree one queue is ahead."""
    queues = [
        queue("q1", hierarchy="root/a", hierarchy_weights="1/1"),
        queue("q2", hierarchy="root/b", hierarchy_weights="1/1"),
    ]
    gangs = test_reclaim.running("j1", "n0", "n1", "n2", "n3"), test_reclaim.coming("j2")
    return test_reclaim.rounds(4, *gangs, queues=queues, **more)


def shares(**more: object) -> Rounds:
    """The important gang would hold a larger share than the small one that it could evict."""
    small = gang("small", on=["n0"], priority=1, phase="Running")
    large: Made = gang("high", pods=3, minimum=3, on=["n1", "n2"], priority=9, phase="Inqueue")
    return Rounds(nodes(1, 1, 1), small, large, **more)  # type: ignore[arg-type]


def guarded(**more: object) -> Rounds:
    """A budget that allows nothing."""
    gangs = test_pdb.web(), gang("high", priority=9)
    return Rounds(nodes(1, 1), *gangs, budgets=[test_pdb.budget(0)], **more)  # type: ignore[arg-type]


def cooling(**more: object) -> Rounds:
    """Pods that have just started."""
    young = gang("young", pods=2, minimum=1, on=["n0", "n1"], priority=1, phase="Running")
    gangs = of(young, manner=Manner(cooldown=60.0), since=1000.0), gang("high", priority=9)
    return Rounds(nodes(1, 1), *gangs, **more)  # type: ignore[arg-type]


def critical(**more: object) -> Rounds:
    """Pods without which the cluster itself would not work."""
    system = of(gang("system", pods=2, minimum=1, on=["n0", "n1"], phase="Running"), priority=2_000_000_000)
    return Rounds(nodes(1, 1), system, **more)  # type: ignore[arg-type]


def lent(cluster: Callable[..., Rounds]) -> Callable[..., Rounds]:
    """The same victims, borrowed by another queue."""

    def made(**more: object) -> Rounds:
        found = cluster(**more)
        found.queues = {name: queue(name) for name in ("default", "q2")}
        found.add(gang("high", queue="q2", priority=9))
        return found

    return made


_DEEP = ", enableHierarchy: true"

EVICTING = [
    Evicting("gang", "Preemptable", crowded, off=flag("Preemptable")),
    Evicting("gang", "Reclaimable", whole, ("priority", "proportion"), off=flag("Reclaimable"), actions=RECLAIM),
    Evicting("proportion", "Reclaimable", borrowed, ("priority", "gang"), off=flag("Reclaimable"), actions=RECLAIM),
    Evicting("proportion", "Preemptive", borrowed, ("priority", "gang"), off=flag("Preemptive"), actions=RECLAIM),
    Evicting("capacity", "Reclaimable", borrowed, ("priority", "gang"), off=flag("Reclaimable"), actions=RECLAIM),
    Evicting("capacity", "Preemptive", borrowed, ("priority", "gang"), off=flag("Preemptive"), actions=RECLAIM),
    Evicting(
        "capacity",
        "ancestorReclaimLevel",
        above,
        ("priority", "gang"),
        on=f"{_DEEP}, arguments: {{ancestorReclaimLevel: 1}}",
        off=_DEEP,
        actions=RECLAIM,
    ),
    Evicting(
        "conformance", "Reclaimable", lent(critical), ("proportion", "priority"), off=flag("Reclaimable"), actions=RECLAIM
    ),
    Evicting("drf", "Preemptable", shares, off=flag("Preemptable")),
    Evicting("drf", "Reclaimable", tree, ("gang",), on=_DEEP, off=f"{_DEEP}{flag('Reclaimable')}", actions=RECLAIM),
    Evicting("drf", "Preemptive", tree, ("gang",), on=_DEEP, off=f"{_DEEP}{flag('Preemptive')}", actions=RECLAIM),
    Evicting("pdb", "plugin", guarded),
    Evicting("pdb", "Preemptable", guarded, off=flag("Preemptable")),
    Evicting("pdb", "Reclaimable", lent(guarded), ("proportion", "priority"), off=flag("Reclaimable"), actions=RECLAIM),
    Evicting("cdp", "plugin", cooling),
    Evicting("cdp", "Preemptable", cooling, off=flag("Preemptable")),
    Evicting("cdp", "Reclaimable", lent(cooling), ("proportion", "priority"), off=flag("Reclaimable"), actions=RECLAIM),
]
