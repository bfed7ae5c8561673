"""Reviews as an API server sends them, and what the rules answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import jsonpatch
import orjson

from apis import kinds
from apis.kinds import Kind
from apis.scheduling import Queue
from controllers.admission import reviews, webhooks
from controllers.admission.facts import Facts
from controllers.admission.resource_groups import ResourceGroup
from controllers.admission.reviews import Rules
from controllers.admission.webhooks import HUB_KINDS, MEMBER_KINDS, Verb, Webhook

Doc = dict[str, Any]
GROUPS = tuple(
    ResourceGroup.model_validate(each)
    for each in (
        {
            "resourceGroup": "management",
            "object": {"key": "namespace", "value": ["mng-ns"]},
            "schedulerName": "default-scheduler",
            "labels": {"volcano.sh/nodetype": "management"},
        },
        {
            "resourceGroup": "cpu",
            "object": {"key": "annotation", "value": ["volcano.sh/resource-group: cpu"]},
            "schedulerName": "volcano",
            "labels": {"volcano.sh/nodetype": "cpu"},
            "affinity": "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}",
        },
        {
            "resourceGroup": "gpu",
            "schedulerName": "volcano",
            "labels": {"volcano.sh/nodetype": "gpu"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        {
            "resourceGroup": "custom",
            "object": {"key": "annotation", "value": ["example.com/pool: blue"]},
            "labels": {"pool": "blue"},
        },
    )
)
SERVED: Mapping[tuple[Kind, Verb], Webhook] = {
    (each.kind, each.verb): each for each in webhooks.served((*MEMBER_KINDS, *HUB_KINDS), groups=GROUPS, gates=True)
}


def facts(*queues: Queue, namespaces: Mapping[str, str] | None = None) -> Facts:
    """Other objects: these Queues beside the default one."""
    found = {"default": Queue.of("default", spec={"parent": "root"}), "root": Queue.of("root")}
    return Facts({**found, **{queue.metadata.name: queue for queue in queues}}, namespaces or {})


def review(kind: Kind, new: Doc | None, *, old: Doc | None = None, operation: str = "", uid: str = "u-1", **more: Any) -> bytes:
    """An AdmissionReview about one object."""
    meta = (new or old or {}).get("metadata") or {}
    meta = meta if isinstance(meta, dict) else {}
    request = {
        "uid": uid,
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "operation": operation or ("DELETE" if new is None else "UPDATE" if old is not None else "CREATE"),
        "namespace": meta.get("namespace", ""),
        "name": meta.get("name", ""),
        "object": new,
        "oldObject": old,
        **more,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def ask(
    kind: Kind, verb: Verb, new: Doc | None, *, old: Doc | None = None, known: Facts | None = None, rules: Rules | None = None
) -> Doc:
    """The response to one review."""
    webhook = SERVED[kind, verb]
    request = reviews.parse(review(kind, new, old=old), webhook=webhook)
    verdict = reviews.judge(request, webhook=webhook, facts=known or facts(), rules=rules or Rules(groups=GROUPS, gates=True))
    response: Doc = orjson.loads(reviews.answer(request, verdict=verdict))["response"]
    return response


def refusal(
    kind: Kind, new: Doc | None, *, old: Doc | None = None, known: Facts | None = None, rules: Rules | None = None
) -> str:
    """Why it is refused; "" when it is allowed."""
    response = ask(kind, Verb.VALIDATE, new, old=old, known=known, rules=rules)
    return "" if response["allowed"] else str(response["status"]["message"])


def completed(kind: Kind, new: Doc, *, known: Facts | None = None, rules: Rules | None = None) -> Doc:
    """The object after the patch of the mutating webhook."""
    response = ask(kind, Verb.MUTATE, new, known=known, rules=rules)
    assert response["allowed"] is True
    if "patch" not in response:
        return new
    assert response["patchType"] == "JSONPatch"
    patched: Doc = jsonpatch.apply_patch(new, orjson.loads(base64.b64decode(response["patch"])))
    return patched


def thing(
    kind: Kind, name: str = "a", *, namespace: str = "ns", annotations: dict[str, str] | None = None, **fields: Any
) -> Doc:
    """An object as a user writes it."""
    meta: Doc = {"name": name, **({"namespace": namespace} if kind.namespaced else {})}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **fields}


def pod(
    *, scheduler: str | None = "volcano", namespace: str = "ns", annotations: dict[str, str] | None = None, **spec: Any
) -> Doc:
    """A pod of one container."""
    body = {"containers": [{"name": "c", "image": "i"}], **({"schedulerName": scheduler} if scheduler else {}), **spec}
    return thing(kinds.POD, "p", namespace=namespace, annotations=annotations, spec=body)
