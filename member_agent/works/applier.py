"""The one writer of Works at the hub (status, and the removal of the finalizer) and of hub-run Jobs in the member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from apis import keys, kinds, runs
from machinery import errors
from machinery.port import Document, PatchType, Port, Preconditions, Propagation
from member_agent.views import JobView, PodView, WorkView
from member_agent.works.namespaces import Namespaces
from member_agent.works.remains import Trace, write
from member_agent.works.report import Status
from member_agent.works.upstream import translated
from member_agent.works.writers import Writers

PRUNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
)
"""Metadata of a manifest that means nothing in another cluster."""


class WorkApplier:
    """Writes to both API servers. Conflicts are raised: the caller looks again. `upstream`: Jobs are made for a Volcano."""

    def __init__(self, *, hub: Port, local: Port, upstream: bool = False, account: str = "") -> None:
        self._hub = hub
        self._local = local
        self._writers = Writers(local, account=account)
        self._upstream = upstream
        self._namespaces = Namespaces(local)

    # --- reading by quorum -------------------------------------------------------------------------------------------

    async def job(self, work: WorkView) -> Document | None:
        """The local Job of the manifest's name, or None when there certainly is none."""
        try:
            return await self._local.get(kinds.JOB, work.target.name, namespace=work.target.namespace)
        except errors.NotFound:
            return None

    async def same_job(self, job: JobView) -> Document | None:
        """This very Job as it is now, or None when it has gone or its name belongs to another."""
        try:
            document = await self._local.get(kinds.JOB, job.name, namespace=job.namespace)
        except errors.NotFound:
            return None
        return document if orjson.loads(document)["metadata"]["uid"] == job.uid else None

    async def has_node(self, name: str) -> bool:
        """Whether the member has a node of this name; False when it certainly has none."""
        try:
            await self._local.get(kinds.NODE, name)
        except errors.NotFound:
            return False
        return True

    async def pods(self, job: JobView) -> list[Document]:
        """Pods with the Job's name label; the caller keeps those that it controls."""
        found: list[Document] = []
        token = ""
        while True:
            page = await self._local.list(
                kinds.POD, namespace=job.namespace, labels=f"{keys.JOB_NAME}={job.name}", continue_token=token
            )
            found += page.items
            token = page.continue_token
            if not token:
                return found

    async def manifest(self, work: WorkView) -> bytes | None:
        """The Work's manifest as it is now; None when the Work has gone or changed hands."""
        try:
            document = orjson.loads(await self._hub.get(kinds.WORK, work.name, namespace=work.namespace))
        except errors.NotFound:
            return None
        if document["metadata"]["uid"] != work.uid:
            return None
        manifests = document["spec"].get("workload", {}).get("manifests") or [{}]
        return orjson.dumps(manifests[0])

    # --- the local Job -----------------------------------------------------------------------------------------------

    async def create(self, work: WorkView, manifest: bytes) -> Document:
        """Make the Job, and its namespace if it is missing. AlreadyExists is the caller's to judge; NotFound means that the
        kind is not served here."""
        namespace = work.target.namespace
        await self._namespaces.ensure(namespace)
        body, writer = self._body(work, manifest), self._writers.of(namespace)
        try:
            return await writer.create(kinds.JOB, body, namespace=namespace)
        except errors.NotFound:
            self._namespaces.forget(namespace)  # it may have been deleted since it was last seen
        await self._namespaces.ensure(namespace)
        return await writer.create(kinds.JOB, body, namespace=namespace)

    def _body(self, work: WorkView, manifest: bytes) -> dict[str, Any]:
        body = job_body(work, manifest)
        assert work.record is not None  # a Work without one is refused before anything is made of it
        return translated(body, work.record) if self._upstream else body

    async def update(self, work: WorkView, manifest: bytes) -> Document:
        """Bring the Job's spec in line with the manifest, keeping claims that local controllers filled in."""
        present = orjson.loads(await self._local.get(kinds.JOB, work.target.name, namespace=work.target.namespace))
        wanted = self._body(work, manifest)
        annotations = {**(present["metadata"].get("annotations") or {}), **wanted["metadata"]["annotations"]}
        present["metadata"]["annotations"] = annotations
        present["spec"] = keep_claims(wanted["spec"], present.get("spec") or {})
        writer = self._writers.of(work.target.namespace)
        return await writer.replace(kinds.JOB, work.target.name, present, namespace=work.target.namespace)

    async def annotate(self, job: JobView, annotations: Mapping[str, str]) -> Document:
        """Set annotations of the Job against the version they were decided on."""
        body = [_same(job.version)] + [
            {"op": "add", "path": f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}", "value": text}
            for name, text in annotations.items()
        ]
        return await self._local.patch(kinds.JOB, job.name, body, type=PatchType.JSON, namespace=job.namespace)

    async def adopt(self, work: WorkView, job: JobView) -> Document:
        """The Job belongs to this Work now."""
        return await self.annotate(
            job, {keys.WORK_UID: work.uid, keys.WORK_NAMESPACE: work.namespace, keys.WORK_NAME: work.name}
        )

    async def record(self, job: JobView, traces: Mapping[str, Trace]) -> Document:
        """Write which pods may run where."""
        return await self.annotate(job, {keys.RUN_NODES: write(traces)})

    async def let_go(self, job: JobView) -> Document:
        """The Job stays without our marks, against the version it was decided on."""
        marks = (keys.WORK_NAMESPACE, keys.WORK_NAME, keys.WORK_UID, keys.WORK_DIGEST, keys.RUN, keys.RUN_NODES)
        body = {
            "metadata": {
                "resourceVersion": job.version,
                "labels": {keys.MANAGED_LABEL: None},
                "annotations": dict.fromkeys(marks),
                "finalizers": _without(job.finalizers, keys.RUN_FINALIZER),
            }
        }
        return await self._local.patch(kinds.JOB, job.name, body, type=PatchType.MERGE, namespace=job.namespace)

    async def delete(self, job: JobView) -> None:
        """Mark the Job as being deleted; our finalizer keeps it until its pods are known to be gone."""
        try:
            await self._local.delete(
                kinds.JOB,
                job.name,
                namespace=job.namespace,
                preconditions=Preconditions(uid=job.uid),
                propagation=Propagation.BACKGROUND,
            )
        except (errors.NotFound, errors.Conflict):
            return

    async def release(self, job: JobView) -> None:
        """Remove our finalizer from the Job."""
        body = [
            _same(job.version),
            {"op": "replace", "path": "/metadata/finalizers", "value": _without(job.finalizers, keys.RUN_FINALIZER)},
        ]
        try:
            await self._local.patch(kinds.JOB, job.name, body, type=PatchType.JSON, namespace=job.namespace)
        except errors.NotFound:
            return

    async def stop(self, pods: Iterable[PodView]) -> bool:
        """Ask for pods to end. False when one that had no node was changed meanwhile: it must be looked at again.

        A pod without a node is deleted at the version that says so: gone then means never run.
        """
        sure = True
        for pod in pods:
            version = None if pod.node else pod.version
            try:
                await self._local.delete(
                    kinds.POD,
                    pod.name,
                    namespace=pod.namespace,
                    preconditions=Preconditions(uid=pod.uid, resource_version=version),
                )
            except errors.NotFound:
                continue
            except errors.Conflict:
                sure = False
        return sure

    # --- the Work ----------------------------------------------------------------------------------------------------

    async def report(self, work: WorkView, status: Status) -> Document:
        """Write the Work's status against the version it was made from."""
        body = [_same(work.version), {"op": "add", "path": "/status", "value": status.body(work)}]
        return await self._hub.patch(
            kinds.WORK, work.name, body, type=PatchType.JSON, namespace=work.namespace, subresource="status"
        )

    async def confirm(self, work: WorkView) -> None:
        """Remove the Work's finalizer: nothing of the run is left here."""
        body = [
            _same(work.version),
            {"op": "replace", "path": "/metadata/finalizers", "value": _without(work.finalizers, keys.WORK_FINALIZER)},
        ]
        try:
            await self._hub.patch(kinds.WORK, work.name, body, type=PatchType.JSON, namespace=work.namespace)
        except errors.NotFound:
            return


def _same(version: str) -> dict[str, Any]:
    """The operation by which a JSON patch fails with Conflict when somebody else wrote first."""
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": version}


def _without(finalizers: Iterable[str], one: str) -> list[str]:
    return [each for each in finalizers if each != one]


def job_body(work: WorkView, manifest: bytes) -> dict[str, Any]:
    """The Job as it is made here: the manifest, our marks, the run record; its time to live is kept by the hub."""
    assert work.record is not None
    body: dict[str, Any] = orjson.loads(manifest)
    body.pop("status", None)
    metadata = {name: value for name, value in body["metadata"].items() if name not in PRUNED}
    metadata["labels"] = {**(metadata.get("labels") or {}), keys.MANAGED_LABEL: "true"}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        keys.WORK_NAMESPACE: work.namespace,
        keys.WORK_NAME: work.name,
        keys.WORK_UID: work.uid,
        keys.WORK_DIGEST: work.digest,
        keys.RUN: runs.encode(work.record),
    }
    metadata["finalizers"] = [keys.RUN_FINALIZER]
    body["metadata"] = metadata
    body.get("spec", {}).pop("ttlSecondsAfterFinished", None)
    return body


def keep_claims(wanted: dict[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted spec with `volumes[*].volumeClaimName` as it was filled in here, by mount path."""
    filled = {each.get("mountPath"): each.get("volumeClaimName") for each in present.get("volumes") or []}
    volumes = []
    for each in wanted.get("volumes") or []:
        name = filled.get(each.get("mountPath"))
        volumes.append({**each, "volumeClaimName": name} if name and not each.get("volumeClaimName") else each)
    return {**wanted, "volumes": volumes} if volumes else wanted
