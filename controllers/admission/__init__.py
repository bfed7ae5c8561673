"""What may enter: the rules of admission as pure functions, and the webhook server that asks them.

Belongs here: every rule of reference/volcano.md 1.3, 1.4, 1.8, 2.1, 2.2 and 3, also those that schema and CEL say, because a
controller re-checks what an API server without our schemas, or without an answer from us, let through; the server, its
certificates and its registration. Invariants: a problem names the field and the reason, all problems are reported, no rule
reads anything but its arguments; an outage of the server stops nobody's pods or Jobs.
"""

from controllers.admission.annotations import annotation_problems
from controllers.admission.crons import validate_cron_job
from controllers.admission.defaults import default_job, task_minimum, task_name
from controllers.admission.flows import validate_flow
from controllers.admission.hypernodes import validate_hyper_node
from controllers.admission.jobs import (
    QueueFacts,
    QueueLookup,
    queue_problems,
    spec_problems,
    validate_job,
    validate_job_update,
)
from controllers.admission.podgroups import default_pod_group, validate_pod_group
from controllers.admission.pods import default_pod, validate_pod
from controllers.admission.problems import Problem, of_reading, summary
from controllers.admission.queues import (
    default_queue,
    is_leaf,
    parent_of,
    validate_queue,
    validate_queue_deletion,
    validate_queue_update,
)

__all__ = [
    "Problem",
    "QueueFacts",
    "QueueLookup",
    "annotation_problems",
    "default_job",
    "default_pod",
    "default_pod_group",
    "default_queue",
    "is_leaf",
    "of_reading",
    "parent_of",
    "queue_problems",
    "spec_problems",
    "summary",
    "task_minimum",
    "task_name",
    "validate_cron_job",
    "validate_flow",
    "validate_hyper_node",
    "validate_job",
    "validate_job_update",
    "validate_pod",
    "validate_pod_group",
    "validate_queue",
    "validate_queue_deletion",
    "validate_queue_update",
]
