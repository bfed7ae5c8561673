"""What would become of a Job that is not there, or is not so: the question, and the planner's answer (design.md 4).

The rounds of dispatch answer from their live ledger and commit nothing; reviews ask. Both see only these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from policies.estimates import Option
from policies.parts import Part
from policies.placements import PolicyView
from policies.run_times import RunTime, Source
from policies.shapes import Gang, Taint
from policies.verdicts import Considered, Outcome, Wake
from policies.views import JobView


@dataclass(frozen=True, slots=True)
class Assumed:
    """A gang that is taken to run in a cluster, from a queue of a namespace."""

    cluster: str
    namespace: str
    queue: str
    gang: Gang


@dataclass(frozen=True, slots=True)
class Trial:
    """One Job as it would be looked at. `policy`: what governs it instead of what would; `assumed`: what runs beside what runs.
    `asked`: members were asked about it where only they can tell; else what they might say is left to them."""

    job: JobView
    policy: PolicyView | None = None
    assumed: tuple[Assumed, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a round would decide. `told` are all clusters, with verdict or scores; `options` the way to run it that the profile
    likes best, by chosen cluster; `waits` seconds after which a member's scheduler expects it to fit, by cluster."""

    outcome: Outcome
    reason: str = ""
    message: str = ""
    at: str = ""
    """The field at fault, where one is."""
    policy: str = ""
    profile: str = ""
    data: str = ""
    """Why what it reads spoke for where it goes, or against it."""
    parts: tuple[Part, ...] = ()
    shares: Mapping[str, Gang] = field(default_factory=dict)
    """The gang of each part, by cluster."""
    told: tuple[Considered, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    wakes: tuple[Wake, ...] = ()
    run_time: RunTime = RunTime(0.0, Source.DEFAULT)
    sure: bool = True
    """The chosen members' own profiles say that it fits."""

    @property
    def starts(self) -> bool:
        """It would be placed now."""
        return self.outcome is Outcome.PLACED

    @property
    def money(self) -> float | None:
        """What all parts cost; None where nobody knows of one of them."""
        known = [self.options[part.cluster].money if part.cluster in self.options else None for part in self.parts]
        return None if not known or None in known else sum(each for each in known if each is not None)

    @property
    def begin(self) -> float | None:
        """Seconds until all of it runs; None where nobody knows."""
        if not self.parts:
            return min(self.waits.values(), default=None)
        found = [self.options.get(part.cluster) for part in self.parts]
        return max((each.wait + each.provision + each.transfer for each in found if each is not None), default=0.0)

    @property
    def finish(self) -> float | None:
        """Seconds until the last part has finished; None where nobody knows."""
        if not self.parts:
            return None if self.begin is None else self.begin + self.run_time.seconds
        known = [self.options[part.cluster].finish if part.cluster in self.options else None for part in self.parts]
        return None if None in known else max((each for each in known if each is not None), default=None)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else there is that a Job could be placed by: open leaf queues, profiles, taints of clusters and nodes, and the
    currency of all money ("": nobody says)."""

    queues: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    node_taints: tuple[Taint, ...] = ()
    currency: str = ""


class Trier(Protocol):
    """The planner before one snapshot: the same question gets the same answer, and nothing is committed."""

    @property
    def surroundings(self) -> Surroundings:
        """What else there is."""
        ...

    def governing(self, job: JobView) -> PolicyView:
        """The policy that governs a Job."""
        ...

    def setting(self, name: str, job: JobView) -> str:
        """A user key (design.md 3) as the nearest of Job, policy and namespace has it, or ""."""
        ...

    def run_time(self, job: JobView) -> RunTime:
        """How long a Job is expected to run on nodes of throughput 1."""
        ...

    def starts(self, trial: Trial) -> Answer:
        """What a round would decide, without the clusters one by one: for searches."""
        ...

    def answer(self, trial: Trial) -> Answer:
        """What a round would decide, with everything that people may want to know."""
        ...


class Tries(Protocol):
    """Whoever plans, as those who ask see him."""

    def trier(self, namespace: str) -> Trier:
        """The planner before what is known now, for Jobs of a namespace."""
        ...
