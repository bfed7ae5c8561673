"""What a plugin may be asked, and what it may look at.

A plugin is made anew for every session from its arguments and a view of that session; it holds no state beyond it, reads no
clock and sees no client. It answers the questions it overrides and no others. Nodes are asked about all at once: a predicate
is a mask over rows, a limit a count per row, a score a vector, so that equal pods cost one question.

Later kinds of room fit the same questions: devices, NUMA zones and resource claims are `limits` with `took` and `gave_back`
to keep their own books; HyperNodes are `domains` (masks, tried in order) and `node_order`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from pydantic import BaseModel, ConfigDict

from apis.vectors import ResourceVector
from machinery.informer import Key
from member_agent.grouping import Company, Pull
from member_agent.room import Amounts, Columns, Layout, Mask, Room, Scores, Spot
from member_agent.scheduling.namespaces import Namespaces
from member_agent.scheduling.plugins.hooks import Hook
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.scheduling.storage import Stock
from member_agent.scheduling.surroundings import Surroundings
from member_agent.views import GroupView, PodView, QueueView
from member_agent.views.budgets import BudgetView
from member_agent.views.quotas import QuotaView
from policies.shapes import PodShape


class Vote(enum.IntEnum):
    """A vote that is no rejection; a rejection is a Reason, so that people learn why."""

    ABSTAIN = 0
    PERMIT = 1


Ballot = Vote | Reason

Order = tuple[Any, ...] | int | float | str
"""A key to sort by: smaller goes first, equal means no opinion. Answers of one plugin must compare with one another."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that might be evicted: where it runs, its gang, whose priority counts, and the gang's group. `breaks`: without it
    the gang falls below its minimum, though others of the gang may go."""

    pod: PodView
    row: int
    gang: Key
    queue: str
    priority: int
    group: GroupView | None = None
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many pods a queue may still take of those asked for; `reason` says what stops the rest."""

    pods: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What a plugin knows of a queue: what it deserves, what it may have at most, and how much of the first it has."""

    deserved: Mapping[str, int]
    most: Mapping[str, int]
    share: float


class Session(Protocol):
    """What a plugin may look at. Amounts are milli units by resource; nothing here may be changed by a plugin."""

    @property
    def room(self) -> Room:
        """Free room, what this session has given away already taken off."""
        ...

    @property
    def surroundings(self) -> Surroundings:
        """Pods around, what this session has placed and evicted included."""
        ...

    @property
    def stock(self) -> Stock:
        """What is left of volumes."""
        ...

    @property
    def now(self) -> float:
        """Wall clock, seconds since the epoch."""
        ...

    @property
    def queues(self) -> Mapping[str, QueueView]:
        """All queues."""
        ...

    @property
    def gangs(self) -> Sequence[Waiting]:
        """All gangs that want something: to be let in, or nodes."""
        ...

    @property
    def total(self) -> ResourceVector:
        """What nodes that take pods can allocate, and what pods hold on the others."""
        ...

    @property
    def used(self) -> ResourceVector:
        """What pods of anybody hold."""
        ...

    def lineage(self, queue: str) -> tuple[str, ...]:
        """The queue and its ancestors, root last."""
        ...

    def held(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """What pods of the queue hold, given away in this session included; of queues under it too, unless `alone`."""
        ...

    def promised(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """Minimum resources of groups that were let in (this session's included) and whose pods have no nodes yet."""
        ...

    def wanted(self, queue: str) -> Mapping[str, int]:
        """What pods of this one queue that have no nodes ask for; of groups without pods, their minimum resources."""
        ...

    def holds(self, gang: Key) -> Mapping[str, int]:
        """What pods of a gang hold."""
        ...

    def elastic(self, queue: str, *, alone: bool = False) -> Mapping[str, int]:
        """What gangs of the queue hold beyond their minima, as the session began; of queues under it too, unless `alone`."""
        ...

    def standing(self, gang: Key) -> Mapping[str, int]:
        """Pods of a gang that hold nodes or succeeded, by task, less those that this session evicts."""
        ...

    def sites(self, gang: Key) -> Sequence[tuple[str, str]]:
        """Task and node of every pod of a gang that held room as the session began."""
        ...

    @property
    def changes(self) -> int:
        """Grows with every change of what is held or promised."""
        ...

    @property
    def promises_count(self) -> bool:
        """Whether `held` counts what was promised too: so it is when queues are ordered to let groups in."""
        ...

    @property
    def namespaces(self) -> Namespaces:
        """What namespaces hold of each queue and are promised there, and their weights."""
        ...

    @property
    def budgets(self) -> Mapping[str, Sequence[BudgetView]]:
        """PodDisruptionBudgets by namespace."""
        ...

    @property
    def going(self) -> Sequence[PodView]:
        """Pods whose eviction this session decided or looks at, and those decided before that nobody has seen leave yet."""
        ...

    @property
    def quotas(self) -> Mapping[str, Sequence[QuotaView]]:
        """ResourceQuotas by namespace."""
        ...

    @property
    def let_in_now(self) -> Sequence[Waiting]:
        """Gangs that this session let in so far."""
        ...

    @property
    def unmade(self) -> Sequence[tuple[GroupView, int]]:
        """Groups that were let in earlier and have fewer pods than their minimum, and how many of it are missing."""
        ...


class Nothing(BaseModel):
    """No arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Plugin:
    """One plugin in one session. Subclasses override the questions that they answer.

    `name` is what stands in the configuration; `arguments` reads and checks its arguments; `later` are arguments of upstream
    that are accepted, noted and not acted on yet.
    """

    name: ClassVar[str]
    arguments: ClassVar[type[BaseModel]] = Nothing
    later: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, arguments: Any, *, session: Session, hooks: frozenset[Hook] = frozenset(Hook)) -> None:
        """`hooks` are those that the configuration leaves on."""
        self.session = session
        self.hooks = hooks

    def figures(self, queue: str) -> Figures | None:
        """What it would tell of a queue, for metrics; not a question that actions ask."""
        return None

    # --- order -------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: str) -> Order:
        """Which queue goes first."""
        raise NotImplementedError

    def namespace_order(self, queue: str, *, namespace: str, promised: bool) -> Order:
        """Which namespace of a queue goes first; the key grows with what it is given. `promised`: what its groups were promised
        counts like what its pods hold."""
        raise NotImplementedError

    def job_order(self, gang: Waiting) -> Order:
        """Which gang of a queue goes first."""
        raise NotImplementedError

    def task_order(self, pod: PodView) -> Order:
        """Which pod of a gang goes first."""
        raise NotImplementedError

    # --- gangs and queues --------------------------------------------------------------------------------------------

    def job_valid(self, gang: Waiting) -> Reason | None:
        """Why the gang cannot be placed at all, whatever room there is."""
        raise NotImplementedError

    def job_enqueueable(self, gang: Waiting) -> Ballot:
        """May the group be let in?"""
        raise NotImplementedError

    def job_ready(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        """Is what is placed (pods by task, earlier sessions included) enough to be bound?"""
        raise NotImplementedError

    def job_pipelined(self, gang: Waiting, *, placed: Mapping[str, int]) -> Ballot:
        """May the gang keep room that is not free yet?"""
        raise NotImplementedError

    def job_starving(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        """May others be evicted for it?"""
        raise NotImplementedError

    def overused(self, queue: str) -> Reason | None:
        """Why the queue takes no more now."""
        raise NotImplementedError

    def allocatable(self, queue: str, *, request: ResourceVector, pods: int) -> Allowance:
        """How many of `pods` equal pods the queue may still take."""
        raise NotImplementedError

    # --- nodes -------------------------------------------------------------------------------------------------------

    def aspect(self, gang: Waiting, *, pod: PodView) -> Hashable | None:
        """What the plugin must know of a pod beside its shape to answer about nodes, None for nothing. Pods of equal shapes and
        equal aspects stay one question; the answer comes back with the shape (`member_agent.aspects`)."""
        raise NotImplementedError

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        """Which nodes may run the shape. Kept for as long as the layout: it must depend on nothing else."""
        raise NotImplementedError

    def limits(self, columns: Columns, shape: PodShape) -> Amounts | None:
        """How many more pods of the shape each of these rows takes, as the room is now; None for any number."""
        raise NotImplementedError

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        """How good each row is, 0..100 times the plugin's weight; larger is better."""
        raise NotImplementedError

    def local(self, shape: PodShape) -> bool:
        """Whether `predicate`, `limits` and `node_order` say of a row what follows from that row alone: its node, its free
        room, and pods of the same shape on it. Then the answers are kept from session to session until a row changes."""
        return False

    def reads(self, shape: PodShape) -> frozenset[str] | None:
        """Fields of the shape beside its requests that `limits` and `node_order` look at; None for anything. Shapes that are
        alike in what all plugins read are measured once, wherever they may go."""
        return None

    def company(self, shape: PodShape) -> Company | None:
        """What pods that are there say of the shape now, as rules beyond single rows; None for nothing."""
        raise NotImplementedError

    def company_order(self, shape: PodShape, rows: Mask) -> Pull | None:
        """How much better pods around make each row of those that are open to the shape; None where they tell no two apart."""
        raise NotImplementedError

    def domains(self, gang: Waiting) -> Iterable[Mask]:
        """Parts of the cluster in which the gang must fit whole, best first."""
        raise NotImplementedError

    def took(self, spot: Spot) -> None:
        """Room was taken, for whatever is being tried; told before the next question."""
        raise NotImplementedError

    def gave_back(self, spot: Spot) -> None:
        """Room was given back: what was tried did not come true."""
        raise NotImplementedError

    def wakes(self) -> float:
        """When time alone changes an answer: wall clock, seconds since the epoch; infinite for never."""
        raise NotImplementedError

    # --- victims -----------------------------------------------------------------------------------------------------

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim] | None:
        """Which of them may be evicted for a gang of their own queue; None: no opinion."""
        raise NotImplementedError

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim] | None:
        """Which of them may be evicted for a gang of another queue; None: no opinion."""
        raise NotImplementedError

    def lends(self, gang: Waiting, *, victims: Sequence[Victim]) -> Sequence[Victim] | None:
        """Which of them their queues only borrow room for: in the order given, each beside those before it. All plugins of all
        tiers must agree, and one has to say it: what queues deserve is taken from nobody."""
        raise NotImplementedError

    def entitled(self, gang: Waiting, *, request: ResourceVector) -> Ballot:
        """May the gang's queue take so much back from other queues?"""
        raise NotImplementedError

    def victims(self) -> Iterable[Victim]:
        """Pods that are to go whoever waits."""
        raise NotImplementedError


GATES: Final[Mapping[str, Hook | None]] = {
    "queue_order": Hook.QUEUE_ORDER,
    "namespace_order": Hook.NAMESPACE_ORDER,
    "job_order": Hook.JOB_ORDER,
    "task_order": Hook.TASK_ORDER,
    "job_valid": None,
    "job_enqueueable": Hook.JOB_ENQUEUED,
    "job_ready": Hook.JOB_READY,
    "job_pipelined": Hook.JOB_PIPELINED,
    "job_starving": Hook.JOB_STARVING,
    "overused": Hook.OVERUSED,
    "allocatable": Hook.ALLOCATABLE,
    "aspect": None,
    "predicate": Hook.PREDICATE,
    "limits": Hook.PREDICATE,
    "node_order": Hook.NODE_ORDER,
    "company": Hook.PREDICATE,
    "company_order": Hook.NODE_ORDER,
    "domains": Hook.HYPER_NODE_GRADIENT,
    "took": None,
    "gave_back": None,
    "wakes": None,
    "preemptable": Hook.PREEMPTABLE,
    "reclaimable": Hook.RECLAIMABLE,
    "lends": Hook.RECLAIMABLE,
    "entitled": Hook.PREEMPTIVE,
    "victims": Hook.VICTIM,
}
"""Every question and the flag that switches its answer off; None: it cannot be switched off."""


def answers(plugin: Plugin, question: str) -> Callable[..., Any] | None:
    """The plugin's answer to a question; None where it has none or the configuration switched it off."""
    gate = GATES[question]
    if getattr(type(plugin), question) is getattr(Plugin, question) or (gate is not None and gate not in plugin.hooks):
        return None
    found: Callable[..., Any] = getattr(plugin, question)
    return found
