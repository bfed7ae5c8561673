"""flow.volcano.sh/v1alpha1: JobFlow and JobTemplate (reference/volcano.md 3)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from apis import kinds
from apis.batch import JobSpec, TaskState
from apis.meta import Model, Resource
from apis.schema import BARE, OPAQUE, UNDEFAULTED, Count, Duration, Port, Rule, Time, one_of, opaque, rules, served

MAX_FLOWS: Final = 10_000
MAX_ITEMS: Final = 1000
MAX_TARGETS: Final = 980
"""With so many steps, what an API server lets a rule over all of them cost."""
SPAN: Final = served(pattern=r"^[0-9]{1,9}[smhd]$")
"""A duration: a whole number and its unit."""
PHASES: Final = ("Pending", "Running", "Succeed", "Failed", "Terminating")

FLOW_RULES: Final = rules(
    Rule(
        "!has(self.dependsOn) || !has(self.dependsOn.targets) || !(self.name in self.dependsOn.targets)",
        "jobflow Flow is not DAG: a step may not depend on itself",
        ".dependsOn.targets",
    ),
)


class HttpHeader(Model):
    name: str
    value: str


class HttpGet(Model):
    """A step is reached when pods of the task answer this request."""

    task_name: Annotated[str | None, served(maxLength=253)] = None
    path: str | None = None
    port: Port | None = None
    http_header: HttpHeader | None = None


class TcpSocket(Model):
    """A step is reached when pods of the task accept connections here."""

    task_name: Annotated[str | None, served(maxLength=253)] = None
    port: Port


class TaskStatus(Model):
    """A step is reached when pods of the task are in this phase."""

    task_name: Annotated[str | None, served(maxLength=253)] = None
    phase: Annotated[str | None, served(maxLength=63)] = None


class Probe(Model):
    """When a step counts as reached although its Job has not completed."""

    http_get_list: list[HttpGet] | None = None
    tcp_socket_list: list[TcpSocket] | None = None
    task_status_list: list[TaskStatus] | None = None


class DependsOn(Model):
    targets: Annotated[
        list[str] | None, served(maxItems=MAX_TARGETS, items={"type": "string", "minLength": 1, "maxLength": 253})
    ] = None
    probe: Probe | None = None


class Patch(Model):
    """What differs from the template: scalars replace, named lists merge by name."""

    job_spec: Annotated[JobSpec | None, Field(json_schema_extra={BARE: True})] = None


class Retry(Model):
    """How often a failed step is tried again."""

    limit: Annotated[int | None, served(minimum=0, maximum=100)] = None
    backoff: Annotated[str | None, SPAN] = None
    """Before the second attempt; doubled before each further one, up to ten minutes."""


class Parameter(Model):
    """A value that a step's Job gets, as variable `PARAM_<NAME>` and wherever its text names `{{parameters.<name>}}`."""

    name: Annotated[str, served(minLength=1, maxLength=63)]
    value: Annotated[str | None, served(maxLength=4096)] = None


class Output(Model):
    """A small value that a pod of the step leaves in its termination message."""

    name: Annotated[str, served(minLength=1, maxLength=63)]
    task: Annotated[str | None, served(maxLength=63)] = None
    """The Job's first task when not given."""
    index: Annotated[int | None, served(minimum=0)] = None


class FanOut(Model):
    """One Job per item."""

    items: Annotated[list[Any] | None, served(maxItems=MAX_ITEMS, items=dict(OPAQUE))] = None
    from_output: Annotated[str | None, served(maxLength=400)] = None
    """`<step>.<output>`: a JSON list that a step before it left."""
    max_parallel: Annotated[int | None, served(minimum=0)] = None


class NestedFlow(Model):
    """A flow as a step: a copy of another JobFlow of the namespace, or a spec written here."""

    name: Annotated[str | None, served(maxLength=253)] = None
    spec: Annotated[dict[str, Any] | None, opaque()] = None


class Flow(Model):
    """One step: the template it is made from, what must come before, and what differs."""

    model_config = ConfigDict(json_schema_extra=FLOW_RULES)

    name: Annotated[str, served(minLength=1, maxLength=253)]
    """Name of the step, and of its JobTemplate where `template` is not given."""
    depends_on: DependsOn | None = None
    patch: Patch | None = None
    template: Annotated[str | None, served(maxLength=253)] = None
    flow: NestedFlow | None = None
    parameters: Annotated[list[Parameter] | None, served(maxItems=64)] = None
    retry: Retry | None = None
    timeout: Annotated[str | None, SPAN] = None
    """From the creation of the Job of an attempt to its end."""
    failure_policy: Annotated[str | None, one_of("Fail", "Continue", "SkipDependents")] = None
    when: Annotated[str | None, served(maxLength=1024)] = None
    """A CEL condition on results of targets; where it does not hold the step is skipped."""
    fan_out: Annotated[FanOut | None, Field(alias="with")] = None
    outputs: Annotated[list[Output] | None, served(maxItems=16)] = None


class ResumeFrom(Model):
    """Run steps again: those named and all that wait for them, without names those that failed."""

    id: Annotated[str, served(minLength=1, maxLength=63)]
    """A new id is a new request."""
    steps: Annotated[list[str] | None, served(maxItems=MAX_FLOWS)] = None


class JobFlowSpec(Model):
    flows: Annotated[list[Flow] | None, served(maxItems=MAX_FLOWS)] = None
    job_retain_policy: Annotated[str | None, one_of("", "retain", "delete")] = None
    """What becomes of the Jobs when the flow has succeeded; retain when not given."""
    suspend: bool | None = None
    """What runs goes on; nothing else begins."""
    max_parallel: Annotated[int | None, served(minimum=0)] = None
    """Jobs of the flow that live at once; 0 for any number."""
    resume_from: ResumeFrom | None = None
    ttl: Annotated[str | None, SPAN] = None
    """How long the flow stays after its end."""
    deadline: Annotated[str | None, SPAN] = None
    """From the start of the flow to its end; what still runs then is ended."""
    on_exit: Annotated[list[Flow] | None, served(maxItems=16)] = None
    """What runs when everything else has ended, whatever it came to."""


class RunningHistory(Model):
    start_timestamp: Time | None = None
    end_timestamp: Time | None = None
    state: str | None = None


class StepStatus(Model):
    name: str | None = None
    state: str | None = None
    start_timestamp: Time | None = None
    end_timestamp: Time | None = None
    restart_count: Count | None = None
    running_histories: list[RunningHistory] | None = None
    message: str | None = None
    """Why it ended as it did; this and what follows is beyond upstream."""
    step: str | None = None
    item: int | None = None
    attempt: Count | None = None
    uid: str | None = None
    """Of the Job that was seen last."""
    retry_at: Time | None = None
    outputs: dict[str, str] | None = None
    clusters: list[str] | None = None
    """Where the hub sent its Job."""
    placement: str | None = None
    """What the data that it reads had to do with that."""


class StepCondition(Model):
    phase: str | None = None
    create_timestamp: Annotated[Time | None, Field(alias="createTime")] = None
    running_duration: Duration | None = None
    task_status_count: dict[str, TaskState] | None = None


class FlowState(Model):
    phase: Annotated[str | None, one_of("", *PHASES)] = None
    reason: str | None = None
    message: str | None = None


class Progress(Model):
    """Steps in all, and those whose end is recorded."""

    steps: Count | None = None
    done: Count | None = None


class JobFlowStatus(Model):
    pending_jobs: list[str] | None = None
    running_jobs: list[str] | None = None
    failed_jobs: list[str] | None = None
    completed_jobs: list[str] | None = None
    terminated_jobs: list[str] | None = None
    un_know_jobs: list[str] | None = None
    job_status_list: list[StepStatus] | None = None
    conditions: dict[str, StepCondition] | None = None
    state: FlowState | None = None
    started_at: Time | None = None
    """This and what follows is beyond upstream."""
    ended_at: Time | None = None
    outcome: str | None = None
    outcome_reason: str | None = None
    outcome_message: str | None = None
    """What the steps came to, while exit handlers run."""
    resumed: str | None = None
    """The last request to resume that was carried out."""
    items: Annotated[dict[str, Any] | None, opaque()] = None
    """What fan-outs found in outputs, by step."""
    progress: Progress | None = None


class JobFlow(Resource):
    """Jobs made from templates, one after the other as they depend on each other."""

    served_as: ClassVar[kinds.Kind] = kinds.JOB_FLOW

    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus | None = None


class JobTemplateStatus(Model):
    job_depends_on_list: list[str] | None = None


class JobTemplate(Resource):
    """A Job to be made by JobFlows."""

    served_as: ClassVar[kinds.Kind] = kinds.JOB_TEMPLATE

    spec: Annotated[JobSpec, Field(json_schema_extra={UNDEFAULTED: True})] = JobSpec()
    status: JobTemplateStatus | None = None
