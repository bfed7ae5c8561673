"""Answers reviews, one namespace after the other, and removes them soon after."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import orjson

from apis import kinds, naming
from apis.batch import PLUGINS
from controllers.flows.snapshot import FlowView
from federation.reviews import graphs, promises, rights, telling
from federation.reviews.flows import FlowReview
from federation.reviews.jobs import Findings, JobReview
from federation.reviews.questions import (
    BadQuestion,
    Creator,
    Question,
    ReviewView,
    completed,
    flow_in,
    job_in,
    named,
    project_review,
    read_question,
)
from federation.reviews.rights import Rights, Wanted
from federation.reviews.standing import standing
from machinery.clock import Clock
from machinery.errors import ApiError, NotFound
from machinery.informer import Change, Informer, Informers, Key
from machinery.port import PatchType, Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies.relaxing import How
from policies.trials import Trier, Tries
from policies.views import JobView, Projections

KEPT: Final = 600.0
"""Seconds that an answered review stays: long enough to be read, and to be read again."""
MOST_OPEN: Final = 20
"""Reviews of one namespace that wait for an answer; more are refused at once."""
REFUSED_AT_ONCE: Final = 50
"""Of those, so many between two that are answered."""
ATTEMPTS: Final = 5
"""Looks at one review that failed before it is given up."""
SOON: Final = 0.001
WORKERS: Final = 2
"""Namespaces looked at side by side: what is asked of the planner takes the time of the hub."""


class _Steps(Protocol):
    def advance(self) -> bool: ...


class ReviewsController:
    """The role. Keys are namespaces, so that each gets its turn however much another asks. `guarded`: the API server holds that
    nobody writes another's name into a review; without that none is answered."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        projections: Projections,
        tries: Tries,
        clock: Clock,
        guarded: bool,
        plugins: Collection[str] = PLUGINS,
        kept: float = KEPT,
    ) -> None:
        self._port = port
        self._reviews: Informer[ReviewView] = informers.add(kinds.PLACEMENT_REVIEW, project_review)
        self._projections = projections
        self._tries = tries
        self._clock = clock
        self._guarded = guarded
        self._plugins = plugins
        self._kept = kept
        self._work: WorkQueue[str] = WorkQueue(clock)
        self._in: dict[str, dict[Key, ReviewView]] = {}
        self._attempts: dict[str, int] = {}

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        await self._reviews.wait_synced()
        self._reviews.subscribe(self._changed)
        await run_workers(self._work, self._reconcile, workers=WORKERS, name="reviews", metrics=metrics)

    def _changed(self, change: Change[ReviewView]) -> None:
        namespace = change.key[0]
        there = self._in.setdefault(namespace, {})
        if change.new is None:
            there.pop(change.key, None)
            if change.old is not None:
                self._attempts.pop(change.old.uid, None)
        else:
            there[change.key] = change.new
        self._work.add(namespace)

    async def _reconcile(self, namespace: str) -> float | None:
        """Remove what is old, refuse what is too much, answer the one that waits longest."""
        there = [each for each in self._in.get(namespace, {}).values() if not each.deleting]
        due = [each for each in there if each.answered and self._left(each) <= 0]
        for review in due:
            await self._remove(review)
        waiting = sorted((each for each in there if not each.answered), key=self._turn)
        for review in waiting[MOST_OPEN:][:REFUSED_AT_ONCE]:
            text = f"{len(waiting)} reviews of this namespace wait, at most {MOST_OPEN} may"
            error = BadQuestion("metadata.namespace", text, reason="TooManyReviews")
            await self._write(review, telling.of_refusal(error, now=self._clock.now()))
        if waiting:
            await self._one(waiting[0])
            return SOON
        left = [self._left(each) for each in there if each.answered and each not in due]
        return min(left) if left else None

    def _turn(self, review: ReviewView) -> tuple[int, str, str]:
        """What failed before comes after the others."""
        return self._attempts.get(review.uid, 0), review.created, review.name

    def _left(self, review: ReviewView) -> float:
        """Seconds that an answered review stays."""
        age = self._clock.now() - datetime.datetime.fromisoformat(review.answered)
        return self._kept - age.total_seconds()

    async def _remove(self, review: ReviewView) -> None:
        try:
            await self._port.delete(
                kinds.PLACEMENT_REVIEW,
                review.name,
                namespace=review.namespace,
                preconditions=Preconditions(uid=review.uid),
            )
        except NotFound:
            self._in.get(review.namespace, {}).pop((review.namespace, review.name), None)

    async def _one(self, review: ReviewView) -> None:
        """Answer it. One that cannot be answered by accident of ours does not hold up the others."""
        tried = self._attempts[review.uid] = self._attempts.get(review.uid, 0) + 1
        if tried > ATTEMPTS:
            error = BadQuestion("", f"the hub failed to answer it {ATTEMPTS} times: its log says why", reason="NotAnswered")
            await self._write(review, telling.of_refusal(error, now=self._clock.now()))
            return
        try:
            document = await self._port.get(kinds.PLACEMENT_REVIEW, review.name, namespace=review.namespace)
        except NotFound:
            self._in.get(review.namespace, {}).pop((review.namespace, review.name), None)
            return
        if project_review(document).answered:
            self._in[review.namespace][(review.namespace, review.name)] = project_review(document)
            return
        try:
            status = await self._answer(document)
        except BadQuestion as error:
            status = telling.of_refusal(error, now=self._clock.now())
        except ApiError:
            self._attempts[review.uid] = tried - 1  # the API server's trouble is not the review's
            raise
        await self._write(review, status)

    async def _write(self, review: ReviewView, status: Mapping[str, Any]) -> None:
        key = (review.namespace, review.name)
        try:
            document = await self._port.patch(
                kinds.PLACEMENT_REVIEW,
                review.name,
                {"metadata": {"uid": review.uid}, "status": status},
                type=PatchType.MERGE,
                namespace=review.namespace,
                subresource="status",
            )
        except NotFound:
            self._in.get(review.namespace, {}).pop(key, None)
            return
        if key in self._in.get(review.namespace, {}):
            self._in[review.namespace][key] = project_review(document)

    # --- answering ---------------------------------------------------------------------------------------------------

    async def _answer(self, document: bytes) -> Mapping[str, Any]:
        view = project_review(document)
        if not self._guarded:
            raise BadQuestion("spec.creator", "nobody holds that it is its creator's name", reason="Unguarded")
        if view.creator is None:
            raise BadQuestion("spec.creator", "nobody says whose rights it has: admission writes it", reason="Unstamped")
        question = read_question(document)
        await self._demand(view.creator, rights.needed(question), view.namespace)
        if question.job:
            return await self._about_standing(question, view.creator)
        manifest = flow_in(question)
        if manifest is not None:
            return await self._about_flow(question, manifest, view.creator)
        return await self._about_manifest(question, view.creator)

    async def _demand(self, creator: Creator, wanted: Collection[Wanted], namespace: str) -> None:
        refused = await rights.denied(self._port, creator, wanted, namespace=namespace)
        if refused is not None:
            raise BadQuestion("spec.creator", f"{creator.username} may not {refused.text} in {namespace}", reason="Denied")

    async def _about_manifest(self, question: Question, creator: Creator) -> Mapping[str, Any]:
        manifest, problems = completed(job_in(question), view=question.view, plugins=self._plugins)
        if problems:
            raise BadQuestion(f"spec.manifest.{problems[0].field}", problems[0].message, reason="InvalidSpec")
        await self._demand(creator, rights.needed_by(manifest), question.view.namespace)
        return await self._planned(question, creator, manifest, asked=False)

    async def _about_standing(self, question: Question, creator: Creator) -> Mapping[str, Any]:
        namespace = question.view.namespace
        try:
            job = await self._port.get(kinds.JOB, question.job, namespace=namespace)
        except NotFound as error:
            raise BadQuestion("spec.job", f"there is no Job {question.job} in {namespace}", reason="NotFound") from error
        binding = await self._maybe(kinds.RESOURCE_BINDING, naming.binding_name(question.job), namespace)
        found = standing(job, binding, projections=self._projections)
        if not (found.ended or found.runs or found.refused):
            return await self._planned(question, creator, found.scene(), asked=True)
        trier = self._tries.trier(namespace)
        may = await rights.rights_of(self._port, creator, namespace=namespace, queues=())
        promised = _promises(trier, found.job)
        time = trier.run_time(found.job)
        return telling.of_standing(found, rights=may, now=self._clock.now(), run_time=time, promises=promised)

    async def _planned(
        self, question: Question, creator: Creator, manifest: Mapping[str, Any], *, asked: bool
    ) -> Mapping[str, Any]:
        namespace = question.view.namespace
        trier = self._tries.trier(namespace)
        queues = trier.surroundings.queues if question.suggest else ()
        may = await rights.rights_of(self._port, creator, namespace=namespace, queues=queues)
        review = JobReview(
            manifest,
            trier=trier,
            projections=self._projections,
            rights=may,
            relax=question.relax,
            suggest=question.suggest,
            asked=asked,
        )
        await _through(review)
        return self._told(review.result(), trier, may)

    def _told(self, found: Findings, trier: Trier, may: Rights) -> Mapping[str, Any]:
        return telling.of_job(
            found,
            rights=may,
            now=self._clock.now(),
            currency=trier.surroundings.currency,
            notes=_governed(found),
            promises=_promises(trier, found.job),
        )

    async def _about_flow(self, question: Question, manifest: Mapping[str, Any], creator: Creator) -> Mapping[str, Any]:
        namespace = question.view.namespace
        flow = graphs.flow_of(manifest, namespace=namespace)
        templates, flows = await self._sources(flow, creator, given=question.templates)
        found = graphs.unfolded(flow, templates=templates, flows=flows)
        wanted = {each for node in found.nodes if node.manifest is not None for each in rights.needed_by(node.manifest)}
        await self._demand(creator, sorted(wanted, key=lambda each: each.text), namespace)
        trier = self._tries.trier(namespace)
        may = await rights.rights_of(self._port, creator, namespace=namespace, queues=())
        review = FlowReview(found, view=question.view, trier=trier, projections=self._projections, plugins=self._plugins)
        await _through(review)
        currency = trier.surroundings.currency
        return telling.of_flow(review.result(), rights=may, now=self._clock.now(), currency=currency)

    async def _sources(
        self, flow: FlowView, creator: Creator, *, given: Iterable[Mapping[str, Any]]
    ) -> tuple[dict[str, Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
        """Templates and flows that its steps name, and that those name in turn; what is not there is left out."""
        templates, flows = dict[str, Mapping[str, Any]](), dict[str, Mapping[str, Any]]()
        for each in given:
            (flows if each["kind"] == kinds.JOB_FLOW.kind else templates)[str(each["metadata"]["name"])] = each
        asked = (frozenset(templates), frozenset(flows))
        looked: set[tuple[str, str]] = set()
        every: dict[kinds.Kind, bool] = {}
        ahead = [flow, *(graphs.flow_of(each, namespace=flow.namespace) for each in flows.values())]
        for _ in range(graphs.DEEPEST + 1):
            wanted = [(kinds.JOB_TEMPLATE, name) for each in ahead for name in sorted(graphs.named_in(each)[0] - asked[0])]
            wanted += [(kinds.JOB_FLOW, name) for each in ahead for name in sorted(graphs.named_in(each)[1] - asked[1])]
            ahead = []
            for kind, name in dict.fromkeys(wanted):
                if (kind.kind, name) in looked:
                    continue
                looked.add((kind.kind, name))
                if len(looked) > graphs.MOST_JOBS:
                    text = f"it is made from more than {graphs.MOST_JOBS} templates and flows"
                    raise BadQuestion("spec.manifest.spec.flows", text, reason="TooLarge")
                named(name, field="spec.manifest.spec.flows")
                if not await self._may_read_all(creator, kind, flow.namespace, known=every):
                    await self._demand(creator, [Wanted("get", kind, name)], flow.namespace)
                document = await self._maybe(kind, name, flow.namespace)
                if document is None:
                    continue
                tree = orjson.loads(document)
                if kind == kinds.JOB_TEMPLATE:
                    templates[name] = tree
                else:
                    flows[name] = tree
                    ahead.append(graphs.flow_of(tree, namespace=flow.namespace))
        return templates, flows

    async def _may_read_all(self, creator: Creator, kind: kinds.Kind, namespace: str, *, known: dict[kinds.Kind, bool]) -> bool:
        """Whether he may get any of that kind: then nobody asks about each."""
        if kind not in known:
            known[kind] = await rights.allowed(self._port, creator, Wanted("get", kind), namespace=namespace)
        return known[kind]

    async def _maybe(self, kind: kinds.Kind, name: str, namespace: str) -> bytes | None:
        try:
            return await self._port.get(kind, name, namespace=namespace)
        except NotFound:
            return None


async def _through(steps: _Steps) -> None:
    """To the end, with room for others after every question to the planner."""
    going = True
    while going:
        going = steps.advance()
        await asyncio.sleep(0)


def _promises(trier: Trier, job: JobView) -> tuple[str, ...]:
    return promises.not_promised(exclusive=trier.setting("exclusive", job), failover=trier.setting("failover", job))


def _governed(found: Findings) -> list[str]:
    """Where no policy governs a Job, changing it means to write one."""
    made = [*found.relaxed, *(found.cheapest.changes if found.cheapest is not None else ())]
    if found.policy.uid not in ("", "new") or not any(each.how is How.POLICY for each in made):
        return []
    return [f"no policy selects it: a PropagationPolicy of its namespace for Job {found.job.name} would say so"]
