"""flow.volcano.sh/v1alpha1: JobFlow and JobTemplate (reference/volcano.md 3)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from apis import kinds
from apis.batch import JobSpec, TaskState
from apis.meta import Model, Resource
from apis.schema import BARE, UNDEFAULTED, Count, Duration, Port, Rule, Time, one_of, rules, served

MAX_FLOWS: Final = 2048
MAX_TARGETS: Final = 2048
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


class Flow(Model):
    """One step: the template it is made from, what must come before, and what differs."""

    model_config = ConfigDict(json_schema_extra=FLOW_RULES)

    name: Annotated[str, served(minLength=1, maxLength=253)]
    """Name of the JobTemplate."""
    depends_on: DependsOn | None = None
    patch: Patch | None = None


class JobFlowSpec(Model):
    flows: Annotated[list[Flow] | None, served(maxItems=MAX_FLOWS)] = None
    job_retain_policy: Annotated[str | None, one_of("", "retain", "delete")] = None
    """What becomes of the Jobs when the flow has succeeded; retain when not given."""


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
    """Why a step ended that never had a Job; beyond upstream."""


class StepCondition(Model):
    phase: str | None = None
    create_timestamp: Annotated[Time | None, Field(alias="createTime")] = None
    running_duration: Duration | None = None
    task_status_count: dict[str, TaskState] | None = None


class FlowState(Model):
    phase: Annotated[str | None, one_of("", *PHASES)] = None
    reason: str | None = None
    message: str | None = None


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
