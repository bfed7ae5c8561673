"""The admission policy that keeps fence numbers the hub's own: agents may renew their Lease and never change F
(protocol.md 1)."""

from __future__ import annotations

import logging
from typing import Any, Final

from apis import keys, kinds
from machinery.errors import ApiError
from machinery.port import PatchType, Port

log = logging.getLogger(__name__)

AGENTS: Final = "volcano-federation:agents"
"""Group that every agent's credential carries."""

ACCOUNTS: Final = f"system:serviceaccount:{keys.EXECUTION_NAMESPACE_PREFIX}"
"""Beginning of the names of agents whose credential is the token of a ServiceAccount, which carries no groups of ours."""

NAME: Final = "member-fence.volcano-federation.io"
MANAGER: Final = "volcano-federation"

_FENCE: Final = "(has({0}.spec.leaseTransitions) ? {0}.spec.leaseTransitions : 0)"


def policy() -> dict[str, Any]:
    """The ValidatingAdmissionPolicy."""
    return {
        "apiVersion": kinds.ADMISSION_POLICY.api_version,
        "kind": kinds.ADMISSION_POLICY.kind,
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [kinds.LEASE.group],
                        "apiVersions": [kinds.LEASE.version],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [kinds.LEASE.plural],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "an-agent",
                    "expression": f"'{AGENTS}' in request.userInfo.groups || "
                    + f"request.userInfo.username.startsWith('{ACCOUNTS}')",
                },
                {
                    "name": "an-execution-namespace",
                    "expression": f"request.namespace.startsWith('{keys.EXECUTION_NAMESPACE_PREFIX}')",
                },
            ],
            "validations": [
                {
                    "expression": "request.operation == 'UPDATE' && "
                    + f"{_FENCE.format('object')} == {_FENCE.format('oldObject')}",
                    "message": "spec.leaseTransitions is the fence number: only the hub creates this Lease and raises it",
                }
            ],
        },
    }


def binding() -> dict[str, Any]:
    """What puts the policy into force."""
    return {
        "apiVersion": kinds.ADMISSION_POLICY_BINDING.api_version,
        "kind": kinds.ADMISSION_POLICY_BINDING.kind,
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }


async def apply(port: Port) -> None:
    """Put both in place. An API server without admission policies, or one that does not let us, is served without: agents are
    then held by their roles alone, and the log says so."""
    try:
        for kind, body in ((kinds.ADMISSION_POLICY, policy()), (kinds.ADMISSION_POLICY_BINDING, binding())):
            await port.patch(kind, NAME, body, type=PatchType.APPLY, field_manager=MANAGER)
    except ApiError as error:
        log.warning("the admission policy that guards fence numbers is not in place: %s", error)
