"""What the creator of a review may see, by SubjectAccessReview: an answer never says more than he could find out himself.

He must be allowed to create what he asks about, or to get the Job. Queues and PriorityClasses that a manifest or a change names
he must be allowed to `use` (design.md 5), the default queue apart. Clusters are judged one by one, and taints offered, only for
who may list clusters: others learn where the Job would go, and how many clusters said no for which reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apis import keys, kinds
from apis.kinds import Kind
from federation.reviews.questions import Creator, Question
from machinery import authorization
from machinery.port import Port
from policies.relaxing import Kind as ChangeKind
from policies.relaxing import Manifest

USE: Final = "use"
MOST_QUEUES: Final = 16
"""Other queues that are asked about, the first by name: one request each."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One right: a verb on objects of a kind, on one of them where `name` is given."""

    verb: str
    kind: Kind
    name: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.verb} {self.kind.name}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class Rights:
    """What an answer may say. `queues` are the other queues that its creator may use."""

    clusters: bool = False
    profiles: bool = False
    queues: frozenset[str] = frozenset()


def needed(question: Question) -> tuple[Wanted, ...]:
    """What must be allowed before anything is answered."""
    first = Wanted("get", kinds.JOB, question.job) if question.job else Wanted("create", question.about)
    queues = [each.to for each in question.relax if each.kind is ChangeKind.QUEUE]
    return (first, *(Wanted(USE, kinds.QUEUE, name) for name in queues if name != keys.DEFAULT_QUEUE))


def needed_by(manifest: Manifest) -> tuple[Wanted, ...]:
    """What a Job's manifest names and not everybody may use."""
    spec = manifest.get("spec") or {}
    queue, priority = spec.get("queue") or keys.DEFAULT_QUEUE, spec.get("priorityClassName")
    wanted = [Wanted(USE, kinds.QUEUE, str(queue))] if queue != keys.DEFAULT_QUEUE else []
    return (*wanted, *([Wanted(USE, kinds.PRIORITY_CLASS, str(priority))] if priority else ()))


async def allowed(port: Port, creator: Creator, wanted: Wanted, *, namespace: str) -> bool:
    """Whether the API server's authorisers allow it."""
    attributes = authorization.Attributes(wanted.verb, wanted.kind, wanted.name, namespace)
    return await authorization.allowed(port, authorization.Subject(creator.username, creator.groups), attributes)


async def denied(port: Port, creator: Creator, wanted: Iterable[Wanted], *, namespace: str) -> Wanted | None:
    """The first that is not allowed."""
    for each in wanted:
        if not await allowed(port, creator, each, namespace=namespace):
            return each
    return None


async def rights_of(port: Port, creator: Creator, *, namespace: str, queues: Iterable[str]) -> Rights:
    """What an answer may say to him; `queues` are those that might be offered."""
    usable = [
        name
        for name in sorted(queues)[:MOST_QUEUES]
        if name == keys.DEFAULT_QUEUE or await allowed(port, creator, Wanted(USE, kinds.QUEUE, name), namespace=namespace)
    ]
    return Rights(
        clusters=await allowed(port, creator, Wanted("list", kinds.CLUSTER), namespace=namespace),
        profiles=await allowed(port, creator, Wanted("list", kinds.PLACEMENT_PROFILE), namespace=namespace),
        queues=frozenset(usable),
    )
