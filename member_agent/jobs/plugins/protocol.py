"""What a plugin is, and the objects it may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from apis import kinds
from member_agent.jobs.facts import JobFacts, Manifest, TaskFacts
from member_agent.jobs.plugins.draft import Draft


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`private` in PEM, `public` as one line of an authorized_keys file."""

    private: str
    public: str


KeyMaker = Callable[[], KeyPair]
"""A new pair at each call; the shell's, because keys are chance."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object that belongs to a Job. `follows`: its content follows scaling, others are made once and left alone.

    `plugin` is the plugin it is for, "" for a claim: objects of plugins go when the whole Job is killed, claims stay.
    """

    kind: kinds.Kind
    name: str
    make: Callable[[], Manifest]
    follows: bool = False
    plugin: str = ""

    @property
    def manifest(self) -> Manifest:
        """The whole object. Made when asked for: a key pair is drawn only where a Secret is really missing."""
        return self.make()


class Plugin:
    """One plugin of one Job. Subclasses say what they do to pods and which objects they need; all is optional.

    `name` is what stands in `spec.plugins`; `needs` are plugins without which it cannot work: they are added.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, arguments: Sequence[str]) -> None:
        """Raises BadArgument."""

    def problems(self, job: JobFacts) -> Iterator[str]:
        """Why it cannot work for this Job, in words for its author."""
        yield from ()

    def objects(self, job: JobFacts, *, keys: KeyMaker) -> Iterator[Child]:
        """Objects it needs beside the pods."""
        yield from ()

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        """Changes that all pods of the task have in common. The draft's name and index are nobody's yet."""

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        """Changes that are the pod's own: its index, rank, host name. Containers and volumes are added in `change_task`."""


def object_of(kind: kinds.Kind, name: str, *, job: JobFacts, **body: Any) -> Manifest:
    """An object owned by the Job, with `body` beside its metadata."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": job.namespace, "ownerReferences": [dict(job.owner)]},
        **body,
    }
