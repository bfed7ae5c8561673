"""The admission policy that keeps the stamp of a review true: by the API server itself, also while no webhook answers.

Who has no webhooks writes his own name into `spec.creator`; another's is refused. A review is not changed once it is there:
its answer would be one to a question that its creator never asked.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from apis import kinds
from machinery.errors import ApiError
from machinery.port import PatchType, Port

log = logging.getLogger(__name__)

NAME: Final = "review-creator.volcano-federation.io"
MANAGER: Final = "volcano-federation"

_STAMP: Final = "object.spec.creator"
_OWN: Final = (
    f"!has({_STAMP}) || ({_STAMP}.username == request.userInfo.username"
    f" && (!has({_STAMP}.groups) || {_STAMP}.groups == request.userInfo.groups))"
)


def policy() -> dict[str, Any]:
    """The ValidatingAdmissionPolicy."""
    kind = kinds.PLACEMENT_REVIEW
    return {
        "apiVersion": kinds.ADMISSION_POLICY.api_version,
        "kind": kinds.ADMISSION_POLICY.kind,
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [kind.group],
                        "apiVersions": [kind.version],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [kind.plural],
                    }
                ]
            },
            "validations": [
                {
                    "expression": f"request.operation != 'CREATE' || {_OWN}",
                    "message": "spec.creator is whoever creates the review, nobody else",
                },
                {
                    "expression": "request.operation != 'UPDATE' || object.spec == oldObject.spec",
                    "message": "a review is asked once: make another one",
                },
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


async def apply(port: Port) -> bool:
    """Put both in place; False where that cannot be done: then nobody vouches for a stamp, and reviews are refused."""
    try:
        for kind, body in ((kinds.ADMISSION_POLICY, policy()), (kinds.ADMISSION_POLICY_BINDING, binding())):
            await port.patch(kind, NAME, body, type=PatchType.APPLY, field_manager=MANAGER)
    except ApiError as error:
        log.warning("the admission policy that guards the creators of reviews is not in place: %s", error)
        return False
    return True


async def present(port: Port) -> bool:
    """Whether somebody else (the chart) has put both in place."""
    try:
        for kind in (kinds.ADMISSION_POLICY, kinds.ADMISSION_POLICY_BINDING):
            await port.get(kind, NAME)
    except ApiError as error:
        log.warning("the admission policy that guards the creators of reviews is not there: %s", error)
        return False
    return True
