"""Claims, volumes, storage classes and what drivers attach, as the scheduler keeps them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity, parse
from machinery.port import Document
from member_agent.views.meta import Meta, Named, Wire
from policies.neighbours import Expression, LabelSelector, expressions, requirements
from policies.selectors import NEVER, Requirement
from policies.volumes import Reach

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation by which a scheduler tells a provisioner where the first consumer goes."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of volumes: not their owner but a program chose the claim."""
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of volumes that nodes must have too; several values are joined by `__`."""


@dataclass(frozen=True, slots=True)
class ClaimView(Named):
    """A PersistentVolumeClaim. `size` in milli bytes; `volume`: the one it names, `bound` when that is settled."""

    storage_class: str = ""
    size: int = 0
    modes: tuple[str, ...] = ()
    block: bool = False
    labels: tuple[Requirement, ...] = ()
    volume: str = ""
    bound: bool = False
    lost: bool = False
    deleting: bool = False
    selected_node: str = ""


@dataclass(frozen=True, slots=True)
class VolumeView(Named):
    """A PersistentVolume. `claim`: namespace, name and UID of the claim that has it; `driver` and `handle` where a CSI driver
    attaches it."""

    storage_class: str = ""
    size: int = 0
    modes: tuple[str, ...] = ()
    block: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    reach: Reach = ()
    zones: tuple[Reach, ...] = ()
    claim: tuple[str, str, str] = ("", "", "")
    deleting: bool = False
    phase: str = ""
    driver: str = ""
    handle: str = ""


@dataclass(frozen=True, slots=True)
class StorageClassView(Named):
    """A StorageClass: whether it waits for the first consumer, who makes volumes, and where."""

    waits: bool = False
    provisioner: str = ""
    reach: Reach = ()
    default: bool = False


@dataclass(frozen=True, slots=True)
class AttachLimits(Named):
    """A CSINode: how many volumes of a driver its node takes; drivers without a limit are left out."""

    counts: tuple[tuple[str, int], ...] = ()


class _Resources(Wire, frozen=True):
    requests: dict[str, Any] | None = None


class _ClaimSpec(Wire, frozen=True):
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_name: str = ""
    selector: LabelSelector | None = None
    resources: _Resources = _Resources()


class _Status(Wire, frozen=True):
    phase: str = ""


class _Claim(Wire, frozen=True):
    metadata: Meta
    spec: _ClaimSpec = _ClaimSpec()
    status: _Status = _Status()


class _Term(Wire, frozen=True):
    match_expressions: list[Expression] | None = None


class _Required(Wire, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _Affinity(Wire, frozen=True):
    required: _Required | None = None


class _Reference(Wire, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Csi(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class _VolumeSpec(Wire, frozen=True):
    storage_class_name: str = ""
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    capacity: dict[str, Any] | None = None
    node_affinity: _Affinity | None = None
    claim_ref: _Reference | None = None
    csi: _Csi | None = None


class _Volume(Wire, frozen=True):
    metadata: Meta
    spec: _VolumeSpec = _VolumeSpec()
    status: _Status = _Status()


class _Allowed(Wire, frozen=True):
    match_label_expressions: list[Expression] | None = None


class _StorageClass(Wire, frozen=True):
    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_Allowed] | None = None


class _Count(Wire, frozen=True):
    count: int | None = None


class _Driver(Wire, frozen=True):
    name: str = ""
    allocatable: _Count | None = None


class _CsiSpec(Wire, frozen=True):
    drivers: list[_Driver] | None = None


class _CsiNode(Wire, frozen=True):
    metadata: Meta
    spec: _CsiSpec = _CsiSpec()


_claim = msgspec.json.Decoder(_Claim).decode
_volume = msgspec.json.Decoder(_Volume).decode
_storage_class = msgspec.json.Decoder(_StorageClass).decode
_csi_node = msgspec.json.Decoder(_CsiNode).decode


def project_claim(document: Document) -> ClaimView:
    """A claim as the agent keeps it; an amount that cannot be read counts as none."""
    read = _claim(document)
    meta, spec = read.metadata, read.spec
    bound = bool(spec.volume_name) and (read.status.phase == "Bound" or bool(meta.annotation(BIND_COMPLETED)))
    return ClaimView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        storage_class=meta.annotation(OLD_CLASS) or spec.storage_class_name or "",
        size=_size((spec.resources.requests or {}).get("storage")),
        modes=tuple(sorted(spec.access_modes or ())),
        block=spec.volume_mode == "Block",
        labels=requirements(spec.selector) or (),
        volume=spec.volume_name,
        bound=bound,
        lost=read.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        selected_node=meta.annotation(SELECTED_NODE),
    )


def project_volume(document: Document) -> VolumeView:
    """A volume as the agent keeps it; an amount that cannot be read counts as none."""
    read = _volume(document)
    meta, spec = read.metadata, read.spec
    claim, csi = spec.claim_ref or _Reference(), spec.csi or _Csi()
    return VolumeView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        storage_class=meta.annotation(OLD_CLASS) or spec.storage_class_name,
        size=_size((spec.capacity or {}).get("storage")),
        modes=tuple(sorted(spec.access_modes or ())),
        block=spec.volume_mode == "Block",
        labels=tuple(sorted((meta.labels or {}).items())),
        reach=_reach(spec.node_affinity),
        zones=_zones(meta.labels or {}),
        claim=(claim.namespace, claim.name, claim.uid),
        deleting=meta.deletion_timestamp is not None,
        phase=read.status.phase,
        driver=csi.driver,
        handle=csi.volume_handle,
    )


def project_storage_class(document: Document) -> StorageClassView:
    """A storage class as the agent keeps it."""
    read = _storage_class(document)
    meta = read.metadata
    return StorageClassView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        waits=read.volume_binding_mode == "WaitForFirstConsumer",
        provisioner=read.provisioner,
        # An allowed topology lists key and values alone: the operator is In.
        reach=tuple(
            tuple(Requirement(each.key, "In", tuple(each.values or ())) for each in allowed.match_label_expressions or ())
            for allowed in read.allowed_topologies or ()
        ),
        default=meta.annotation(DEFAULT_CLASS) == "true",
    )


def project_attach_limits(document: Document) -> AttachLimits:
    """What of a CSINode limits its node."""
    read = _csi_node(document)
    meta = read.metadata
    counts = ((each.name, each.allocatable.count) for each in read.spec.drivers or () if each.allocatable is not None)
    limited = tuple(sorted((name, count) for name, count in counts if count is not None))
    return AttachLimits("", meta.name, meta.uid, meta.resource_version, limited)


def _size(text: Any) -> int:
    try:
        return parse(text).milli if text is not None else 0
    except InvalidQuantity:
        return 0


def _reach(affinity: _Affinity | None) -> Reach:
    required = affinity.required if affinity is not None else None
    terms = (required.node_selector_terms if required is not None else None) or ()
    return tuple(expressions(term.match_expressions) or (Requirement("", NEVER),) for term in terms)


def _zones(labels: Mapping[str, str]) -> tuple[Reach, ...]:
    return tuple(((Requirement(key, "In", tuple(sorted(labels[key].split("__")))),),) for key in ZONES if key in labels)
