"""What the API server knows of each kind: its strategy, its defaults and what it refuses.

Sources: the strategies under `pkg/registry` of Kubernetes 1.36 (facts, not code), tried against a real API server by the
contract suite. Kinds served from CustomResourceDefinitions get their validators from `structural`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from apis import kinds
from apis.kinds import Kind
from apis.quantities import InvalidQuantity, parse
from machinery.errors import FieldCause
from simulator.store import Doc, is_custom

Validator = Callable[[Doc, Doc | None], list[FieldCause]]
"""Defaults a document in place (it is the caller's own) and says what is wrong with it, given what was there before."""


@dataclass(frozen=True, slots=True)
class Traits:
    """How a kind is written. `unconditional`: PUT without resourceVersion is taken; `create_on_put`: PUT may create."""

    status: bool
    custom: bool
    unconditional: bool
    create_on_put: bool
    generation: bool


_WORKLOADS = frozenset(
    {
        kinds.REPLICA_SET,
        kinds.STATEFUL_SET,
        kinds.DAEMON_SET,
        kinds.DEPLOYMENT,
        kinds.REPLICATION_CONTROLLER,
        kinds.BATCH_JOB,
        kinds.BATCH_CRON_JOB,
        kinds.SPARK_APPLICATION,
        kinds.FLINK_DEPLOYMENT,
        kinds.PYTORCH_JOB,
        kinds.TF_JOB,
        kinds.MPI_JOB,
        kinds.RAY_CLUSTER,
        kinds.RAY_JOB,
    }
)
_WITH_STATUS = _WORKLOADS | {
    kinds.SIGNING_REQUEST,
    kinds.POD,
    kinds.NODE,
    kinds.NAMESPACE,
    kinds.CRD,
    kinds.CLAIM,
    kinds.VOLUME,
    kinds.SERVICE,
}
_WITH_GENERATION = _WORKLOADS | {kinds.POD, kinds.CRD, kinds.NETWORK_POLICY}
_NO_STATUS = frozenset(
    {
        kinds.POD_GROUP,
        kinds.COMMAND,
        kinds.PROPAGATION_POLICY,
        kinds.CLUSTER_PROPAGATION_POLICY,
        kinds.OVERRIDE_POLICY,
        kinds.CLUSTER_OVERRIDE_POLICY,
        kinds.CLUSTER_TAINT_POLICY,
        kinds.INTERPRETER,
        kinds.CLUSTER_OFFER,
        kinds.PLACEMENT_PROFILE,
        kinds.USAGE_REPORT,
    }
)


@cache
def traits(kind: Kind) -> Traits:
    """The strategy of a kind, by table."""
    custom = is_custom(kind)
    return Traits(
        status=kind in _WITH_STATUS or (custom and kind not in _NO_STATUS),
        custom=custom,
        unconditional=not custom and kind not in {kinds.LEASE, kinds.CRD},
        create_on_put=kind in {kinds.LEASE, kinds.EVENT},
        generation=custom or kind in _WITH_GENERATION,
    )


@cache
def subresources(kind: Kind) -> frozenset[str | None]:
    """What of a kind can be written; None is the object itself."""
    extra = ("approval",) if kind == kinds.SIGNING_REQUEST else ()
    return frozenset((None, *(("status",) if traits(kind).status else ()), *extra))


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")


def check_metadata(kind: Kind, metadata: Doc) -> list[FieldCause]:
    """What is wrong with metadata that the caller wrote."""
    causes: list[FieldCause] = []
    name = metadata["name"]
    if kind == kinds.NAMESPACE:
        if not _LABEL.fullmatch(name) or len(name) > 63:
            causes.append(
                FieldCause(
                    "metadata.name",
                    f'Invalid value: "{name}": must be a lowercase RFC 1123 label',
                )
            )
    elif kind.group == kinds.ROLE.group:
        if name in (".", "..") or "/" in name or "%" in name:  # such names are segments of a path, and no more is asked of them
            causes.append(FieldCause("metadata.name", f"Invalid value: \"{name}\": may not contain '/' or '%'"))
    elif not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        causes.append(
            FieldCause(
                "metadata.name",
                f'Invalid value: "{name}": must be a lowercase RFC 1123 subdomain',
            )
        )
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key):
            causes.append(
                FieldCause("metadata.labels", f'Invalid value: "{key}": name part must consist of alphanumeric characters')
            )
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            causes.append(
                FieldCause(
                    "metadata.labels", f'Invalid value: "{value}": a valid label must be at most 63 alphanumeric characters'
                )
            )
    annotations = metadata.get("annotations") or {}
    if any(not isinstance(value, str) for value in annotations.values()):
        causes.append(FieldCause("metadata.annotations", "Invalid value: values must be strings"))
    elif sum(len(key) + len(value) for key, value in annotations.items()) > 256 * 1024:
        causes.append(FieldCause("metadata.annotations", "Too long: may not be more than 262144 bytes"))
    for index, owner in enumerate(metadata.get("ownerReferences") or []):
        causes += [
            FieldCause(f"metadata.ownerReferences[{index}].{name}", "Required value: must not be empty")
            for name in _OWNER_FIELDS
            if not owner.get(name)
        ]
    return causes


def _check_resources(resources: Doc, where: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            try:
                parse(amount)
            except InvalidQuantity as error:
                causes.append(FieldCause(f"{where}.{side}[{name}]", f"Invalid value: {error}"))
    if not causes:
        causes += [
            FieldCause(
                f"{where}.requests", f'Invalid value: "{amount}": must be less than or equal to {name} limit of {limits[name]}'
            )
            for name, amount in requests.items()
            if name in limits and parse(amount).milli > parse(limits[name]).milli
        ]
    return causes


_TOLERATED_SECONDS = 300
"""How long a pod stays by default on a node that is not ready (admission plugin DefaultTolerationSeconds)."""


def _default_container(container: Doc) -> None:
    image = str(container.get("image", ""))
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def _default_tolerations(spec: Doc) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerated = any(
            t.get("effect") in {None, "", "NoExecute"}
            and (t.get("key") == key or (not t.get("key") and t.get("operator") == "Exists"))
            for t in tolerations
        )
        if not tolerated:
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
            )


def _pod(doc: Doc, old: Doc | None) -> list[FieldCause]:
    spec = doc.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    containers = spec.get("containers") or []
    for container in (*(spec.get("initContainers") or []), *containers):
        _default_container(container)
    if old is None:
        _default_tolerations(spec)
        doc.setdefault("status", {}).setdefault("phase", "Pending")
    causes: list[FieldCause] = []
    if not containers:
        causes.append(FieldCause("spec.containers", "Required value"))
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"spec.containers[{index}]"
        causes += [FieldCause(f"{where}.{name}", "Required value") for name in ("name", "image") if not container.get(name)]
        if container.get("name") in seen:
            causes.append(FieldCause(f"{where}.name", f'Duplicate value: "{container["name"]}"'))
        seen.add(container.get("name", ""))
        causes += _check_resources(container["resources"], f"{where}.resources")
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        causes.append(
            FieldCause(
                "spec.restartPolicy",
                f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"',
            )
        )
    if old is not None and _frozen_spec(spec) != _frozen_spec(old["spec"]):
        causes.append(
            FieldCause(
                "spec",
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
                " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            )
        )
    return causes


def _frozen_spec(spec: Doc) -> Doc:
    """The part of a pod's spec that no update may change (gated pods apart)."""
    frozen = {
        name: value for name, value in spec.items() if name not in {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    }
    for field in ("containers", "initContainers"):
        frozen[field] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get(field) or []]
    return frozen


def _namespace(doc: Doc, old: Doc | None) -> list[FieldCause]:
    if old is None:
        doc["status"] = {"phase": "Active"}
    doc["spec"] = {"finalizers": ["kubernetes"]}
    labels = doc["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = doc["metadata"]["name"]
    return []


NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _node(doc: Doc, old: Doc | None) -> list[FieldCause]:
    spec = doc.setdefault("spec", {})
    if old is None:  # admission plugin TaintNodesByCondition
        taints = spec.setdefault("taints", [])
        if NOT_READY_TAINT not in taints:
            taints.append(dict(NOT_READY_TAINT))
    status = doc.get("status") or {}
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    return []


def _lease(doc: Doc, old: Doc | None) -> list[FieldCause]:
    spec = doc.get("spec") or {}
    causes = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(FieldCause("spec.leaseDurationSeconds", f"Invalid value: {duration}: must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(FieldCause("spec.leaseTransitions", f"Invalid value: {transitions}: must be greater than or equal to 0"))
    return causes


def _secret(doc: Doc, old: Doc | None) -> list[FieldCause]:
    doc.setdefault("type", "Opaque")
    return []


BUILTIN: dict[Kind, Validator] = {
    kinds.POD: _pod,
    kinds.NAMESPACE: _namespace,
    kinds.NODE: _node,
    kinds.LEASE: _lease,
    kinds.SECRET: _secret,
}
