"""Every manifest that a real API server must refuse is refused by the rules too, and those that only rules can refuse."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from apis.batch import Job
from apis.cron import CronJob
from apis.flow import JobFlow
from apis.kinds import CRON_JOB, JOB, JOB_FLOW, POD_GROUP, QUEUE
from apis.scheduling import PodGroup, Queue
from controllers.admission import (
    Problem,
    of_reading,
    summary,
    validate_cron_job,
    validate_flow,
    validate_job,
    validate_pod_group,
    validate_queue,
)
from tests.manifests import Refusal, kind_of, refused, served

JUDGED = {JOB, JOB_FLOW, QUEUE, CRON_JOB, POD_GROUP}
SCHEMA_ALONE = {"a port beyond the last", "two claims of one volume in its Jobs"}
"""What no controller depends on: a bound, and what every Job of a CronJob is asked itself."""


def judge(manifest: dict[str, object]) -> list[Problem]:
    kind, text = kind_of(manifest), json.dumps(manifest)
    try:
        if kind == JOB:
            return validate_job(Job.read(text))
        if kind == JOB_FLOW:
            return validate_flow(JobFlow.read(text))
        if kind == CRON_JOB:
            return validate_cron_job(CronJob.read(text))
        if kind == POD_GROUP:
            return validate_pod_group(PodGroup.read(text))
        return validate_queue(Queue.read(text), queues={})
    except ValidationError as error:
        return of_reading(error)


@pytest.mark.parametrize(
    "refusal", [each for each in refused() if each.kind in JUDGED and each.wrong not in SCHEMA_ALONE], ids=str
)
def test_what_is_wrong_is_named_with_field_and_reason(refusal: Refusal) -> None:
    problems = judge(refusal.manifest)
    amounts = refusal.says == "should match" and "malformed" in refusal.wrong
    says = "quantity" if amounts else refusal.says
    assert any(p.field.startswith(refusal.field) and says in p.message for p in problems), summary(problems)


@pytest.mark.parametrize(
    "manifest", [each for each in served() if kind_of(each) in JUDGED], ids=lambda m: m["metadata"]["name"]
)
def test_upstream_manifests_have_no_problem(manifest: dict[str, object]) -> None:
    assert judge(manifest) == []
