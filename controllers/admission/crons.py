"""The rules of a CronJob (reference/volcano.md 1.8)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from apis.batch import PLUGINS
from apis.cron import MAX_CRON_NAME, ONE_TEMPLATE, CronJob
from apis.flow import JobFlowSpec
from controllers.admission.flows import flow_problems
from controllers.admission.jobs import spec_problems
from controllers.admission.problems import Problem, among, at_least
from policies import schedules

POLICIES: Final = ("Allow", "Forbid", "Replace")


def validate_cron_job(cron: CronJob, *, plugins: Collection[str] = PLUGINS) -> list[Problem]:
    """Everything that keeps a CronJob from being taken. Its Queue is judged with every Job it makes, not before."""
    name, spec = cron.metadata.name, cron.spec
    found = []
    if len(name) > MAX_CRON_NAME:
        found.append(Problem("metadata.name", f"{name!r} must be no more than {MAX_CRON_NAME} characters"))
    found += _schedule_problems(spec.schedule)
    found += _zone_problems(spec.time_zone)
    found += among(POLICIES, spec.concurrency_policy, field="spec.concurrencyPolicy")
    found += at_least(0, spec.starting_deadline_seconds, field="spec.startingDeadlineSeconds")
    found += at_least(0, spec.successful_jobs_history_limit, field="spec.successfulJobsHistoryLimit")
    found += at_least(0, spec.failed_jobs_history_limit, field="spec.failedJobsHistoryLimit")
    if (spec.job_template is None) == (spec.flow_template is None):
        return [*found, Problem("spec", ONE_TEMPLATE)]
    if spec.flow_template is not None:
        return found + flow_problems(spec.flow_template.spec or JobFlowSpec(), field="spec.flowTemplate.spec")
    template = spec.job_template.spec if spec.job_template is not None else None
    if template is None:
        return [*found, Problem("spec.jobTemplate.spec", "No task specified in job spec")]
    return found + spec_problems(template, plugins=plugins, field="spec.jobTemplate.spec")


def _schedule_problems(text: str) -> list[Problem]:
    if not text.strip():
        return [Problem("spec.schedule", "should be at least 1 chars long")]
    if "TZ" in text:
        return [Problem("spec.schedule", f"{text!r} names a time zone: cannot use TZ or CRON_TZ in schedule, use timeZone")]
    try:
        schedules.parse(text)
    except schedules.InvalidSchedule as error:
        return [Problem("spec.schedule", f"{text!r} is no schedule: {error}")]
    return []


def _zone_problems(name: str | None) -> list[Problem]:
    if name == "":
        return [Problem("spec.timeZone", "timeZone must be nil or non-empty string")]
    if name is not None and name.lower() == "local":
        return [Problem("spec.timeZone", "timeZone must be an explicit time zone as defined in the IANA database, not Local")]
    try:
        schedules.time_zone(name)
    except schedules.UnknownTimeZone as error:
        return [Problem("spec.timeZone", str(error))]
    return []
