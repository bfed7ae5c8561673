"""AdmissionReview v1: reading one, judging what it is about, and writing the answer. Pure; facts are arguments."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import ValidationError

from apis import kinds
from apis.batch import PLUGINS, Job
from apis.cron import CronJob
from apis.flow import JobFlow
from apis.keys import DEFAULT_SCHEDULER
from apis.meta import Resource
from apis.scheduling import PodGroup, Queue
from controllers.admission import documents, patches, pods
from controllers.admission.crons import validate_cron_job
from controllers.admission.defaults import default_job
from controllers.admission.documents import Manifest
from controllers.admission.facts import Facts
from controllers.admission.flows import validate_flow, validate_flow_edit
from controllers.admission.hypernodes import validate_hyper_node
from controllers.admission.jobs import validate_job, validate_job_update
from controllers.admission.patches import Operations
from controllers.admission.placing import validate_placing
from controllers.admission.podgroups import default_pod_group, validate_pod_group
from controllers.admission.problems import Problem, of_reading, summary
from controllers.admission.queues import (
    MAX_DEPTH,
    default_queue,
    validate_queue,
    validate_queue_deletion,
    validate_queue_update,
)
from controllers.admission.resource_groups import ResourceGroup
from controllers.admission.sizes import size_problems
from controllers.admission.stamps import orders_stamped, stamp_problems, stamped
from controllers.admission.webhooks import CREATE, DELETE, HYPER_NODE, PLACING, Verb, Webhook

REVIEW: Final = ("admission.k8s.io/v1", "AdmissionReview")
LONGEST_MESSAGE: Final = 8192
"""Characters of a refusal's text; all problems are in its causes."""
MOST_CAUSES: Final = 64


JobJudge = Callable[[Manifest], Iterable[tuple[str, str]]]
"""Field and reason of everything that is wrong with a Job as it was written."""


class BadReview(ValueError):
    """A body that is no AdmissionReview, or not about what its path serves; says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: `new` is None at deletion, `old` at creation. `user` and `groups` are whose request it is."""

    uid: str
    operation: str
    namespace: str
    name: str
    new: Manifest | None
    old: Manifest | None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """No problem: allowed, changed by `operations`. `by_facts`: other objects had a say in the problems. `code` and `reason`:
    of a refusal, as an API server would give them."""

    problems: tuple[Problem, ...] = ()
    operations: tuple[Mapping[str, Any], ...] = ()
    by_facts: bool = False
    code: int = 422
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rules are told beside the object, by settings and at the start of a program."""

    scheduler: str = DEFAULT_SCHEDULER
    more_schedulers: tuple[str, ...] = ()
    plugins: Collection[str] = PLUGINS
    more: JobJudge | None = None
    """What a program that runs Jobs has to say about one beside these rules, of plugins for example."""
    groups: tuple[ResourceGroup, ...] = ()
    gates: bool = False
    largest_job: int = 1 << 20
    max_depth: int = MAX_DEPTH
    fixed_root: bool = False
    check_queue_pods: bool = False

    @property
    def schedulers(self) -> tuple[str, ...]:
        """All names of schedulers whose pods are ours."""
        return (self.scheduler, *self.more_schedulers)


def parse(body: bytes, *, webhook: Webhook) -> Request:
    """Read a review; raises BadReview."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != REVIEW:
        raise BadReview(f"the body is no {REVIEW[0]} {REVIEW[1]}")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise BadReview("request.uid is missing")
    resource = request.get("resource")
    about = (resource.get("group", ""), resource.get("resource", "")) if isinstance(resource, dict) else ("", "")
    if about != (webhook.kind.group, webhook.kind.plural):
        raise BadReview(
            f"{webhook.path} serves {webhook.kind.name}, the request is about {'.'.join(filter(None, about[::-1]))!r}"
        )
    operation = str(request.get("operation") or "")
    if operation not in webhook.operations:
        raise BadReview(f"{webhook.path} serves {', '.join(webhook.operations)}, not {operation!r}")
    new, old = (_document(request.get(name), name=name) for name in ("object", "oldObject"))
    if (new is None and operation != DELETE) or (old is None and operation not in (CREATE, DELETE)):
        raise BadReview(f"{operation} without the object it is about")
    where, name = str(request.get("namespace") or ""), str(request.get("name") or "")
    asks = documents.mapping(request.get("userInfo"))
    groups = tuple(str(each) for each in documents.listing(asks.get("groups")))
    extra = {
        str(key): tuple(map(str, documents.listing(values))) for key, values in documents.mapping(asks.get("extra")).items()
    }
    return Request(
        uid=request["uid"],
        operation=operation,
        namespace=where,
        name=name,
        new=new,
        old=old,
        user=str(asks.get("username") or ""),
        groups=groups,
        extra=extra,
        dry_run=request.get("dryRun") is True,
    )


def _document(value: object, *, name: str) -> Manifest | None:
    if value is None or isinstance(value, dict):
        return value
    raise BadReview(f"request.{name} is no object")


def answer(request: Request, *, verdict: Verdict, warnings: tuple[str, ...] = ()) -> bytes:
    """The review that goes back."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not verdict.problems}
    if verdict.problems:
        response["status"] = {
            "status": "Failure",
            "code": verdict.code,
            "reason": verdict.reason,
            "message": summary(verdict.problems)[:LONGEST_MESSAGE],
            "details": {"name": request.name, "causes": [_cause(each) for each in verdict.problems[:MOST_CAUSES]]},
        }
    elif verdict.operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(verdict.operations))).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": REVIEW[0], "kind": REVIEW[1], "response": response})


def _cause(problem: Problem) -> dict[str, str]:
    return {"reason": "FieldValueInvalid", "field": problem.field, "message": problem.message}


# --- judging ---------------------------------------------------------------------------------------------------------
def judge(request: Request, *, webhook: Webhook, facts: Facts, rules: Rules) -> Verdict:
    """What the rules say."""
    if webhook.verb is Verb.MUTATE:
        return Verdict(operations=tuple(_MUTATE[webhook.kind](request, facts, rules)))
    try:
        found = _VALIDATE[webhook.kind](request, facts, rules)
    except ValidationError as error:
        return Verdict(tuple(of_reading(error)))
    by_facts = webhook.kind == kinds.QUEUE or any(problem.field == "spec.queue" for problem in found)
    return Verdict(tuple(found), by_facts=by_facts and bool(found))


def _job_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    new = Job.model_validate(request.new)
    if request.old is None:
        large = size_problems(request.new or {}, most=rules.largest_job)
        if large:
            return large
        found = validate_job(default_job(new), queue=facts.queue_for(request.namespace), plugins=rules.plugins)
        if not found and rules.more is not None:
            found = [Problem(field, reason) for field, reason in rules.more(request.new or {})]
        return found
    if _leaves(request):
        return []
    grown = [] if _same_spec(request) else size_problems(request.new or {}, most=rules.largest_job)
    return [*grown, *validate_job_update(Job.model_validate(request.old), new=new)]


def _cron_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    if _leaves(request) or _same_spec(request):
        return []
    return validate_cron_job(CronJob.model_validate(request.new), plugins=rules.plugins)


def _flow_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    if _leaves(request) or _same_spec(request):
        return []
    flow = JobFlow.model_validate(request.new)
    edit = validate_flow_edit(JobFlow.model_validate(request.old), flow) if request.old is not None else []
    return [*validate_flow(flow), *edit]


def _queue_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    if request.operation == DELETE:
        holds = facts.holds_pods if rules.check_queue_pods else lambda name: False
        return validate_queue_deletion(request.name, queues=facts.queues, holds_pods=holds)
    new = Queue.model_validate(request.new)
    tree: dict[str, Any] = {"queues": facts.queues, "holds_pods": facts.holds_pods, "max_depth": rules.max_depth}
    if request.old is None:
        return validate_queue(new, **tree)
    if _leaves(request) or (_same_spec(request) and _same_notes(request)):
        return []
    return validate_queue_update(Queue.model_validate(request.old), new=new, fixed_root=rules.fixed_root, **tree)


def _group_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    return validate_pod_group(PodGroup.model_validate(request.new), queue=facts.queue)


def _pod_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    return pods.validate_pod(request.new or {}, schedulers=rules.schedulers)


def _hyper_node_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    return [] if _leaves(request) else validate_hyper_node(request.new or {})


def _template_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    """What a template says is judged with every Job that is made from it; here only whose right it takes (`named`)."""
    return []


def _stamp_problems(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
    if _leaves(request):
        return []
    return stamp_problems(request.new or {}, request.old, user=request.user, groups=request.groups)


def _placing_problems(kind: kinds.Kind) -> _Judge:
    def judge(request: Request, facts: Facts, rules: Rules) -> list[Problem]:
        if _leaves(request) or _same_spec(request):
            return []
        return validate_placing(kind, request.new or {})

    return judge


def _complete_job(request: Request, facts: Facts, rules: Rules) -> Operations:
    return _completed(Job, request, lambda job: default_job(job, scheduler=rules.scheduler))


def _complete_queue(request: Request, facts: Facts, rules: Rules) -> Operations:
    return _completed(Queue, request, default_queue)


def _complete_group(request: Request, facts: Facts, rules: Rules) -> Operations:
    queue = facts.namespace_queues.get(request.namespace, "")
    return _completed(PodGroup, request, lambda group: default_pod_group(group, namespace_queue=queue))


def _complete_pod(request: Request, facts: Facts, rules: Rules) -> Operations:
    before = request.new or {}
    after = pods.default_pod(
        before, schedulers=rules.schedulers, groups=rules.groups, gates=rules.gates, namespace=request.namespace
    )
    return patches.between(before, after=after)


def _stamp(request: Request, facts: Facts, rules: Rules) -> Operations:
    return stamped(request.new or {}, user=request.user, groups=request.groups)


def _whose_orders(request: Request, facts: Facts, rules: Rules) -> Operations:
    return orders_stamped(request.new or {}, request.old, user=request.user)


def _completed(model: type[Any], request: Request, complete: Callable[[Any], Resource]) -> Operations:
    """Nothing is filled into what cannot be read: the API server's schema or validation says why."""
    try:
        before: Resource = model.model_validate(request.new)
    except ValidationError:
        return []
    return patches.of_models(before, after=complete(before))


def _leaves(request: Request) -> bool:
    """The object is being deleted: what is still written to it only lets it go."""
    return bool(documents.mapping((request.new or {}).get("metadata")).get("deletionTimestamp"))


def _same_spec(request: Request) -> bool:
    return request.old is not None and (request.new or {}).get("spec") == request.old.get("spec")


def _same_notes(request: Request) -> bool:
    return documents.notes_of(request.new) == documents.notes_of(request.old)


_Judge = Callable[[Request, Facts, Rules], list[Problem]]
_Complete = Callable[[Request, Facts, Rules], Operations]
_VALIDATE: Final[Mapping[kinds.Kind, _Judge]] = {
    kinds.JOB: _job_problems,
    kinds.CRON_JOB: _cron_problems,
    kinds.JOB_FLOW: _flow_problems,
    kinds.JOB_TEMPLATE: _template_problems,
    kinds.QUEUE: _queue_problems,
    kinds.POD_GROUP: _group_problems,
    kinds.POD: _pod_problems,
    HYPER_NODE: _hyper_node_problems,
    kinds.PLACEMENT_REVIEW: _stamp_problems,
    **{kind: _placing_problems(kind) for kind in PLACING},
}
_MUTATE: Final[Mapping[kinds.Kind, _Complete]] = {
    kinds.JOB: _complete_job,
    kinds.QUEUE: _complete_queue,
    kinds.POD_GROUP: _complete_group,
    kinds.POD: _complete_pod,
    kinds.PLACEMENT_REVIEW: _stamp,
    kinds.CLUSTER: _whose_orders,
}
