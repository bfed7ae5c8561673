"""batch.volcano.sh/v1alpha1: CronJob (reference/volcano.md 1.8). Beyond upstream a CronJob may make JobFlows."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from apis import kinds
from apis.batch import JobSpec
from apis.flow import JobFlowSpec
from apis.meta import Condition, Model, ObjectMeta, Resource
from apis.schema import BARE, UNDEFAULTED, Count, Rule, Time, one_of, rules, served

MAX_CRON_NAME: Final = 52
"""Characters of a CronJob's name: its Jobs add the minute they are for, and their pods more."""
ONE_TEMPLATE: Final = "exactly one of jobTemplate and flowTemplate should be specified"


class CronJobTemplate(Model):
    metadata: Annotated[ObjectMeta | None, Field(json_schema_extra={"x-opaque-metadata": True})] = None
    spec: Annotated[JobSpec | None, Field(json_schema_extra={UNDEFAULTED: True})] = None


class CronFlowTemplate(Model):
    """What is written here is completed, and judged, in the JobFlow that is made from it."""

    metadata: Annotated[ObjectMeta | None, Field(json_schema_extra={"x-opaque-metadata": True})] = None
    spec: Annotated[JobFlowSpec | None, Field(json_schema_extra={BARE: True})] = None


CRON_RULES: Final = (
    Rule(
        f"self.metadata.name.size() <= {MAX_CRON_NAME}",
        f"must be no more than {MAX_CRON_NAME} characters",
        ".metadata.name",
    ),
)
CRON_SPEC_RULES: Final = rules(
    Rule(
        "!has(self.schedule) || !self.schedule.contains('TZ')",
        "cannot use TZ or CRON_TZ in schedule, use timeZone",
        ".schedule",
    ),
    Rule("!has(self.timeZone) || self.timeZone != ''", "timeZone must be nil or non-empty string", ".timeZone"),
    Rule(
        "!has(self.timeZone) || self.timeZone.lowerAscii() != 'local'",
        "timeZone must be an explicit time zone as defined in the IANA database, not Local",
        ".timeZone",
    ),
    Rule("has(self.jobTemplate) != has(self.flowTemplate)", ONE_TEMPLATE),
)


class CronJobSpec(Model):
    """When Jobs or JobFlows are made, and how many are kept."""

    model_config = ConfigDict(json_schema_extra=CRON_SPEC_RULES)

    schedule: Annotated[str, served(minLength=1, maxLength=1024)]
    time_zone: Annotated[str | None, served(maxLength=255)] = None
    starting_deadline_seconds: Annotated[int | None, served(format="int64", minimum=0)] = None
    concurrency_policy: Annotated[str | None, one_of("Allow", "Forbid", "Replace", default="Allow")] = None
    suspend: Annotated[bool | None, served(default=False)] = None
    job_template: CronJobTemplate | None = None
    flow_template: CronFlowTemplate | None = None
    """Beyond upstream: makes JobFlows. One of the two templates is written."""
    successful_jobs_history_limit: Annotated[Count | None, served(default=3)] = None
    failed_jobs_history_limit: Annotated[Count | None, served(default=1)] = None


class ObjectReference(Model):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class CronJobStatus(Model):
    active: list[ObjectReference] | None = None
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None
    conditions: list[Condition] | None = None
    """Ours: `Scheduling` says why no run is started."""


class CronJob(Resource):
    """A Job, or a JobFlow, made on a schedule."""

    served_as: ClassVar[kinds.Kind] = kinds.CRON_JOB

    spec: CronJobSpec
    status: CronJobStatus | None = None
