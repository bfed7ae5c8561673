"""What a review asks, read from the object: whatever is wrong with it is a refusal with field and reason. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from apis import kinds
from apis.batch import PLUGINS, Job
from controllers.admission.defaults import default_job
from controllers.admission.jobs import validate_job
from controllers.admission.problems import Problem, is_subdomain, of_reading
from policies import relaxing
from policies.relaxing import Change, Kind, Manifest
from policies.views import JobView, Meta, Projections

LARGEST: Final = 256 << 10
"""Bytes of a manifest with its templates: as much as a Job with the longest scripts that anybody should send twice."""

ASKABLE: Final = {
    (each.api_version, each.kind): each for each in (kinds.JOB, kinds.JOB_FLOW, kinds.CRON_JOB, kinds.JOB_TEMPLATE)
}
"""Kinds of manifests that can be reviewed."""


@dataclass(frozen=True, slots=True)
class Creator:
    """Whose rights a review has."""

    username: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewView:
    """What the informer keeps of a review. `answered` is RFC 3339, "" before the answer."""

    namespace: str
    name: str
    uid: str
    version: str
    created: str = ""
    answered: str = ""
    deleting: bool = False
    creator: Creator | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One review: about a manifest of a kind (`about`), or about the Job named `job`."""

    view: ReviewView
    about: kinds.Kind
    manifest: Manifest
    templates: tuple[Manifest, ...] = ()
    job: str = ""
    relax: tuple[Change, ...] = ()
    suggest: bool = True


class BadQuestion(ValueError):
    """A review that cannot be answered: the field and why."""

    def __init__(self, field: str, message: str, *, reason: str = "Invalid") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.reason = reason


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class _Creator(_Wire, frozen=True):
    username: str = ""
    groups: list[str] | None = None


class _Relaxation(_Wire, frozen=True):
    change: str = ""
    to: str | None = None
    task: str | None = None
    count: int | None = None


class _Stamp(_Wire, frozen=True):
    creator: _Creator | None = None


class _Spec(_Wire, frozen=True):
    manifest: msgspec.Raw = msgspec.Raw(b"null")
    templates: msgspec.Raw = msgspec.Raw(b"null")
    job: str | None = None
    relax: list[_Relaxation] | None = None
    suggest: bool | None = None


class _Status(_Wire, frozen=True):
    answered_at: str | None = None


class _Head(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Stamp = _Stamp()
    status: _Status | None = None


class _Review(_Wire, frozen=True):
    spec: _Spec = _Spec()


_head = msgspec.json.Decoder(_Head)
_review = msgspec.json.Decoder(_Review)


def project_review(document: bytes) -> ReviewView:
    """The projection that the informer keeps."""
    read = _head.decode(document)
    meta, stamp = read.metadata, read.spec.creator
    known = stamp is not None and stamp.username
    return ReviewView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created=meta.creation_timestamp,
        answered=(read.status.answered_at or "") if read.status is not None else "",
        deleting=meta.deletion_timestamp is not None,
        creator=Creator(stamp.username, tuple(stamp.groups or ())) if stamp is not None and known else None,
    )


def read_question(document: bytes) -> Question:
    """What a review asks; raises BadQuestion."""
    view = project_review(document)
    try:
        spec = _review.decode(document).spec
    except msgspec.MsgspecError as error:
        raise BadQuestion("spec", str(error)) from error
    if len(spec.manifest) + len(spec.templates) > LARGEST:
        raise BadQuestion("spec.manifest", f"more than {LARGEST >> 10} KiB are not looked at", reason="TooLarge")
    relax = tuple(_change(each, at) for at, each in enumerate(spec.relax or ()))
    suggest = spec.suggest is not False
    manifest = msgspec.json.decode(spec.manifest)
    if (manifest is None) == (not spec.job):
        raise BadQuestion("spec", "a review is about a manifest or about a Job that is there")
    if spec.job:
        named(spec.job, field="spec.job")
        return Question(view, kinds.JOB, {}, job=spec.job, relax=relax, suggest=suggest)
    templates = tuple(_template(each, at) for at, each in enumerate(msgspec.json.decode(spec.templates) or ()))
    return Question(view, _kind_of(manifest, view), manifest, templates, relax=relax, suggest=suggest)


def flow_in(question: Question) -> Manifest | None:
    """The JobFlow that is asked about, also by a CronJob that makes flows; None where it is about a Job."""
    if question.about == kinds.JOB_FLOW:
        return question.manifest
    spec = question.manifest.get("spec")
    template = spec.get("flowTemplate") if question.about == kinds.CRON_JOB and isinstance(spec, dict) else None
    if template is None:
        return None
    inner = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(inner, dict):
        raise BadQuestion("spec.manifest.spec.flowTemplate", "there is no JobFlow in it")
    meta = meta_of(question.manifest)
    kept = {name: meta[name] for name in ("name", "labels", "annotations") if name in meta}
    return {"apiVersion": kinds.JOB_FLOW.api_version, "kind": kinds.JOB_FLOW.kind, "metadata": kept, "spec": inner}


def named(name: str, *, field: str) -> str:
    """The name of an object to read, which becomes part of a path; raises BadQuestion for what no object can be called."""
    if not is_subdomain(name):
        raise BadQuestion(field, f"{name[:64]!r} is no name of an object")
    return name


def _kind_of(manifest: Any, view: ReviewView) -> kinds.Kind:
    if not isinstance(manifest, dict):
        raise BadQuestion("spec.manifest", "it is no object")
    about = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
    if about not in ASKABLE:
        known = ", ".join(f"{kind} of {group}" for group, kind in ASKABLE)
        raise BadQuestion("spec.manifest", f"{about[1]} of {about[0]} cannot be reviewed: {known} can", reason="KindUnknown")
    where = meta_of(manifest).get("namespace") or view.namespace
    if where != view.namespace:
        text = f"it is in namespace {where}, the review in {view.namespace}"
        raise BadQuestion("spec.manifest.metadata.namespace", text)
    return ASKABLE[about]


def _template(template: Any, at: int) -> Manifest:
    known = (kinds.JOB_TEMPLATE.kind, kinds.JOB_FLOW.kind)
    if not isinstance(template, dict) or template.get("kind") not in known or not meta_of(template).get("name"):
        raise BadQuestion(f"spec.templates[{at}]", f"it is no {' or '.join(known)} with a name")
    return template


def _change(read: _Relaxation, at: int) -> Change:
    try:
        kind = Kind(read.change)
    except ValueError as error:
        raise BadQuestion(f"spec.relax[{at}].change", f"there is no change {read.change!r}") from error
    if kind in (Kind.MINIMUM, Kind.REPLICAS) and read.count is None:
        raise BadQuestion(f"spec.relax[{at}].count", f"{kind} needs a number of pods")
    if kind in (Kind.QUEUE, Kind.PROFILE, Kind.TOLERATE_CLUSTER, Kind.TOLERATE_NODE) and not read.to:
        raise BadQuestion(f"spec.relax[{at}].to", f"{kind} needs a name")
    return Change(kind, relaxing.COSTS[kind], task=read.task or "", to=read.to or "", count=read.count or 0)


def meta_of(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """`metadata`, or nothing."""
    meta = manifest.get("metadata")
    return meta if isinstance(meta, dict) else {}


# --- Jobs ------------------------------------------------------------------------------------------------------------


def job_in(question: Question) -> Manifest:
    """The Job that a Job, CronJob or JobTemplate stands for; raises BadQuestion."""
    manifest = question.manifest
    if question.about == kinds.JOB:
        return manifest
    spec, at = manifest.get("spec"), "spec.manifest.spec"
    if question.about == kinds.CRON_JOB and isinstance(spec, dict):
        template, at = spec.get("jobTemplate"), "spec.manifest.spec.jobTemplate"
        spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        raise BadQuestion(at, "there is no Job in it")
    meta = meta_of(manifest)
    kept = {name: meta[name] for name in ("name", "labels", "annotations") if name in meta}
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": kept, "spec": spec}


def completed(
    manifest: Manifest, *, view: ReviewView, plugins: Collection[str] = PLUGINS
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """A Job as admission would leave it, with an identity of its own, and everything that admission would refuse."""
    meta = {key: value for key, value in meta_of(manifest).items() if key in ("name", "labels", "annotations")}
    meta = {"name": view.name, **meta, "namespace": view.namespace, "uid": view.uid, "creationTimestamp": view.created}
    head = {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": meta, "spec": manifest.get("spec") or {}}
    try:
        job = default_job(Job.model_validate(head))
    except ValidationError as error:
        return head, tuple(of_reading(error))
    return job.to_json(), tuple(validate_job(job, plugins=plugins))


def viewed(manifest: Manifest, *, projections: Projections) -> JobView:
    """The Job as rules see it; raises BadQuestion."""
    try:
        return projections.job(msgspec.json.encode(manifest))
    except (msgspec.MsgspecError, TypeError) as error:
        raise BadQuestion("spec.manifest", str(error)) from error
