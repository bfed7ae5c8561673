"""The admission policies that hold agents: they may renew their Lease and never change F (protocol.md 1), and set prices of
their own cluster alone."""

from __future__ import annotations

import logging
from typing import Any, Final

from apis import keys, kinds
from apis.kinds import Kind
from machinery.errors import ApiError
from machinery.port import PatchType, Port
from policies import joining

log = logging.getLogger(__name__)

AGENTS: Final = joining.AGENTS
"""Group that every agent's credential carries."""

ACCOUNTS: Final = f"system:serviceaccount:{keys.EXECUTION_NAMESPACE_PREFIX}"
"""Beginning of the names of agents whose credential is the token of a ServiceAccount, which carries no groups of ours."""

NAME: Final = "member-fence.volcano-federation.io"
OFFER: Final = "member-offer.volcano-federation.io"
MANAGER: Final = "volcano-federation"

_FENCE: Final = "(has({0}.spec.leaseTransitions) ? {0}.spec.leaseTransitions : 0)"


_AN_AGENT: Final = {
    "name": "an-agent",
    "expression": f"'{AGENTS}' in request.userInfo.groups || request.userInfo.username.startsWith('{ACCOUNTS}')",
}


def policy() -> dict[str, Any]:
    """The ValidatingAdmissionPolicy for Leases."""
    inside = f"request.namespace.startsWith('{keys.EXECUTION_NAMESPACE_PREFIX}')"
    unchanged = f"{_FENCE.format('object')} == {_FENCE.format('oldObject')}"
    return _policy(
        NAME,
        kinds.LEASE,
        conditions=[_AN_AGENT, {"name": "an-execution-namespace", "expression": inside}],
        expression=f"request.operation == 'UPDATE' && {unchanged}",
        message="spec.leaseTransitions is the fence number: only the hub creates this Lease and raises it",
    )


def offer_policy() -> dict[str, Any]:
    """The ValidatingAdmissionPolicy for price sheets: an agent speaks for the cluster that the offer is named after, which its
    rights hold it to."""
    return _policy(
        OFFER,
        kinds.CLUSTER_OFFER,
        conditions=[_AN_AGENT],
        expression="!has(object.spec.cluster) || object.spec.cluster == object.metadata.name",
        message="spec.cluster: an agent publishes the prices of its own cluster and of no other",
    )


def _policy(name: str, kind: Kind, *, conditions: list[dict[str, str]], expression: str, message: str) -> dict[str, Any]:
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
    }
    return {
        "apiVersion": kinds.ADMISSION_POLICY.api_version,
        "kind": kinds.ADMISSION_POLICY.kind,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": conditions,
            "validations": [{"expression": expression, "message": message}],
        },
    }


def binding(name: str = NAME) -> dict[str, Any]:
    """What puts a policy into force."""
    return {
        "apiVersion": kinds.ADMISSION_POLICY_BINDING.api_version,
        "kind": kinds.ADMISSION_POLICY_BINDING.kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


async def apply(port: Port) -> None:
    """Put all in place. An API server without admission policies, or one that does not let us, is served without: agents are
    then held by their roles alone, and the log says so."""
    policies = ((NAME, policy()), (OFFER, offer_policy()))
    try:
        for name, body in policies:
            for kind, each in ((kinds.ADMISSION_POLICY, body), (kinds.ADMISSION_POLICY_BINDING, binding(name))):
                await port.patch(kind, name, each, type=PatchType.APPLY, field_manager=MANAGER)
    except ApiError as error:
        log.warning("the admission policies that hold agents are not in place: %s", error)
