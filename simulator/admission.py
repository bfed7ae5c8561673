"""ValidatingAdmissionPolicies in the in-memory API server: what is stored and bound is enforced, by its own expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apis import kinds
from apis.kinds import Kind
from simulator.cel import CelError, compiled
from simulator.store import Collection, Doc


@dataclass(frozen=True, slots=True)
class User:
    """Whose request it is, as authentication found out."""

    name: str = "system:apiserver"
    groups: tuple[str, ...] = ()


def refusal(
    policies: Collection, bindings: Collection, *, user: User, kind: Kind, subresource: str, doc: Doc, old: Doc | None
) -> str:
    """Why a policy that is bound with Deny refuses this create (`old` None) or update; "" where none does."""
    operation = "CREATE" if old is None else "UPDATE"
    for stored in policies.scan(None):
        spec = stored.doc["spec"]
        if not _concerns(spec, kind=kind, subresource=subresource, operation=operation):
            continue
        env = {
            "object": doc,
            "oldObject": old,
            "request": {
                "operation": operation,
                "namespace": doc["metadata"].get("namespace", ""),
                "name": doc["metadata"].get("name", ""),
                "userInfo": {"username": user.name, "groups": [*user.groups]},
            },
        }
        for bound in _bound(bindings, stored.name):
            message = _denied(spec, env)
            if message:
                return f"ValidatingAdmissionPolicy '{stored.name}' with binding '{bound}' denied request: {message}"
    return ""


def _bound(bindings: Collection, policy: str) -> list[str]:
    return [
        stored.name
        for stored in bindings.scan(None)
        if stored.doc["spec"]["policyName"] == policy and "Deny" in stored.doc["spec"]["validationActions"]
    ]


def _concerns(spec: Doc, *, kind: Kind, subresource: str, operation: str) -> bool:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return any(
        _named(rule["apiGroups"], kind.group)
        and _named(rule["apiVersions"], kind.version)
        and _named(rule["operations"], operation)
        and _named(rule["resources"], resource)
        for rule in spec["matchConstraints"]["resourceRules"]
    )


def _named(names: Iterable[str], name: str) -> bool:
    return any(each in ("*", name) for each in names)


def _denied(spec: Doc, env: dict[str, Any]) -> str:
    """The message of the first validation that does not hold. What cannot be evaluated denies, unless Ignore is asked for."""
    try:
        if not all(compiled(each["expression"])(env) for each in spec.get("matchConditions") or ()):
            return ""
        for each in spec["validations"]:
            if not compiled(each["expression"])(env):
                return str(each.get("message") or f"failed expression: {each['expression']}")
    except CelError as error:
        return "" if spec.get("failurePolicy") == "Ignore" else f"expression resulted in error: {error}"
    return ""


POLICIES, BINDINGS = kinds.ADMISSION_POLICY, kinds.ADMISSION_POLICY_BINDING
