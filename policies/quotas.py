"""What pods ask for in quota form: the names by which ResourceQuota counts (reference/volcano.md 1.7). Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from apis.vectors import MILLI, ResourceVector
from policies.shapes import PodTemplate, pod_limits, pod_requests

PODS: Final = "pods"
COUNTED: Final = "count/pods"
LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources whose limits a ResourceQuota can count; those of devices are their requests."""


def quota_form(requests: ResourceVector, *, limits: ResourceVector) -> ResourceVector:
    """One pod's effective requests and limits: each request by its own name and as `requests.<name>`, limits as
    `limits.<name>` where a quota knows them, and the pod itself as `pods` and `count/pods`."""
    plain = {name: amount for name, amount in requests.items() if name != PODS}
    return ResourceVector(
        {
            **plain,
            **{f"requests.{name}": amount for name, amount in plain.items()},
            **{f"limits.{name}": amount for name, amount in limits.items() if name in LIMITED},
            PODS: MILLI,
            COUNTED: MILLI,
        }
    )


def quota_of(template: Any) -> ResourceVector:
    """One pod of a template (or a pod), given as decoded JSON; raises ValueError where it cannot be read."""
    try:
        read = msgspec.convert(template, PodTemplate)
    except msgspec.ValidationError as error:
        raise ValueError(f"no pod template: {error}") from error
    return quota_form(pod_requests(read.spec), limits=pod_limits(read.spec))
