"""The client of Volcano Federation: submit Jobs and JobFlows to a hub, see what becomes of them, and why.

    async with Federation.from_kubeconfig() as fed:
        job = await fed.submit(Job("train", "busybox:1.36", command="echo hello", cpu="100m"))
        await fed.wait(job, check=True)

`volcano_federation.sync.Federation` is the same without await. It needs nothing of the federation's own packages.
"""

from __future__ import annotations

from volcano_federation.errors import (
    AlreadyExists,
    ApiError,
    BadKubeconfig,
    BadManifest,
    Conflict,
    Expired,
    Failed,
    FederationError,
    Invalid,
    NoAnswer,
    NotAllowed,
    NotEnded,
    NotFound,
    Unreachable,
)
from volcano_federation.federation import Federation
from volcano_federation.kubeconfig import Place
from volcano_federation.logs import Line
from volcano_federation.nouns import Job, Workload
from volcano_federation.reviewing import Answer
from volcano_federation.watching import Event

__all__ = [
    "AlreadyExists",
    "Answer",
    "ApiError",
    "BadKubeconfig",
    "BadManifest",
    "Conflict",
    "Event",
    "Expired",
    "Failed",
    "Federation",
    "FederationError",
    "Invalid",
    "Job",
    "Line",
    "NoAnswer",
    "NotAllowed",
    "NotEnded",
    "NotFound",
    "Place",
    "Unreachable",
    "Workload",
]
