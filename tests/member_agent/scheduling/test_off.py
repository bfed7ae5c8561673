"""Turning off a plugin, an argument, a score or a flag changes the plan: one scene for each, and none is forgotten.

Whoever adds a plugin, an argument or a question adds a row; `test_nothing_is_forgotten` names what lacks one.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from apis.vectors import EMPTY
from member_agent.layout import HOSTNAME
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import BUILT_IN, plan
from member_agent.scheduling.plugins.built_in import PLUGINS
from member_agent.scheduling.plugins.hooks import OFF, Hook
from member_agent.scheduling.plugins.nodegroup import LABEL
from member_agent.scheduling.plugins.protocol import GATES, Plugin, Victim
from member_agent.scheduling.session import OpenSession
from member_agent.scheduling.snapshot import Gangs
from member_agent.views import NodeView, QueueView
from member_agent.views.hints import TASK_AFFINITY, TASK_ORDER, TASK_PRIORITY, Hints
from member_agent.views.queues import NodeGroups
from member_agent.views.quotas import QuotaView
from policies.neighbours import Neighbours, Spread
from policies.shapes import PodShape, Requirement, Taint
from tests.member_agent.scheduling.around import apart, crew, crowd, prefers, spread
from tests.member_agent.scheduling.build import Made, configuration, frozen, gang, nodes, queue, vector
from tests.member_agent.scheduling.off_evictions import EVICTING
from tests.member_agent.scheduling.storing import claim, in_zone, limit, mounting, on_host, stored, volume
from tests.member_agent.test_room import node, shape

LATER: Final = "2026-01-02T00:00:00Z"


@dataclasses.dataclass(frozen=True)
class Scene:
    """A cluster and what waits there."""

    machines: tuple[NodeView, ...]
    gangs: tuple[Made, ...]
    queues: tuple[QueueView, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    now: float = 0.0
    actions: str = "enqueue, allocate"
    told: Callable[[Gangs], None] = lambda _: None

    def session(self, by: Configuration) -> OpenSession:
        snapshot = frozen(self.machines, self.gangs, queues=self.queues, now=self.now)
        snapshot = dataclasses.replace(snapshot, quotas={"ns": self.quotas})
        return OpenSession(snapshot, configuration=by, registry=BUILT_IN)

    def plan(self, by: Configuration) -> Plan:
        snapshot = frozen(self.machines, self.gangs, queues=self.queues, now=self.now, told=self.told)
        return plan(dataclasses.replace(snapshot, quotas={"ns": self.quotas}), configuration=by)


@dataclasses.dataclass(frozen=True)
class Off:
    """`plugin` with `on` against itself with `off`, or nothing where `switch` is the plugin; beside other plugins."""

    plugin: str
    switch: str
    scene: Scene
    on: str = ""
    off: str = ""
    beside: tuple[str, ...] = ("predicates",)

    def __str__(self) -> str:
        return f"{self.plugin}: {self.switch}"

    @property
    def both(self) -> tuple[Configuration, Configuration]:
        with_it, without_it = (f"{{name: {self.plugin}{', ' if text else ''}{text}}}" for text in (self.on, self.off))
        others = [without_it] if self.switch != "plugin" else []
        return two_tiers([with_it], self.beside, self.scene.actions), two_tiers(others, self.beside, self.scene.actions)


def two_tiers(first: Iterable[str], second: Iterable[str], actions: str = "enqueue, allocate") -> Configuration:
    tiers = (", ".join(each if "{" in each else f"{{name: {each}}}" for each in tier) for tier in (first, second))
    return configuration(tiers=f"tiers: [{', '.join(f'{{plugins: [{tier}]}}' for tier in tiers)}]", actions=actions)


def flag(plugin: str, hook: Hook, scene: Scene, **more: Any) -> Off:
    name = f"enable{hook.value}"
    on, off = (f"{name}: true", "") if hook in OFF else ("", f"{name}: false")
    return Off(plugin, hook.value, scene, on, off, **more)


def argument(plugin: str, name: str, scene: Scene, *, on: str, off: str, rest: str = "", **more: Any) -> Off:
    """Values as they stand in the configuration; `rest`: other arguments."""
    with_it, without_it = (f"arguments: {{{rest}{', ' if rest else ''}{name}: {value}}}" for value in (on, off))
    return Off(plugin, name, scene, with_it, without_it, **more)


# --- scenes ----------------------------------------------------------------------------------------------------------


def of(*gangs: Made, on: tuple[NodeView, ...] | list[NodeView], **more: Any) -> Scene:
    return Scene(tuple(on), gangs, **more)


def pending(name: str, *, asks: int = 1, **more: Any) -> Made:
    return gang(name, pods=0, minimum=1, asks=asks, phase="Pending", **more)


def hinted(made: Made, hints: Hints) -> Made:
    return dataclasses.replace(made, group=dataclasses.replace(made.group, hints=hints))


def tasks(made: Made, *names: str) -> Made:
    pods = tuple(dataclasses.replace(pod, task=name) for pod, name in zip(made.pods, names, strict=True))
    return dataclasses.replace(made, pods=pods)


def tainted(effect: str) -> list[NodeView]:
    machines = nodes(8, 8)
    machines[0] = dataclasses.replace(machines[0], taints=(Taint("old", "", effect),))
    return machines


def sized(name: str, **amounts: int) -> NodeView:
    return dataclasses.replace(node(name, cpu=1), allocatable=vector(pods=110, **amounts))


def grouped(name: str, group: str) -> NodeView:
    made = node(name, cpu=4)
    return dataclasses.replace(made, labels={**made.labels, LABEL: group}) if group else made


def keeping(**listed: tuple[str, ...]) -> QueueView:
    return dataclasses.replace(queue("default"), node_groups=NodeGroups(**listed))


TWO = nodes(8, 16)
BUSY = gang("busy", pods=2, on=["n0", "n0"])
LARGE = of(gang("large", pods=5), on=nodes(4))
RANKED = of(gang("a", pods=3), gang("b", pods=3, priority=5), on=nodes(4))
MORE_IMPORTANT = gang("g", pods=2, minimum=1)
IMPORTANT_PODS = dataclasses.replace(
    MORE_IMPORTANT,
    pods=tuple(dataclasses.replace(pod, hints=((TASK_PRIORITY, str(pod.index)),)) for pod in MORE_IMPORTANT.pods),
)
HALF = of(gang("a", pods=4, minimum=1, on=["n0"]), gang("b", pods=3, created=LATER), on=nodes(4))
URGENT = of(
    gang("a", pods=2, created="1970-01-01T01:00:00Z"),
    gang("b", pods=2, created="1970-01-01T01:10:00Z", waiting_time="5m"),
    on=nodes(2),
)
IMPATIENT = of(pending("big", asks=99, created="1970-01-01T00:00:00Z", waiting_time="1h"), on=nodes(4), now=7200.0)
CROWD = of(*(pending(f"p{index}") for index in range(15)), on=nodes(10))
UNEQUAL = of(gang("a", pods=5, minimum=1, on=["n0", "n0"]), gang("b", pods=5, minimum=1, on=["n0"], created=LATER), on=nodes(4))
TENANTS = of(
    *(gang(f"a{index}") for index in range(4)),
    *(
        Made(
            dataclasses.replace(each.group, namespace="other"),
            tuple(dataclasses.replace(pod, namespace="other") for pod in each.pods),
            0,
        )
        for each in (gang(f"b{index}", created=LATER) for index in range(4))
    ),
    on=nodes(4),
)
TREE = of(
    gang("r1", pods=2, queue="dev", on=["n0", "n0"]),
    gang("r2", pods=1, queue="sci", on=["n0"]),
    gang("w1", pods=1, queue="prod"),
    gang("w2", pods=1, queue="sci"),
    on=nodes(4),
    queues=(
        queue("dev", hierarchy="root/eng/dev", hierarchy_weights="1/1/1"),
        queue("prod", hierarchy="root/eng/prod", hierarchy_weights="1/1/1"),
        queue("sci", hierarchy="root/sci", hierarchy_weights="1/1"),
    ),
)
SHARED = of(
    gang("r", pods=4, queue="a", on=["n0"] * 4),
    gang("w", queue="a"),
    gang("x", pods=9, queue="b"),
    on=nodes(8),
    queues=(queue("a"), queue("b")),
)
FULL = dataclasses.replace(
    SHARED, gangs=(SHARED.gangs[0], gang("w", queue="a", shape=PodShape(vector(cpu=1))), SHARED.gangs[2])
)
BEHIND = of(
    *(gang(f"r{name}", pods=pods, queue=name, on=["n0"] * pods) for name, pods in (("a", 3), ("b", 1), ("c", 3))),
    gang("v", queue="a"),
    gang("w", queue="b"),
    on=nodes(8),
    queues=(queue("a", weight=2), queue("b"), queue("c")),
)
AHEAD = of(
    gang("r", pods=3, queue="a", on=["n0"] * 3),
    gang("v", queue="a", created="2025-01-01T00:00:00Z"),
    gang("w", queue="b"),
    on=nodes(4),
    queues=(queue("a", deserved=4), queue("b", deserved=4)),
)
CAPPED = of(*(gang(f"g{index}", queue="q") for index in range(6)), on=nodes(8), queues=(queue("q", capability=3),))
CAPPED_AT_THE_DOOR = of(
    *(pending(f"g{index}", queue="q") for index in range(6)), on=nodes(8), queues=(queue("q", capability=3),)
)
DEEP = of(
    *(gang(f"g{index}", queue="a") for index in range(6)),
    on=nodes(8),
    queues=(queue("top", capability=4), queue("a", parent="top")),
)
LABELLED = of(gang("g", shape=shape(1, disk="ssd")), on=nodes(4))
UNTOLERATED = of(gang("g", pods=16), on=tainted("NoSchedule"))
PORTS = of(gang("g", pods=3, shape=PodShape(vector(cpu=1, pods=1), one_per_node=True)), on=nodes(4, 4))
SPREADING = of(BUSY, gang("g", pods=4), on=TWO)
EVEN = of(gang("g", shape=shape(4, 2)), on=[node("a", cpu=8, memory=4), node("b", cpu=8, memory=64)])
LOPSIDED = of(gang("g", shape=shape(2, 2)), on=[node("a", cpu=8, memory=64), node("b", cpu=64, memory=8)])
GPUS = of(
    gang("g", shape=PodShape(vector(cpu=1, gpu=1, pods=1))),
    on=[sized("a", cpu=16, gpu=8, memory=1), sized("b", cpu=8, gpu=16, memory=1)],
)
SCARCE = of(gang("g"), on=[sized("a", cpu=64, gpu=8, memory=9), sized("b", cpu=8, memory=9)])
BESIDE = of(gang("g", pods=16, minimum=1), on=[sized("a", cpu=16, gpu=2, memory=99)])
GROUPED = of(gang("g"), on=[grouped("a", "a"), grouped("b", "b")], queues=(keeping(preferred=("b", "a")),))
KEPT_OUT = of(gang("g"), on=[grouped("a", "a"), grouped("b", "b")], queues=(keeping(required=("b",)),))
UNGROUPED = of(gang("g"), on=[grouped("x", "")])
INHERITING = of(
    gang("g", queue="q"),
    on=[grouped("a", "a"), grouped("b", "b")],
    queues=(dataclasses.replace(queue("top"), node_groups=NodeGroups(required=("b",))), queue("q", parent="top")),
)
PAIR = of(hinted(tasks(gang("g", pods=2), "a", "b"), ((TASK_AFFINITY, "a,b"),)), on=nodes(8, 8))
FIRST = of(hinted(tasks(gang("g", pods=2, minimum=1), "a", "b"), ((TASK_AFFINITY, "a,b"), (TASK_ORDER, "b,a"))), on=nodes(1))
QUOTA = of(
    pending("g", asks=2),
    on=nodes(8),
    quotas=(QuotaView("ns", "compute", "u", "1", vector(cpu=1), EMPTY, named=frozenset({"cpu"})),),
)

ONLY_EMPTIER = ("predicates", "{name: nodeorder, arguments: {balancedresource.weight: 0}}")
SOFT = Neighbours(spreads=(Spread(crowd("g"), "zone", hard=False),))
WISH = dataclasses.replace(shape(1), prefers=(((Requirement("kubernetes.io/hostname", "In", ("n1",)),), 1),))
WISHING = of(gang("g", shape=WISH), on=nodes(8, 8))
IMAGED = dataclasses.replace(node("n1", cpu=8), images=(("app:latest", 1 << 30),))
PULLED = of(gang("g", shape=dataclasses.replace(shape(1), images=("app",))), on=(node("n0", cpu=8), IMAGED))
ZONES = tuple(node(f"n{index}", cpu=8, zone="ab"[index]) for index in range(2))
FOND = of(crew("db", on=["n1"]), crew("g", prefers("db", 5)), on=ZONES)
SCATTERED = of(crew("old", on=["n0"], of="g"), gang("busy", on=["n1"], cpu=2), crew("g", SOFT), on=ZONES)
DATA = mounting(gang("g"), "data")
LOCAL = of(DATA, on=ZONES, told=stored(claim("data", volume="pv"), volume("pv", reach=on_host("n1"))))
ZONAL = of(DATA, on=ZONES, told=stored(claim("data", volume="pv"), volume("pv", zones=(in_zone("b"),))))
LIMITED = of(
    mounting(gang("old", on=["n0"]), "full"),
    DATA,
    on=ZONES[:1],
    told=stored(
        claim("full", volume="a"),
        volume("a", driver="csi", handle="a"),
        claim("data", volume="b"),
        volume("b", driver="csi", handle="b"),
        limit("n0", csi=1),
    ),
)

NO_OTHER_SCORE = {
    "leastrequested.weight": "balancedresource.weight: 0, tainttoleration.weight: 0",
    "mostrequested.weight": "leastrequested.weight: 0, balancedresource.weight: 0, tainttoleration.weight: 0",
    "balancedresource.weight": "tainttoleration.weight: 0",
    "tainttoleration.weight": "leastrequested.weight: 0, balancedresource.weight: 0",
}
PACKING = "resources: {cpu: {type: MostAllocated}}"

CASES: Final = [
    Off("priority", "plugin", RANKED),
    flag("priority", Hook.JOB_ORDER, RANKED),
    flag("priority", Hook.TASK_ORDER, of(IMPORTANT_PODS, on=nodes(1))),
    Off("gang", "plugin", LARGE),
    flag("gang", Hook.JOB_READY, LARGE),
    flag("gang", Hook.JOB_ORDER, HALF),
    Off("sla", "plugin", IMPATIENT, beside=("overcommit",)),
    argument(
        "sla",
        "sla-waiting-time",
        of(pending("big", asks=99, created="1970-01-01T00:00:00Z"), on=nodes(4), now=7200.0),
        on="1h",
        off="9h",
        beside=("overcommit",),
    ),
    flag("sla", Hook.JOB_ENQUEUED, IMPATIENT, beside=("overcommit",)),
    flag("sla", Hook.JOB_ORDER, URGENT),
    Off("overcommit", "plugin", CROWD),
    argument("overcommit", "overcommit-factor", CROWD, on="1.2", off="9"),
    flag("overcommit", Hook.JOB_ENQUEUED, CROWD),
    Off("drf", "plugin", UNEQUAL),
    flag("drf", Hook.JOB_ORDER, UNEQUAL),
    flag("drf", Hook.NAMESPACE_ORDER, TENANTS),
    flag("drf", Hook.HIERARCHY, TREE),
    Off("drf", Hook.QUEUE_ORDER.value, TREE, "enableHierarchy: true", "enableHierarchy: true, enableQueueOrder: false"),
    Off("predicates", "plugin", LABELLED, beside=("gang",)),
    flag("predicates", Hook.PREDICATE, LABELLED, beside=("gang",)),
    argument("predicates", "predicate.NodeAffinityEnable", LABELLED, on="true", off="false", beside=("gang",)),
    argument("predicates", "predicate.TaintTolerationEnable", UNTOLERATED, on="true", off="false", beside=("gang",)),
    argument("predicates", "predicate.NodePortsEnable", PORTS, on="true", off="false", beside=("gang",)),
    argument(
        "predicates",
        "predicate.PodAffinityEnable",
        of(crew("g", apart("g"), pods=2), on=nodes(4)),
        on="true",
        off="false",
        beside=("gang",),
    ),
    argument(
        "predicates",
        "predicate.PodTopologySpreadEnable",
        of(crew("g", spread("g", by=HOSTNAME), pods=4), on=nodes(1, 4)),
        on="true",
        off="false",
        beside=("gang",),
    ),
    Off("proportion", "plugin", SHARED),
    Off(
        "proportion",
        Hook.OVERUSED.value,
        FULL,
        "enabledAllocatable: false",
        "enabledAllocatable: false, enabledOverused: false",
        beside=("gang", "predicates"),
    ),
    flag("proportion", Hook.ALLOCATABLE, CAPPED),
    flag("proportion", Hook.QUEUE_ORDER, BEHIND),
    flag("proportion", Hook.JOB_ENQUEUED, CAPPED_AT_THE_DOOR),
    Off("capacity", "plugin", CAPPED),
    flag("capacity", Hook.ALLOCATABLE, CAPPED),
    flag("capacity", Hook.QUEUE_ORDER, AHEAD),
    flag("capacity", Hook.JOB_ENQUEUED, CAPPED_AT_THE_DOOR),
    flag("capacity", Hook.HIERARCHY, DEEP),
    Off("nodeorder", "plugin", SPREADING),
    flag("nodeorder", Hook.NODE_ORDER, SPREADING),
    argument("nodeorder", "leastrequested.weight", SPREADING, on="1", off="0", rest=NO_OTHER_SCORE["leastrequested.weight"]),
    argument(
        "nodeorder",
        "mostrequested.weight",
        of(gang("busy", pods=2, on=["n1", "n1"]), gang("g"), on=nodes(8, 8)),
        on="1",
        off="0",
        rest=NO_OTHER_SCORE["mostrequested.weight"],
    ),
    argument("nodeorder", "balancedresource.weight", EVEN, on="1", off="0", rest=NO_OTHER_SCORE["balancedresource.weight"]),
    argument(
        "nodeorder",
        "tainttoleration.weight",
        of(gang("g"), on=tainted("PreferNoSchedule")),
        on="3",
        off="0",
        rest=NO_OTHER_SCORE["tainttoleration.weight"],
    ),
    argument("predicates", "predicate.VolumeBindingEnable", LOCAL, on="true", off="false", beside=("gang",)),
    argument("predicates", "predicate.VolumeZoneEnable", ZONAL, on="true", off="false", beside=("gang",)),
    argument("predicates", "predicate.NodeVolumeLimitsEnable", LIMITED, on="true", off="false", beside=("gang",)),
    argument("nodeorder", "nodeaffinity.weight", WISHING, on="2", off="0"),
    argument("nodeorder", "imagelocality.weight", PULLED, on="9", off="0"),
    argument("nodeorder", "podaffinity.weight", FOND, on="9", off="0"),
    argument("nodeorder", "podtopologyspread.weight", SCATTERED, on="9", off="0"),
    Off("binpack", "plugin", SPREADING, "arguments: {binpack.weight: 9}", beside=ONLY_EMPTIER),
    Off(
        "binpack",
        Hook.NODE_ORDER.value,
        SPREADING,
        "arguments: {binpack.weight: 9}",
        "arguments: {binpack.weight: 9}, enableNodeOrder: false",
        beside=ONLY_EMPTIER,
    ),
    argument("binpack", "binpack.weight", SPREADING, on="9", off="0", beside=ONLY_EMPTIER),
    argument("binpack", "binpack.cpu", LOPSIDED, on="9", off="0"),
    argument("binpack", "binpack.memory", LOPSIDED, on="9", off="0"),
    argument("binpack", "binpack.resources", GPUS, on="gpu, binpack.resources.gpu: 9", off='""'),
    Off("nodegroup", "plugin", KEPT_OUT),
    flag("nodegroup", Hook.PREDICATE, dataclasses.replace(KEPT_OUT, queues=(keeping(required=("c",)),))),
    flag("nodegroup", Hook.NODE_ORDER, dataclasses.replace(KEPT_OUT, queues=(keeping(required=("b",), preferred=("a",)),))),
    argument("nodegroup", "strict", UNGROUPED, on="true", off="false"),
    argument("nodegroup", "enablePreferredOrder", GROUPED, on="true", off="false"),
    flag("nodegroup", Hook.HIERARCHY, INHERITING),
    Off("resource-strategy-fit", "plugin", SPREADING, f"arguments: {{{PACKING}}}", beside=ONLY_EMPTIER),
    Off(
        "resource-strategy-fit",
        Hook.NODE_ORDER.value,
        SPREADING,
        f"arguments: {{{PACKING}}}",
        f"arguments: {{{PACKING}}}, enableNodeOrder: false",
        beside=ONLY_EMPTIER,
    ),
    argument(
        "resource-strategy-fit", "resourceStrategyFitWeight", SPREADING, on="10", off="0", rest=PACKING, beside=ONLY_EMPTIER
    ),
    argument("resource-strategy-fit", "resources", SPREADING, on="{cpu: {type: MostAllocated}}", off="{cpu: {}}"),
    argument("resource-strategy-fit", "sra", SCARCE, on="{enable: true, resources: gpu, weight: 99}", off="{}"),
    argument("resource-strategy-fit", "proportional", BESIDE, on="{enable: true, resources: gpu}", off="{}"),
    Off(
        "resource-strategy-fit",
        Hook.PREDICATE.value,
        BESIDE,
        "arguments: {proportional: {enable: true, resources: gpu}}",
        "arguments: {proportional: {enable: true, resources: gpu}}, enablePredicate: false",
    ),
    Off("task-topology", "plugin", PAIR, "arguments: {task-topology.weight: 9}", beside=ONLY_EMPTIER),
    argument("task-topology", "task-topology.weight", PAIR, on="9", off="0", beside=ONLY_EMPTIER),
    Off(
        "task-topology",
        Hook.NODE_ORDER.value,
        PAIR,
        "arguments: {task-topology.weight: 9}",
        "arguments: {task-topology.weight: 9}, enableNodeOrder: false",
        beside=ONLY_EMPTIER,
    ),
    flag("task-topology", Hook.TASK_ORDER, FIRST),
    Off("resourcequota", "plugin", QUOTA),
    flag("resourcequota", Hook.JOB_ENQUEUED, QUOTA),
]

NO_EFFECT: Final = {("predicates", "predicate.CacheEnable"): "answers are kept anyway"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_turning_it_off_changes_the_plan(case: Off) -> None:
    on, off = (case.scene.plan(by) for by in case.both)
    assert (on.bindings, on.admitted, dict(on.waiting)) != (off.bindings, off.admitted, dict(off.waiting))
    assert (on.bindings, on.admitted) != (off.bindings, off.admitted), "only the words differ"


# --- what evictions ask ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question about evictions, and the scene in which it is asked."""

    plugin: str
    hook: Hook
    question: Callable[[OpenSession], object]
    scene: Scene = of(gang("w", pods=2, priority=5), gang("v"), on=nodes(4))

    def __str__(self) -> str:
        return f"{self.plugin}: {self.hook.value}"


def victims(session: OpenSession) -> list[Victim]:
    """One that is less important, one that is not, one of the system."""
    one = gang("v").pods[0]
    pods = [
        dataclasses.replace(one, uid="low"),
        dataclasses.replace(one, uid="high"),
        dataclasses.replace(one, uid="system", namespace="kube-system"),
    ]
    return [Victim(pod, 0, ("ns", "v"), "default", 9 if pod.uid == "high" else 0) for pod in pods]


def preemptable(session: OpenSession) -> object:
    return [each.pod.uid for each in session.tiers.preemptable(session.waiting[-1], victims=victims(session))]


def starving(session: OpenSession) -> object:
    return session.tiers.job_starving(session.waiting[-1], placed={})


def pipelined(session: OpenSession) -> object:
    return session.tiers.job_pipelined(session.gangs[0], placed={})


ASKED: Final = [
    Asked("priority", Hook.PREEMPTABLE, preemptable),
    Asked("priority", Hook.JOB_STARVING, starving),
    Asked("conformance", Hook.PREEMPTABLE, preemptable),
    Asked("gang", Hook.JOB_STARVING, starving),
    Asked("gang", Hook.JOB_PIPELINED, pipelined),
    Asked("sla", Hook.JOB_PIPELINED, pipelined, IMPATIENT),
]


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_turning_it_off_changes_what_evictions_are_told(case: Asked) -> None:
    beside = ["gang"] if case.plugin == "sla" else []
    texts = (case.plugin, f"{{name: {case.plugin}, enable{case.hook.value}: false}}")
    on, off = (case.question(case.scene.session(two_tiers([text], beside))) for text in texts)
    assert on != off


# --- nobody is forgotten ---------------------------------------------------------------------------------------------


def switches(plugin: type[Plugin]) -> set[str]:
    """What of a plugin may be turned off: itself, its arguments, and the flags of the questions that it answers."""
    questions = [hook for question, hook in GATES.items() if getattr(plugin, question) is not getattr(Plugin, question)]
    found = {hook.value for hook in questions if hook is not None} | ({"plugin"} if plugin.name != "conformance" else set())
    if "Hook.HIERARCHY" in inspect.getsource(plugin):
        found.add(Hook.HIERARCHY.value)
    fields = {field.alias or name for name, field in plugin.arguments.model_fields.items()}
    return found | {name for name in fields - plugin.later if (plugin.name, name) not in NO_EFFECT}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_nothing_is_forgotten(plugin: type[Plugin]) -> None:
    shown = {case.switch for case in CASES if case.plugin == plugin.name}
    shown |= {case.hook.value for case in ASKED if case.plugin == plugin.name}
    shown |= {case.switch for case in EVICTING if case.plugin == plugin.name}
    assert switches(plugin) - shown == set()
    assert shown - switches(plugin) == set()


@pytest.mark.parametrize("name", NO_EFFECT, ids=" ".join)
def test_what_is_said_to_have_no_effect_has_none(name: tuple[str, str]) -> None:
    plugin, switch = name
    on, off = (configuration("gang", f"{{name: {plugin}, arguments: {{{switch}: {value}}}}}") for value in ("true", "false"))
    assert LABELLED.plan(on) == LABELLED.plan(off)
