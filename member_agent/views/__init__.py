"""What the member's roles remember of API objects: small frozen projections, one per kind.

Every role that needs a kind uses the projection given here, so that one informer serves all. Nothing keeps a manifest: a
pod template, or the manifest of a Work that was applied already, is read again when it is needed.
"""

from __future__ import annotations

from member_agent.views.gates import QueueGate
from member_agent.views.groups import SCHEDULED, GroupCondition, GroupStatus, GroupView, project_group
from member_agent.views.holds import HELD, HOLD_DROPPED, HeldFor, HoldRecord, encode_hold, held_for
from member_agent.views.jobs import JobCondition, JobMemory, JobState, JobStatus, JobView, Policy, Role, Rules, TaskCount
from member_agent.views.meta import Condition, Meta, Named, condition, project_named
from member_agent.views.nodes import OUT_OF_SERVICE, NodeView, project_node
from member_agent.views.pods import ENDED, Manner, PodEnd, PodView
from member_agent.views.projector import Projector
from member_agent.views.queues import CLOSED_BY_PARENT, GroupCounts, PriorityView, QueueView, project_priority, project_queue
from member_agent.views.works import ManifestStatus, Target, WorkView, digest, project_work, status_digest

__all__ = [
    "CLOSED_BY_PARENT",
    "Condition",
    "ENDED",
    "GroupCondition",
    "GroupCounts",
    "GroupStatus",
    "GroupView",
    "HELD",
    "HOLD_DROPPED",
    "HeldFor",
    "HoldRecord",
    "JobCondition",
    "JobMemory",
    "JobState",
    "JobStatus",
    "JobView",
    "Manner",
    "ManifestStatus",
    "Meta",
    "Named",
    "NodeView",
    "OUT_OF_SERVICE",
    "PodEnd",
    "PodView",
    "Policy",
    "PriorityView",
    "Projector",
    "QueueGate",
    "QueueView",
    "Role",
    "Rules",
    "SCHEDULED",
    "Target",
    "TaskCount",
    "WorkView",
    "condition",
    "digest",
    "encode_hold",
    "held_for",
    "project_group",
    "project_named",
    "project_node",
    "project_priority",
    "project_queue",
    "project_work",
    "status_digest",
]
