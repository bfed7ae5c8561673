"""The rules of Job admission once more, on the manifest that is about to be dispatched (design.md 2.1): a webhook that was
away lets no bad Job through."""

from __future__ import annotations

from collections.abc import Collection

import orjson
from pydantic import ValidationError

from apis.batch import PLUGINS, Job
from controllers.admission.defaults import default_job
from controllers.admission.jobs import validate_job
from controllers.admission.problems import of_reading
from controllers.admission.sizes import size_problems
from machinery.port import Document
from policies.views import Problem


def problems_of(document: Document, *, plugins: Collection[str] = PLUGINS) -> list[Problem]:
    """Everything wrong with a Job, its Queue apart: that is judged with all others in the plan. `plugins` are installed."""
    try:
        job = Job.model_validate_json(document)
    except ValidationError as error:
        return [Problem(each.field, each.message) for each in of_reading(error)]
    found = size_problems(orjson.loads(document)) or validate_job(default_job(job), plugins=plugins)
    return [Problem(each.field, each.message) for each in found]
