"""What a JobFlow asks for, read from its `spec`: upstream's fields and ours (design.md 7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

FAIL: Final = "Fail"
CONTINUE: Final = "Continue"
SKIP_DEPENDENTS: Final = "SkipDependents"
FAILURE_POLICIES: Final = (FAIL, CONTINUE, SKIP_DEPENDENTS)
MAX_ITEMS: Final = 1000
"""Jobs that one step may become."""


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is read from objects."""


class HttpHeader(Wire, frozen=True):
    """One header of a request."""

    name: str = ""
    value: str = ""


class HttpGet(Wire, frozen=True):
    """Pods of a task answer this request with 200..399."""

    task_name: str = ""
    path: str = "/"
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocket(Wire, frozen=True):
    """Pods of a task accept connections."""

    task_name: str = ""
    port: int = 0


class TaskStatus(Wire, frozen=True):
    """All pods of a task are in a phase."""

    task_name: str = ""
    phase: str = ""


class Probe(Wire, frozen=True):
    """When a target counts as reached although it has not completed: everything listed holds."""

    http_get_list: list[HttpGet] | None = None
    tcp_socket_list: list[TcpSocket] | None = None
    task_status_list: list[TaskStatus] | None = None

    @property
    def asks_pods(self) -> bool:
        """Whether pods have to be asked: their phases alone do not tell."""
        return bool(self.http_get_list or self.tcp_socket_list)


class DependsOn(Wire, frozen=True):
    """`dependsOn` of a step."""

    targets: list[str] | None = None
    probe: Probe | None = None


class Patch(Wire, frozen=True):
    """What differs from the template."""

    job_spec: dict[str, Any] | None = None


class Retry(Wire, frozen=True):
    """How often a failed step is tried again; `backoff` is a duration, doubled each time."""

    limit: int = 0
    backoff: str = "10s"


class Parameter(Wire, frozen=True):
    """A value that a step's Job gets: as an environment variable and wherever its text names it."""

    name: str
    value: str = ""


class Output(Wire, frozen=True):
    """A small value that a pod of a step leaves in its termination message: by default the first pod of the first task."""

    name: str
    task: str = ""
    index: int = 0


class FanOut(Wire, frozen=True):
    """One Job per item. The items stand here, or are a JSON list that a target left as an output (`step.output`)."""

    items: list[Any] | None = None
    from_output: str = ""
    max_parallel: int = 0


class Nested(Wire, frozen=True):
    """A flow as a step: the spec of another JobFlow of the namespace, or one written here."""

    name: str = ""
    spec: dict[str, Any] | None = None


class Step(Wire, frozen=True):
    """One entry of `spec.flows` or `spec.onExit`; its template is the one of its name where nothing else is said."""

    name: str
    depends_on: DependsOn | None = None
    patch: Patch | None = None
    template: str = ""
    flow: Nested | None = None
    parameters: list[Parameter] | None = None
    retry: Retry | None = None
    timeout: str = ""
    failure_policy: str = FAIL
    when: str = ""
    fan_out: FanOut | None = msgspec.field(name="with", default=None)
    outputs: list[Output] | None = None

    @property
    def targets(self) -> list[str]:
        """Steps this one waits for."""
        return (self.depends_on.targets or []) if self.depends_on else []

    @property
    def probe(self) -> Probe | None:
        """What makes its targets count before they have completed."""
        return self.depends_on.probe if self.depends_on else None

    @property
    def source(self) -> str:
        """The JobTemplate its Jobs are made from."""
        return self.template or self.name

    @property
    def attempts(self) -> int:
        """How often it is tried at most."""
        return 1 + (self.retry.limit if self.retry else 0)


class ResumeFrom(Wire, frozen=True):
    """Run steps again: those named and all that wait for them; without names those that failed. A new `id` is a new request."""

    id: str = ""
    steps: list[str] | None = None


class FlowSpec(Wire, frozen=True):
    """`spec` of a JobFlow."""

    flows: list[Step] = []
    job_retain_policy: str = ""
    suspend: bool = False
    max_parallel: int = 0
    resume_from: ResumeFrom | None = None
    ttl: str = ""
    deadline: str = ""
    on_exit: list[Step] | None = None


def named(steps: Iterable[Step]) -> dict[str, Step]:
    """Steps by name, in the order of the spec; upstream accepts a step listed twice: the last one counts."""
    return {step.name: step for step in steps}
