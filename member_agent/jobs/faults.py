"""What admission has against a Job that the webhook may not have seen: asked once per generation, with the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from apis.batch import Job
from controllers.admission import of_reading, summary, validate_job
from member_agent.jobs.claims import as_given
from member_agent.jobs.plugins import Registry
from member_agent.views import JobView

Fault = tuple[str, str]
"""Reason and message."""


class Faults:
    """The judgements so far, by UID of the Job."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._judged: dict[str, tuple[int, Fault | None]] = {}

    def known(self, job: JobView) -> Fault | None:
        """What was found against this generation; None also where it was not asked yet."""
        generation, fault = self._judged.get(job.uid, (-1, None))
        return fault if generation == job.generation else None

    def ask(self, job: JobView, manifest: Mapping[str, Any]) -> Fault | None:
        """What there is against it."""
        generation, fault = self._judged.get(job.uid, (-1, None))
        if generation != job.generation:
            fault = judged(manifest, registry=self._registry)
            self._judged[job.uid] = (job.generation, fault)
        return fault

    def forget(self, job: JobView) -> None:
        """The Job has gone."""
        self._judged.pop(job.uid, None)


def judged(manifest: Mapping[str, Any], *, registry: Registry) -> Fault | None:
    """Reason and message of what admission has against a Job; None when nothing. Its Queue is judged elsewhere."""
    try:
        job = Job.model_validate(as_given(manifest))
    except ValidationError as error:
        return "Invalid", summary(of_reading(error))
    problems = validate_job(job, plugins=registry.known)
    if problems:
        return "Invalid", summary(problems)
    wrong = registry.problems(manifest)
    return ("PluginError", "; ".join(f"{field}: {text}" for field, text in wrong)) if wrong else None
