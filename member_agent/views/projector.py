"""Projections of Jobs and pods that share their shapes."""

from __future__ import annotations

import operator
import sys
from typing import Final

import msgspec

from apis import keys
from apis.quantities import InvalidQuantity
from apis.runs import UnreadableRun, decode_record
from machinery.port import Document
from member_agent.views.drafts import drafts
from member_agent.views.gates import gate_of
from member_agent.views.hints import OF_PODS, hints_of
from member_agent.views.jobs import (
    JobDocument,
    JobSkeleton,
    JobStatus,
    JobView,
    PlacedDocument,
    Rules,
    fields_of_place,
    rules_of,
)
from member_agent.views.labels import LabelPool
from member_agent.views.meta import Meta, number
from member_agent.views.pods import ENDED, PodDocument, PodEnd, PodStatus, PodView, manner_of, seconds_of
from policies.shapes import Owner, PodShape, PodSpec, Pool, UnreadableShape, read_gang, shape_of

RULES_KEPT = 1024
"""Different rules of Jobs that are shared; then sharing starts anew."""
SHAPES_KEPT = 1024
"""Different specs of pods whose shape is known without working it out; then it is worked out anew."""

_of_shape: Final = operator.attrgetter(*PodSpec.__struct_fields__)
"""What of a pod's spec makes its shape."""


class Projector:
    """Projections that share shapes: equal pod shapes and gangs are one object."""

    def __init__(self) -> None:
        self.pool = Pool()
        self._rules: dict[Rules, Rules] = {}
        self._shapes: dict[bytes, PodShape] = {}
        self._labels = LabelPool()
        self._encode = msgspec.msgpack.Encoder().encode
        self._job = msgspec.json.Decoder(JobDocument).decode
        self._skeleton = msgspec.json.Decoder(JobSkeleton).decode
        self._placed = msgspec.json.Decoder(PlacedDocument).decode
        self._pod = msgspec.json.Decoder(PodDocument).decode

    def job(self, document: Document) -> JobView:
        """A Job as the agent keeps it."""
        unreadable = ""
        try:
            job = self._job(document)
        except msgspec.ValidationError as error:
            skeleton = self._skeleton(document)
            job, unreadable = JobDocument(skeleton.metadata, status=skeleton.status), f"spec: {error}"
        meta, spec = job.metadata, job.spec
        gang, rules = None, Rules()
        try:
            rules = self._shared(rules_of(spec, meta))
            if not unreadable:
                gang = read_gang(spec.tasks or [], minimum=spec.min_available or None, pool=self.pool)
        except UnreadableShape as error:
            unreadable = unreadable or str(error)
        record = None
        if meta.annotation(keys.RUN):
            try:
                record = decode_record(meta.annotation(keys.RUN), where=f"Job {meta.namespace}/{meta.name}")
            except UnreadableRun as error:
                unreadable = unreadable or f"metadata.annotations[{keys.RUN}]: {error}"
        managed = meta.label(keys.MANAGED_LABEL) == "true" and bool(meta.annotation(keys.WORK_UID))
        return JobView(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            generation=meta.generation,
            created=meta.creation_timestamp,
            deleting=meta.deletion_timestamp is not None,
            finalizers=tuple(sys.intern(each) for each in meta.finalizers or ()),
            managed=managed,
            work=(meta.annotation(keys.WORK_NAMESPACE), meta.annotation(keys.WORK_NAME)),
            work_uid=meta.annotation(keys.WORK_UID),
            work_digest=meta.annotation(keys.WORK_DIGEST),
            record=record,
            run_nodes=meta.annotation(keys.RUN_NODES),
            queue=sys.intern(spec.queue or keys.DEFAULT_QUEUE),
            scheduler=sys.intern(spec.scheduler_name),
            priority_class=sys.intern(spec.priority_class_name),
            min_success=spec.min_success,
            ttl=spec.ttl_seconds_after_finished,
            gang=gang,
            unreadable=unreadable,
            rules=rules,
            order=meta.annotation(keys.COMMAND),
            ordered=meta.annotation(keys.UPSTREAM),
            status=job.status or JobStatus(),
            placed=() if unreadable else fields_of_place(self._placed(document).spec),
            owner_uid=meta.controller,
            forwarded=meta.annotation(keys.JOB_FORWARDING) == "true",
            created_by_flow="" if managed else sys.intern(meta.annotation(keys.CREATED_BY_FLOW)),
            drafts=self._drafts(document, queue=spec.queue) if record is not None and not record.release and gang else (),
        )

    def _drafts(self, document: Document, *, queue: str) -> tuple[PodView, ...]:
        try:
            return tuple(self.pod(each) for each in drafts(document, queue=queue or keys.DEFAULT_QUEUE))
        except (msgspec.MsgspecError, InvalidQuantity, AttributeError, TypeError):
            return ()

    def pod(self, document: Document) -> PodView:
        """A pod as the agent keeps it. A pod whose requests cannot be read asks for nothing but a place."""
        pod = self._pod(document)
        meta, spec, status = pod.metadata, pod.spec, pod.status
        labels, own_labels = self._labels.split(meta.labels)
        shape = self._shape(spec, Owner(meta.namespace, labels + own_labels, bound=bool(spec.node_name)))
        ended = status.phase in ENDED
        manner = manner_of(meta, spec)
        return PodView(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            created=meta.creation_timestamp,
            owner=meta.controller,
            group=meta.annotation(keys.GROUP_NAME),
            task=sys.intern(meta.annotation(keys.TASK_SPEC)),
            queue=sys.intern(meta.annotation(keys.QUEUE_NAME)),
            run=bool(meta.annotation(keys.RUN)),
            scheduler=sys.intern(spec.scheduler_name),
            node=sys.intern(spec.node_name),
            priority=spec.priority,
            gated=bool(spec.scheduling_gates),
            gate=gate_of(spec.scheduling_gates, asked=meta.annotation(keys.QUEUE_GATE) == "true"),
            phase=sys.intern(status.phase or "Pending"),
            deleting=meta.deletion_timestamp is not None,
            confirmed=ended and not status.collected and not status.any_running,
            shape=shape,
            trouble=status.trouble,
            job_version=number(meta.annotation(keys.JOB_VERSION), otherwise=0),
            index=number(meta.annotation(keys.TASK_INDEX), otherwise=-1),
            ready=status.ready,
            restarts=status.restarts,
            evicted=status.evicted,
            end=PodEnd(*status.failure, at=status.finished_at, left=_left(meta, status)) if ended else None,
            ends=tuple(each for each in status.ends if spec.final(each[1])),
            hints=hints_of(meta, OF_PODS),
            nominated=sys.intern(status.nominated_node_name),
            manner=manner,
            since=seconds_of(status.start_time) if manner.cooldown or manner.limit is not None else 0.0,
            labels=labels,
            own_labels=own_labels,
            claims=spec.claims(meta.name) if spec.volumes else (),
        )

    def _shape(self, spec: PodSpec, owner: Owner) -> PodShape:
        """The shape of a pod, worked out once for pods of equal specs: encoding what makes it costs a tenth."""
        key = self._encode(
            (_of_shape(spec), owner.namespace, owner.labels, owner.bound) if spec.reads_owner else _of_shape(spec)
        )
        known = self._shapes.get(key)
        if known is None:
            if len(self._shapes) >= SHAPES_KEPT:
                self._shapes.clear()
            known = self._shapes[key] = self.pool.shape(shape_of(spec, owner=owner))
        return known

    def _shared(self, rules: Rules) -> Rules:
        """The one object equal to `rules`. As many are kept as there are different ones among recent Jobs."""
        known = self._rules.get(rules)
        if known is None:
            if len(self._rules) >= RULES_KEPT:
                self._rules.clear()
            known = self._rules[rules] = rules
        return known


def _left(meta: Meta, status: PodStatus) -> str:
    """What a pod left, where its Job wants to know: its index is among those of its annotation."""
    wanted = meta.annotation(keys.OUTPUTS)
    return status.left if wanted and meta.annotation(keys.TASK_INDEX) in wanted.split(",") else ""
