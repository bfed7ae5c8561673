"""How answers of plugins become one (reference/volcano.md 4.1, "Combining plugin answers").

Order: the first plugin in tier order that tells two apart. Votes: tier by tier; one rejection ends it, else one permission
does, and where all abstain the answer is yes. Ready, overused, allocatable, predicates: all must agree. Victims: the
intersection within a tier; the first tier that names any decides. Starving: all of the first tier that has an opinion.
Scores are added.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from apis.vectors import ResourceVector
from member_agent.aspects import Aspects
from member_agent.grouping import Company, Pull
from member_agent.room import UNBOUNDED, Amounts, Columns, Layout, Mask, Scores, Spot
from member_agent.scheduling.plugins.protocol import GATES, Allowance, Ballot, Figures, Plugin, Victim, Vote, answers
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.snapshot import Waiting
from member_agent.views import PodView
from policies.shapes import PodShape

Answer = Callable[..., Any]

ABOUT_NODES: Final = ("predicate", "limits", "node_order")


class Tiers:
    """The plugins of one session, asked together."""

    def __init__(self, plugins: Sequence[Sequence[Plugin]], *, took: Mapping[str, float] | None = None) -> None:
        """`took`: what it took to make each plugin, by name."""
        self.took: Mapping[str, float] = took or {}
        self._plugins = [plugin for tier in plugins for plugin in tier]
        listed = [plugin for tier in plugins for plugin in tier]
        self._seers = [(plugin.name, ask) for plugin in listed if (ask := answers(plugin, "aspect"))]
        self._by_tier: dict[str, list[list[Answer]]] = {}
        for question in GATES:
            tiers = [[found for plugin in tier if (found := answers(plugin, question))] for tier in plugins]
            self._by_tier[question] = [tier for tier in tiers if tier]
        self._about_nodes = [
            plugin for tier in plugins for plugin in tier if any(answers(plugin, each) for each in ABOUT_NODES)
        ]
        self._measuring = [
            plugin for plugin in self._about_nodes if any(answers(plugin, each) for each in ("limits", "node_order"))
        ]
        self._all = {question: [each for tier in tiers for each in tier] for question, tiers in self._by_tier.items()}
        self._queue_order = self._all["queue_order"]
        self.scores_nodes = bool(self._all["node_order"])
        """Whether any plugin tells nodes apart."""

    def figures(self, queue: str) -> Figures | None:
        """What the first plugin that shares among queues knows of one."""
        found = (plugin.figures(queue) for plugin in self._plugins)
        return next((each for each in found if each is not None), None)

    # --- order -------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: str) -> tuple[Any, ...]:
        """Key of a queue; ties by name."""
        return (*[ask(queue) for ask in self._queue_order], queue)

    @property
    def tells_namespaces(self) -> bool:
        """Whether any plugin orders the namespaces of a queue."""
        return bool(self._all["namespace_order"])

    def namespace_order(self, queue: str, *, namespace: str, promised: bool) -> tuple[Any, ...]:
        """Key of a namespace in a queue; ties by name."""
        own = (ask(queue, namespace=namespace, promised=promised) for ask in self._all["namespace_order"])
        return (*own, namespace)

    def job_order(self, gang: Waiting) -> tuple[Any, ...]:
        """Key of a gang; ties by age, then UID."""
        return (*(ask(gang) for ask in self._all["job_order"]), gang.created, gang.group.uid, gang.key)

    def task_order(self, pod: PodView) -> tuple[Any, ...]:
        """Key of a pod; ties by index, then age, then name."""
        own = (ask(pod) for ask in self._all["task_order"])
        return (*own, pod.index if pod.index >= 0 else UNBOUNDED, pod.created, pod.task, len(pod.name), pod.name)

    def tasks_in_order(self, pods: Sequence[PodView]) -> Sequence[PodView]:
        """Pods as plugins order them; where no plugin tells them apart they stay as they are."""
        if len(pods) < 2:
            return pods
        said = [[ask(pod) for pod in pods] for ask in self._all["task_order"]]
        keys = [each for each in said if each.count(each[0]) < len(each)]
        if not keys:
            return pods
        return [pods[at] for at in sorted(range(len(pods)), key=lambda at: [each[at] for each in keys])]

    # --- votes and agreements ----------------------------------------------------------------------------------------

    def job_enqueueable(self, gang: Waiting) -> Reason | None:
        """None lets the group in."""
        return self._vote("job_enqueueable", lambda ask: ask(gang))

    def job_pipelined(self, gang: Waiting, *, placed: Mapping[str, int]) -> Reason | None:
        """None lets the gang keep room that is not free yet."""
        return self._vote("job_pipelined", lambda ask: ask(gang, placed=placed))

    def _vote(self, question: str, cast: Callable[[Answer], Ballot]) -> Reason | None:
        for tier in self._by_tier[question]:
            ballots = [cast(ask) for ask in tier]
            rejected = next((each for each in ballots if isinstance(each, Reason)), None)
            if rejected is not None:
                return rejected
            if Vote.PERMIT in ballots:
                return None
        return None

    def job_valid(self, gang: Waiting) -> Reason | None:
        """Why it cannot be placed whatever room there is; None when it can."""
        return self._first("job_valid", gang)

    def overused(self, queue: str) -> Reason | None:
        """Why the queue takes no more; None when it may."""
        return self._first("overused", queue)

    def _first(self, question: str, about: Any) -> Reason | None:
        for ask in self._all[question]:
            reason: Reason | None = ask(about)
            if reason is not None:
                return reason
        return None

    def job_ready(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        """Whether all plugins let it be bound."""
        return all(ask(gang, placed=placed) for ask in self._all["job_ready"])

    def job_starving(self, gang: Waiting, *, placed: Mapping[str, int]) -> bool:
        """Whether others may be evicted for it; nobody starves where no plugin says so."""
        first = next(iter(self._by_tier["job_starving"]), None)
        return first is not None and all(ask(gang, placed=placed) for ask in first)

    def allocatable(self, queue: str, *, request: ResourceVector, pods: int) -> Allowance:
        """The smallest allowance of any plugin."""
        least = Allowance(pods)
        for ask in self._all["allocatable"]:
            found: Allowance = ask(queue, request=request, pods=pods)
            if found.pods < least.pods:
                least = found
        return least

    # --- nodes -------------------------------------------------------------------------------------------------------

    @property
    def sees_more(self) -> bool:
        """Whether any plugin looks beyond the shapes of pods."""
        return bool(self._seers)

    def aspects(self, gang: Waiting, pod: PodView) -> Aspects:
        """What plugins know of a pod beside its shape."""
        found = ((name, ask(gang, pod=pod)) for name, ask in self._seers)
        return tuple((name, said) for name, said in found if said is not None)

    def predicate(self, layout: Layout, shape: PodShape) -> Mask:
        """Nodes that every plugin accepts; unready and cordoned ones are never among them."""
        mask = layout.usable.copy()
        for ask in self._all["predicate"]:
            mask &= ask(layout, shape)
        return mask

    def limits(self, columns: Columns, shape: PodShape) -> Amounts | None:
        """Pods per row that every plugin accepts; None where no plugin sets a limit."""
        said = [found for ask in self._all["limits"] if (found := ask(columns, shape)) is not None]
        return functools.reduce(np.minimum, said) if said else None

    def node_order(self, columns: Columns, shape: PodShape) -> Scores:
        """The sum of all scores; larger is better."""
        asked = self._all["node_order"]
        if not asked:
            return np.zeros(len(columns.rows))
        scores: Scores = asked[0](columns, shape)
        for ask in asked[1:]:
            scores = scores + ask(columns, shape)
        return scores

    def local(self, shape: PodShape) -> bool:
        """Whether what is said of a row follows from that row alone, by all plugins that speak of nodes."""
        return all(plugin.local(shape) for plugin in self._about_nodes)

    def measured(self, shape: PodShape) -> PodShape:
        """The shape with nothing but what `limits` and `node_order` look at; itself where they look at everything."""
        fields: set[str] = set()
        for plugin in self._measuring:
            read = plugin.reads(shape)
            if read is None:
                return shape
            fields |= read
        return PodShape(shape.requests, **{name: getattr(shape, name) for name in sorted(fields)})

    def company(self, shape: PodShape) -> Company | None:
        """What pods around say of the shape, by all plugins."""
        found = [said for ask in self._all["company"] if (said := ask(shape)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return Company(
            shut=tuple(each for said in found for each in said.shut),
            alone=any(said.alone for said in found),
            groups=tuple(each for said in found for each in said.groups),
        )

    def company_order(self, shape: PodShape, rows: Mask) -> Pull | None:
        """How much better pods around make each row: the sum over plugins."""
        found = [said for ask in self._all["company_order"] if (said := ask(shape, rows)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return Pull(sum((said.scores for said in found[1:]), found[0].scores), anew=any(said.anew for said in found))

    @property
    def tells_domains(self) -> bool:
        """Whether any plugin says in which parts of the cluster gangs are tried."""
        return bool(self._all["domains"])

    def domains(self, gang: Waiting) -> Iterable[Mask | None]:
        """Where to try the gang, one after the other; None is the whole cluster."""
        asked = self._all["domains"]
        return asked[0](gang) if asked else (None,)

    @property
    def keeps_books(self) -> bool:
        """Whether any plugin wants to hear what is taken and given back."""
        return bool(self._all["took"] or self._all["gave_back"])

    def told(self, spot: Spot, sign: int) -> None:
        """Tell who keeps books of their own: a spot was taken (1) or given back (-1)."""
        for tell in self._all["took" if sign > 0 else "gave_back"]:
            tell(spot)

    def wakes(self) -> float:
        """When time alone changes an answer of any plugin."""
        return min((ask() for ask in self._all["wakes"]), default=math.inf)

    # --- victims -----------------------------------------------------------------------------------------------------

    def preemptable(self, gang: Waiting, *, victims: Sequence[Victim]) -> list[Victim]:
        """Who may be evicted for a gang of the same queue, in the order given."""
        return self._agreed("preemptable", gang, victims)

    def reclaimable(self, gang: Waiting, *, victims: Sequence[Victim]) -> list[Victim]:
        """Who may be evicted for a gang of another queue, in the order given: of those that `lends` leaves. Where no plugin has
        an opinion beyond what queues lend, that decides."""
        lent = self._lent(gang, victims)
        return self._agreed("reclaimable", gang, lent) if self._by_tier["reclaimable"] else lent

    def _lent(self, gang: Waiting, victims: Sequence[Victim]) -> list[Victim]:
        opinions = [ask(gang, victims=victims) for ask in self._all["lends"]]
        named = [{each.pod.uid for each in said} for said in opinions if said is not None]
        agreed = set[str]().union(*named[:1]).intersection(*named[1:])
        return [victim for victim in victims if victim.pod.uid in agreed]

    def entitled(self, gang: Waiting, *, request: ResourceVector) -> Reason | None:
        """Why its queue may take nothing back from others: a plugin says so, or none says what it deserves."""
        ballots = [ask(gang, request=request) for ask in self._all["entitled"]]
        rejected = next((each for each in ballots if isinstance(each, Reason)), None)
        if rejected is not None or Vote.PERMIT in ballots:
            return rejected
        return Reason("NothingDeserved", f"no plugin says what queue {gang.group.queue} deserves")

    def _agreed(self, question: str, gang: Waiting, victims: Sequence[Victim]) -> list[Victim]:
        """Plugins that answer None abstain. A tier in which anybody answers decides, also where it names nobody: otherwise a
        lower tier could overrule a veto."""
        for tier in self._by_tier[question]:
            named = [{each.pod.uid for each in said} for ask in tier if (said := ask(gang, victims=victims)) is not None]
            if named:
                agreed = set.intersection(*named)
                return [victim for victim in victims if victim.pod.uid in agreed]
        return []

    def victims(self) -> list[Victim]:
        """Pods that any plugin wants gone, each once."""
        found: dict[str, Victim] = {}
        for ask in self._all["victims"]:
            for victim in ask():
                found.setdefault(victim.pod.uid, victim)
        return list(found.values())
