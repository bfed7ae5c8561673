"""How large a Job may be: what it is sent to a member as must fit into one object. Pure."""

from __future__ import annotations

from typing import Final

import orjson

from controllers.admission import documents
from controllers.admission.documents import Manifest
from controllers.admission.problems import Problem

LARGEST_JOB: Final = 1 << 20
"""Bytes: an object of 1.5 MiB is refused by etcd, and one of 1 MiB is copied into every watch of it."""
WRAPPING: Final = 16 << 10
"""Bytes that a Work puts around a Job: run record, marks, status with its conditions."""
_NOT_SENT: Final = ("managedFields", "ownerReferences", "finalizers")


def work_size(job: Manifest) -> int:
    """Bytes of the Work that would carry this Job; what the Job says of itself and the API server about it is not sent."""
    meta = {name: value for name, value in documents.mapping(job.get("metadata")).items() if name not in _NOT_SENT}
    sent = {**{name: value for name, value in job.items() if name != "status"}, "metadata": meta}
    return len(orjson.dumps(sent)) + WRAPPING


def size_problems(job: Manifest, *, most: int = LARGEST_JOB) -> list[Problem]:
    """Why a Job is too large to be sent anywhere."""
    size = work_size(job)
    if size <= most:
        return []
    return [
        Problem(
            "spec",
            f"its Work would be {size} bytes, more than {most}: keep scripts and data in a ConfigMap, an image or a volume",
        )
    ]
