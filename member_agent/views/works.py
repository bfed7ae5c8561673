"""Works as the agent keeps them: no manifest once the Work has an answer."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from apis import keys
from apis.runs import RunRecord, UnreadableRun, decode_record
from machinery.port import Document
from member_agent.views.meta import Condition, Meta, Wire, condition


class _Workload(Wire, frozen=True):
    manifests: list[msgspec.Raw] | None = None


class _WorkSpec(Wire, frozen=True):
    workload: _Workload = _Workload()
    suspend_dispatching: bool = False
    preserve_resources_on_deletion: bool = False


class ManifestStatus(Wire, frozen=True, omit_defaults=True):
    """One entry of `status.manifestStatuses`."""

    identifier: dict[str, Any] = {}
    status: dict[str, Any] | None = None
    health: str = ""


class _WorkStatus(Wire, frozen=True):
    conditions: list[Condition] | None = None
    manifest_statuses: list[ManifestStatus] | None = None


class _Work(Wire, frozen=True):
    metadata: Meta
    spec: _WorkSpec = _WorkSpec()
    status: _WorkStatus = _WorkStatus()


class _Head(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: Meta = Meta("")


@dataclass(frozen=True, slots=True)
class Target:
    """Which object a Work is about; all empty where the manifest cannot be read."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WorkView:
    """A Work of this member. `manifest` is kept only until the Work has an answer; `digest` names its bytes for ever.

    `record` is None, with `unreadable` saying why, where the run record cannot be read. `reported` is the digest of the
    status that was last written.
    """

    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool
    finalizers: tuple[str, ...]
    record: RunRecord | None
    unreadable: str
    suspended: bool
    target: Target
    manifest: bytes | None
    digest: str
    conditions: tuple[Condition, ...]
    reported: str
    reported_phase: str
    order: str = ""
    """The hub's order to this run, as it is written."""
    preserved: bool = False
    """What it brought stays when it is deleted; heeded for objects without a run."""

    @property
    def applied(self) -> bool:
        """The run was accepted and its Job made."""
        found = condition(self.conditions, "Applied")
        return found is not None and found.status == "True"

    @property
    def refusal(self) -> Condition | None:
        """The condition Applied=False, if there is one."""
        found = condition(self.conditions, "Applied")
        return found if found is not None and found.status == "False" else None

    @property
    def gone(self) -> bool:
        """The run is recorded as gone while the Work lives (protocol.md 2, A6)."""
        found = condition(self.conditions, "Gone")
        return found is not None and found.status == "True"


def digest(document: bytes) -> str:
    """A short name for some bytes."""
    return hashlib.blake2b(document, digest_size=8).hexdigest()


def status_digest(status: Mapping[str, Any] | None) -> str:
    """A short name for a status, whatever the order of its keys."""
    return digest(msgspec.json.encode(status or {}, order="deterministic"))


_work = msgspec.json.Decoder(_Work).decode
_head = msgspec.json.Decoder(_Head).decode


def _phase(status: Mapping[str, Any] | None) -> str:
    state = (status or {}).get("state")
    return str(state.get("phase", "")) if isinstance(state, dict) else ""


def _target(manifest: bytes) -> Target:
    try:
        head = _head(manifest)
    except msgspec.MsgspecError:
        return Target()
    meta = head.metadata
    return Target(sys.intern(head.api_version), sys.intern(head.kind), sys.intern(meta.namespace), meta.name)


def project_work(document: Document) -> WorkView:
    """A Work as the agent keeps it."""
    work = _work(document)
    meta, where = work.metadata, f"Work {work.metadata.namespace}/{work.metadata.name}"
    record, unreadable = None, ""
    try:
        record = decode_record(meta.annotation(keys.RUN) or "null", where=where)
    except UnreadableRun as error:
        unreadable = str(error)
    conditions = tuple(work.status.conditions or ())
    manifests = work.spec.workload.manifests or []
    manifest = bytes(manifests[0]) if manifests else b""
    answered = condition(conditions, "Applied") is not None
    statuses = work.status.manifest_statuses or []
    return WorkView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        finalizers=tuple(sys.intern(each) for each in meta.finalizers or ()),
        record=record,
        unreadable=unreadable,
        suspended=work.spec.suspend_dispatching,
        target=_target(manifest),
        manifest=None if answered else manifest,
        digest=digest(manifest),
        conditions=conditions,
        reported=status_digest(statuses[0].status if statuses else None),
        reported_phase=_phase(statuses[0].status if statuses else None),
        order=meta.annotation(keys.COMMAND),
        preserved=work.spec.preserve_resources_on_deletion,
    )
