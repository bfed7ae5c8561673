"""volcano-federation.io/v1alpha1: PlacementReview, a question to the planner and its answer (design.md 4). Short-lived."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from apis import kinds
from apis.meta import Condition, Model, Resource
from apis.schema import Object, Rule, Time, one_of, served

CHANGES: Final = (
    "Resume",
    "Profile",
    "Queue",
    "TolerateNode",
    "MinAvailable",
    "TolerateCluster",
    "AnyNode",
    "NoSpread",
    "Divide",
    "AnyCluster",
    "Replicas",
)
OUTCOMES: Final = ("Starts", "Waits", "Held", "Refused", "Placed", "Runs", "Ended")

Name = Annotated[str, served(maxLength=253)]
Score = Annotated[dict[str, int], served(maxProperties=32)]


class Creator(Model):
    """Whose rights count. Admission writes it; nobody can write another's name."""

    username: Annotated[str, served(minLength=1, maxLength=1024)]
    groups: Annotated[list[Annotated[str, served(maxLength=1024)]] | None, served(maxItems=256)] = None


class Relaxation(Model):
    """A change of the Job, or of the policy that governs it, that is made before it is planned."""

    change: Annotated[str, one_of(*CHANGES)]
    to: Annotated[str | None, served(maxLength=320)] = None
    """Name of a queue or profile; a taint as key:effect."""
    task: Annotated[str | None, served(maxLength=63)] = None
    count: Annotated[int | None, served(minimum=0, format="int32")] = None
    """Pods, for MinAvailable and Replicas."""


class ReviewSpec(Model):
    creator: Creator | None = None
    manifest: Object | None = None
    """A Job, a JobFlow, a CronJob or a JobTemplate of this namespace that is not there yet."""
    templates: Annotated[list[Object] | None, served(maxItems=256)] = None
    """JobTemplates and nested JobFlows of a JobFlow that are not there yet; others are read from the namespace."""
    job: Name | None = None
    """Or the name of a Job that is there."""
    relax: Annotated[list[Relaxation] | None, served(maxItems=16)] = None
    suggest: bool | None = None
    """Whether the cheapest change that would start a Job that waits is looked for; it is when not said."""


class TaskReplicas(Model):
    name: str
    replicas: int


class PlannedPart(Model):
    """What one cluster would run, or runs."""

    cluster: str
    replicas: int = 0
    tasks: list[TaskReplicas] | None = None
    node_class: str | None = None
    market: str | None = None
    pool: str | None = None
    cost: str | None = None
    finish_seconds: int | None = None


class JudgedCluster(Model):
    """One cluster: the verdict that rules it out, or its scores."""

    name: str
    code: str | None = None
    text: str | None = None
    scores: Score | None = None
    total: int | None = None
    expected_wait_seconds: int | None = None


class NamedChange(Model):
    """A change, what it takes, and its points (docs/concepts/placement-review.md)."""

    change: str
    text: str
    how: Annotated[str, one_of("Edit", "SubmitAgain", "Policy")]
    points: int
    to: str | None = None
    task: str | None = None
    count: int | None = None


class TriedChanges(Model):
    """Changes made together, and whether the Job would start."""

    changes: list[NamedChange]
    points: int
    starts: bool
    why: str | None = None


class PlannedStep(Model):
    """One Job of a flow: where it would run, and when, in seconds from now."""

    name: str
    step: str
    clusters: list[str] | None = None
    reason: str | None = None
    message: str | None = None
    cost: str | None = None
    start_seconds: int | None = None
    finish_seconds: int | None = None
    critical: bool | None = None


class ReviewStatus(Model):
    conditions: list[Condition] | None = None
    answered_at: Time | None = None
    outcome: Annotated[str | None, one_of(*OUTCOMES)] = None
    reason: str | None = None
    message: str | None = None
    field: str | None = None
    policy: str | None = None
    profile: str | None = None
    run_seconds: int | None = None
    run_time_from: str | None = None
    """Who says how long it runs: estimated-duration, runningEstimate, history or default."""
    placements: list[PlannedPart] | None = None
    only_member_can_tell: bool | None = None
    """Nobody but the chosen members knows whether it fits."""
    cost: str | None = None
    """Money for all of it; absent where nobody knows."""
    currency: str | None = None
    expected_start: Time | None = None
    expected_finish: Time | None = None
    clusters: list[JudgedCluster] | None = None
    counts: dict[str, int] | None = None
    """Clusters that are not named, by code."""
    wakes: list[str] | None = None
    """Kinds of events that could change the answer."""
    cheapest: TriedChanges | None = None
    """The cheapest change that would start it now."""
    tried: list[TriedChanges] | None = None
    """What else was tried, the cheapest first."""
    not_everything_tried: bool | None = None
    steps: list[PlannedStep] | None = None
    critical_path: list[str] | None = None
    notes: list[str] | None = None
    """What the answer takes for granted."""
    not_promised: list[str] | None = None


class PlacementReview(Resource):
    """What would become of a Job or JobFlow, or has become of it: asked once, answered once, gone soon after."""

    served_as: ClassVar[kinds.Kind] = kinds.PLACEMENT_REVIEW

    spec: ReviewSpec = ReviewSpec()
    status: ReviewStatus | None = None


RULES: Final = (
    Rule(
        "has(self.spec) && (has(self.spec.manifest) != has(self.spec.job))",
        "a review is about a manifest or about a Job that is there",
        ".spec",
    ),
)
