"""`Federation`: what a data scientist does with a hub, from a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

from volcano_federation import kubeconfig, logs, manifests, nouns, reviewing, watching
from volcano_federation.errors import ApiError, BadManifest, Failed, FederationError, NotEnded, NotFound
from volcano_federation.kubeconfig import Place
from volcano_federation.logs import Asked, Line
from volcano_federation.manifests import Manifest
from volcano_federation.merging import merged
from volcano_federation.nouns import COMMAND, FLOW, JOB, KNOWN, SUSPEND, Doc, Kind, Ref, Workload
from volcano_federation.reviewing import Answer
from volcano_federation.transport import MERGE, Door, Sleep
from volcano_federation.watching import Event

PAGE: Final = 500
"""Objects of one page of a list."""
STOPPED: Final = frozenset({"Aborted", "Aborting"})
Target = Workload | str
"""What was submitted, or its name: `NAME` and `job/NAME` are Jobs, `flow/NAME` is a flow."""


class Federation:
    """One hub. Use it in `async with`; every method raises errors of `volcano_federation.errors` that name their object.

    `namespace` of a method is that of a name; what was submitted knows its own. `sleep` lets seconds pass between two looks.
    """

    def __init__(self, place: Place, *, sleep: Sleep = asyncio.sleep) -> None:
        self.namespace = place.namespace
        self._door = Door(place, sleep=sleep)
        self._sleep = sleep

    @classmethod
    def from_kubeconfig(
        cls, path: str | os.PathLike[str] | None = None, *, context: str | None = None, namespace: str | None = None
    ) -> Self:
        """By a context of a kubeconfig: None for what kubectl would take."""
        return cls(kubeconfig.read(path, context=context, namespace=namespace))

    @classmethod
    def in_cluster(cls) -> Self:
        """From a pod in the hub's cluster, by its ServiceAccount."""
        return cls(kubeconfig.in_cluster())

    async def __aenter__(self) -> Self:
        await self._door.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._door.close()

    # --- submit ------------------------------------------------------------------------------------------------------

    async def submit(self, manifest: Manifest, *, namespace: str | None = None) -> Workload:
        """Make the objects of a manifest; the one Job or JobFlow that they are about. As `submit_all`."""
        found = manifests.documents(manifest)
        at = manifests.main(found)
        made = await self.submit_all(found, namespace=namespace)
        return nouns.workload(made[at], KNOWN[(found[at]["apiVersion"], found[at]["kind"])])

    async def submit_all(self, manifest: Manifest, *, namespace: str | None = None) -> list[Doc]:
        """Make the objects of a manifest, as they were made. All are tried first, so that a mistake in the last keeps the first
        from being made; a field that the hub does not know is a mistake."""
        found = manifests.documents(manifest)
        kinds = [await self._kind(each) for each in found]
        for document, kind in zip(found, kinds, strict=True):
            await self._make(document, kind, namespace, dry=True)
        return [await self._make(document, kind, namespace, dry=False) for document, kind in zip(found, kinds, strict=True)]

    async def _make(self, document: Doc, kind: Kind, namespace: str | None, *, dry: bool) -> Doc:
        where = str(document["metadata"].get("namespace") or namespace or self.namespace)
        about = f"{kind.kind} {where}/{manifests.name_of(document)}"
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry else {})}
        return await self._door.ask("POST", kind.path(namespace=where), about=about, query=query, body=document)

    async def _kind(self, document: Doc) -> Kind:
        version, kind = document["apiVersion"], document["kind"]
        if (version, kind) in KNOWN:
            return KNOWN[(version, kind)]
        about = f"{kind} {manifests.name_of(document)}"
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = await self._door.ask("GET", path, about=about)
        except NotFound:
            listed = {}
        for each in listed.get("resources") or ():
            if each["kind"] == kind and "/" not in each["name"]:
                group, _, short = version.rpartition("/")
                return Kind(group, short, kind, each["name"], namespaced=each["namespaced"])
        raise BadManifest(f"this hub does not serve {version} {kind}", about=about, reason="NotServed")

    # --- look --------------------------------------------------------------------------------------------------------

    async def get(self, target: Target, *, namespace: str | None = None) -> Workload:
        """As it is now."""
        ref = self._ref(target, namespace)
        return nouns.workload(await self._door.ask("GET", ref.path, about=str(ref)), ref.kind)

    async def list(
        self,
        what: Literal["jobs", "flows"] = "jobs",
        *,
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
    ) -> list[Workload]:
        """All of a namespace, or of all that one may see; `labels`: a selector as kubectl takes it."""
        kind = JOB if what == "jobs" else FLOW
        path = kind.path(namespace="" if everywhere else namespace or self.namespace)
        found: list[Workload] = []
        token = ""
        while True:
            asked = {"limit": str(PAGE), "labelSelector": labels, "continue": token}
            query = {name: value for name, value in asked.items() if value}
            page = await self._door.ask("GET", path, about=f"{kind.kind}s", query=query)
            found += [nouns.workload(each, kind) for each in page.get("items") or ()]
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return found

    async def watch(self, target: Target, *, namespace: str | None = None) -> AsyncGenerator[Event, None]:
        """As it is, and every change, until it has ended or is deleted."""
        ref = self._ref(target, namespace)
        async with contextlib.aclosing(watching.watch(self._door, ref, sleep=self._sleep)) as events:
            async for event in events:
                yield event
                if event.object.ended:
                    return

    async def wait(
        self, target: Target, *, timeout: float | None = None, check: bool = False, namespace: str | None = None
    ) -> Workload:
        """As it has ended. `timeout`: seconds, then NotEnded; it goes on. `check`: Failed is raised unless it ended well.
        NotFound when it is deleted."""
        ref = self._ref(target, namespace)
        last = None
        try:
            last = await self.get(target, namespace=namespace)
            async with asyncio.timeout(None if last.ended else timeout):
                async with contextlib.aclosing(self.watch(target, namespace=namespace)) as events:
                    async for event in events:
                        last = event.object
                        if event.change == "Deleted" and not last.ended:
                            raise NotFound("it was deleted", about=str(ref), reason="NotFound", code=404)
        except TimeoutError:
            phase = last.phase if last is not None else "Unknown"
            raise NotEnded(f"it is {phase} after {timeout:g} s, and goes on", about=str(ref), reason=phase) from None
        if check and not last.succeeded:
            raise Failed(
                f"it is {last.phase}" + (f": {last.message}" if last.message else ""), about=str(ref), reason=last.phase
            )
        return last

    async def logs(
        self,
        target: Target,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: int | None = None,
        task: str = "",
        pod: str = "",
        container: str = "",
        previous: bool = False,
        namespace: str | None = None,
    ) -> AsyncGenerator[Line, None]:
        """What its pods print, in all clusters. `follow`: to the end of the Job, or of the flow with all its Jobs; `tail`:
        lines of each container; `since`: seconds back. Of a flow: every Job after the other, or all together when followed.
        Needs the channel of the hub: NotFound where it is not set up."""
        ref = self._ref(target, namespace)
        asked = Asked(follow, tail, since, task, pod, container, previous)
        if ref.kind == JOB:
            lines = logs.read(self._door, ref, asked, sleep=self._sleep)
        elif follow:
            lines = merged(self._flow(ref), lambda job: logs.read(self._door, job, asked, sleep=self._sleep))
        else:
            lines = self._flow_logs(ref, asked)
        async with contextlib.aclosing(lines):
            async for line in lines:
                yield line

    async def _flow_logs(self, ref: Ref, asked: Asked) -> AsyncGenerator[Line, None]:
        for job in await self._jobs(await self.get(f"flow/{ref.name}", namespace=ref.namespace)):
            try:
                async with contextlib.aclosing(logs.read(self._door, job, asked, sleep=self._sleep)) as lines:
                    async for line in lines:
                        yield line
            except ApiError as error:
                # One step that waits, and so has no pods, hides none of the others.
                if error.code not in (409, 422):
                    raise
                yield Line(job.name, "", "", "", error.message, notice=True)

    async def _flow(self, ref: Ref) -> AsyncGenerator[Ref, None]:
        """Jobs of a flow, each as soon as it is there, to the end of the flow."""
        known: set[str] = set()
        async with contextlib.aclosing(self.watch(f"flow/{ref.name}", namespace=ref.namespace)) as events:
            async for event in events:
                for job in await self._jobs(event.object):
                    if job.name not in known:
                        known.add(job.name)
                        yield job

    async def _jobs(self, flow: Workload) -> Sequence[Ref]:
        found = await self.list("jobs", namespace=flow.namespace)
        owned = [
            each
            for each in found
            if any(_owns(flow, owner) for owner in each.document["metadata"].get("ownerReferences") or ())
        ]
        return sorted((Ref(JOB, each.namespace, each.name) for each in owned), key=str)

    # --- ask ---------------------------------------------------------------------------------------------------------

    async def plan(
        self, manifest: Manifest, *, relax: Sequence[Mapping[str, Any]] = (), suggest: bool = True, namespace: str | None = None
    ) -> Answer:
        """What would become of a Job, JobFlow, CronJob or JobTemplate; nothing of it is made. `relax`: changes to plan it with,
        as {"change": "Queue", "to": "research"}; `suggest`: look for the cheapest change that would start it."""
        asked = manifests.question(manifests.documents(manifest))
        spec = {"manifest": asked.document, "suggest": suggest, **reviewing.changes(relax)}
        spec |= {"templates": [*asked.templates]} if asked.templates else {}
        about = f"{asked.document['kind']} {manifests.name_of(asked.document)}"
        where = str(asked.document["metadata"].get("namespace") or namespace or self.namespace)
        return await reviewing.ask(self._door, spec, namespace=where, about=about, sleep=self._sleep)

    async def explain(self, target: Target, *, relax: Sequence[Mapping[str, Any]] = (), namespace: str | None = None) -> Answer:
        """Why a Job runs where it runs, why it waits and what would start it, or how it ended."""
        ref = self._ref(target, namespace)
        if ref.kind != JOB:
            raise BadManifest("Jobs are explained; a flow is planned", about=str(ref))
        spec = {"job": ref.name, **reviewing.changes(relax)}
        answer = await reviewing.ask(self._door, spec, namespace=ref.namespace, about=str(ref), sleep=self._sleep)
        if answer.reason == "NotFound":
            raise NotFound("it does not exist", about=str(ref), reason="NotFound", code=404)
        return answer

    # --- order -------------------------------------------------------------------------------------------------------

    async def suspend(self, target: Target, *, namespace: str | None = None) -> Workload:
        """Stop and hold: the pods of a Job end and it waits, a flow begins no more steps."""
        ref = self._ref(target, namespace)
        if ref.kind == FLOW:
            return await self._patch(ref, {"spec": {"suspend": True}})
        return await self._patch(ref, {"metadata": {"annotations": {SUSPEND: "true"}}})

    async def resume(self, target: Target, *, namespace: str | None = None) -> Workload:
        """Let what was suspended or aborted go on."""
        ref = self._ref(target, namespace)
        if ref.kind == FLOW:
            return await self._patch(ref, {"spec": {"suspend": False}})
        change: Doc = {"metadata": {"annotations": {SUSPEND: None}}}
        if (await self.get(target, namespace=namespace)).document.get("spec", {}).get("suspend"):
            change["spec"] = {"suspend": False}
        job = await self._patch(ref, change)
        if job.phase in STOPPED:
            await self._command(job, "ResumeJob")
        return job

    async def _patch(self, ref: Ref, change: Doc) -> Workload:
        kept = nouns.workload(await self._door.ask("PATCH", ref.path, about=str(ref), body=change, content=MERGE), ref.kind)
        wanted = change.get("spec", {}).get("suspend")
        if wanted is not None and bool(kept.document["spec"].get("suspend")) is not wanted:
            raise FederationError("this hub knows no spec.suspend: its CRD is another's", about=str(ref), reason="NotServed")
        return kept

    async def _command(self, job: Workload, action: str) -> None:
        target = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": job.name, "uid": job.uid, "controller": True}
        metadata = {"generateName": f"{job.name[:40]}-{action.lower()}-", "ownerReferences": [target]}
        body = {
            "apiVersion": COMMAND.api_version,
            "kind": COMMAND.kind,
            "metadata": metadata,
            "action": action,
            "target": target,
        }
        await self._door.ask("POST", COMMAND.path(namespace=job.namespace), about=str(job), body=body)

    async def delete(self, target: Target, *, wait: bool = True, namespace: str | None = None) -> None:
        """Delete it. `wait`: until it is gone everywhere; the hub keeps it until its members have confirmed."""
        ref = self._ref(target, namespace)
        body: Doc = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if isinstance(target, Workload) and target.uid:
            body |= {"preconditions": {"uid": target.uid}}
        await self._door.ask("DELETE", ref.path, about=str(ref), body=body)
        if not wait:
            return
        with contextlib.suppress(NotFound):
            async with contextlib.aclosing(watching.watch(self._door, ref, sleep=self._sleep)) as events:
                async for event in events:
                    if isinstance(target, Workload) and event.object.uid != target.uid:
                        return

    def _ref(self, target: Target, namespace: str | None) -> Ref:
        return nouns.ref(target, namespace=namespace or self.namespace)


def _owns(flow: Workload, owner: Mapping[str, Any]) -> bool:
    return bool(owner.get("controller")) and owner.get("uid") == flow.uid
