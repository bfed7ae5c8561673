"""What may enter: the rules of Job, JobFlow and Queue admission as pure functions, used by controllers and webhooks alike.

Belongs here: every rule of reference/volcano.md 1.3, 1.4, 2.2 and 3, also those that schema and CEL say, because a controller
re-checks what an API server without our schemas let through. Invariant: a problem names the field and the reason, all problems
are reported, and no rule reads anything but its arguments.
"""

from controllers.admission.defaults import default_job, task_minimum, task_name
from controllers.admission.flows import validate_flow
from controllers.admission.jobs import QueueFacts, QueueLookup, queue_problems, validate_job, validate_job_update
from controllers.admission.problems import Problem, of_reading, summary
from controllers.admission.queues import is_leaf, parent_of, validate_queue, validate_queue_deletion

__all__ = [
    "Problem",
    "QueueFacts",
    "QueueLookup",
    "default_job",
    "is_leaf",
    "of_reading",
    "parent_of",
    "queue_problems",
    "summary",
    "task_minimum",
    "task_name",
    "validate_flow",
    "validate_job",
    "validate_job_update",
    "validate_queue",
    "validate_queue_deletion",
]
