"""Pods that are not there yet, as documents made from their templates: read as any pod is, they have all that decides where
they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apis import keys
from machinery.port import Document


def draft(
    template: Mapping[str, Any], *, job: str, task: str, namespace: str, queue: str, group: str, uid: str, **spec: Any
) -> Document:
    """A pod of a Job's task as its controller makes it, with what of labels and annotations pods of other Jobs may speak of;
    `spec`: what is not in the template. Raises AttributeError and TypeError for a template that is none."""
    meta = template.get("metadata") or {}
    labels = {keys.JOB_NAME: job, keys.JOB_NAMESPACE: namespace, keys.QUEUE_NAME: queue, keys.TASK_SPEC: task}
    notes = {keys.TASK_SPEC: task, keys.QUEUE_NAME: queue, keys.GROUP_NAME: group}
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"{group}-{task}",
                "namespace": namespace,
                "uid": f"{uid}/{task}",
                "labels": {**(meta.get("labels") or {}), **labels},
                "annotations": {**(meta.get("annotations") or {}), **notes},
            },
            "spec": {**(template.get("spec") or {}), **spec},
            "status": {"phase": "Pending"},
        }
    )


def drafts(document: Document, *, queue: str) -> list[Document]:
    """One pod of each task of a Job, in their order. Raises as `draft`, and what its decoder raises."""
    body: dict[str, Any] = msgspec.json.decode(document)
    meta, spec = body["metadata"], body.get("spec") or {}
    return [
        draft(
            task.get("template") or {},
            job=meta["name"],
            task=task.get("name") or f"default{index}",
            namespace=meta.get("namespace", ""),
            queue=queue,
            group=meta["name"],
            uid=meta.get("uid", ""),
        )
        for index, task in enumerate(spec.get("tasks") or [])
    ]
