"""The rules of what says where Jobs go and what that costs: policies, overrides, quotas, taints, offers, profiles.

What is wrong with one of these is said by the rules that read it (`policies`); here it is asked for by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import orjson

from apis import kinds
from apis.kinds import Kind
from controllers.admission.documents import Manifest
from controllers.admission.problems import Problem
from policies import federated_quotas, offers, overrides, placements, policy_checks, profiles, tainting, views


def validate_placing(kind: Kind, document: Manifest) -> list[Problem]:
    """Everything wrong with an object of one of `webhooks.PLACING`."""
    try:
        found = _PROBLEMS[kind](orjson.dumps(document))
    except msgspec.MsgspecError as error:
        text, _, place = str(error).partition(" - at `$")
        return [Problem(place.rstrip("`").lstrip(".") or "spec", text)]
    return [Problem(each.field, each.message) for each in found]


def _propagation(document: bytes) -> Iterable[views.Problem]:
    return policy_checks.problems(placements.project_policy(document))


def _override(document: bytes) -> Iterable[views.Problem]:
    return overrides.problems(overrides.project_override(document))


def _taints(document: bytes) -> Iterable[views.Problem]:
    return tainting.problems(tainting.project_taint_policy(document))


_PROBLEMS: Final[Mapping[Kind, Callable[[bytes], Iterable[views.Problem]]]] = {
    kinds.PROPAGATION_POLICY: _propagation,
    kinds.CLUSTER_PROPAGATION_POLICY: _propagation,
    kinds.OVERRIDE_POLICY: _override,
    kinds.CLUSTER_OVERRIDE_POLICY: _override,
    kinds.CLUSTER_TAINT_POLICY: _taints,
    kinds.FEDERATED_RESOURCE_QUOTA: lambda document: federated_quotas.project_federated_quota(document).problems,
    kinds.CLUSTER_OFFER: lambda document: offers.project_offer(document).problems,
    kinds.PLACEMENT_PROFILE: lambda document: profiles.project_profile(document).problems,
}
