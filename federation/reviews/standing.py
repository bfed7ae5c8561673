"""A Job that is there: what its objects say about it. Only one that waits is asked about; the others are explained by what was
recorded when it was decided. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from apis import keys
from apis.runs import PartState
from policies import verdicts
from policies.verdicts import Decision, Outcome
from policies.views import BindingView, JobView, Projections


@dataclass(frozen=True, slots=True)
class Standing:
    """A Job, its binding, and the decision that the binding records."""

    job: JobView
    manifest: Mapping[str, Any]
    binding: BindingView | None = None
    decision: Decision | None = None

    @property
    def ended(self) -> str:
        """Its terminal phase, or ""."""
        if self.binding is not None and self.binding.ended:
            return self.binding.ended
        return self.job.phase if self.job.ended else ""

    @property
    def refused(self) -> bool:
        """It was refused, or ended where it waited."""
        return self.decision is not None and self.decision.outcome is Outcome.REFUSED

    @property
    def runs(self) -> bool:
        """A part of it is granted to a cluster."""
        return bool(self.parts)

    @property
    def started(self) -> bool:
        """A pod of it has run, as far as its status says."""
        return self.job.status.started

    @property
    def parts(self) -> Mapping[str, int]:
        """Pods by cluster, of parts that are not gone."""
        run = self.binding.run if self.binding is not None else None
        if run is None or self.ended:
            return {}
        whole = self.job.gang.replicas if self.job.gang is not None else 0
        return {
            cluster: sum(share.replicas for share in part.shares.values()) if part.shares else whole
            for cluster, part in sorted(run.parts.items())
            if part.state is not PartState.GONE
        }

    @property
    def held(self) -> bool:
        """It waits until somebody resumes it."""
        run = self.binding.run if self.binding is not None else None
        return run is not None and run.held is not None

    def scene(self) -> Mapping[str, Any]:
        """The manifest to plan with: one that is held says so, whoever holds it."""
        if not self.held:
            return self.manifest
        meta = dict(self.manifest.get("metadata") or {})
        meta["annotations"] = {**(meta.get("annotations") or {}), keys.SUSPEND: "true"}
        return {**self.manifest, "metadata": meta}


def standing(job: bytes, binding: bytes | None, *, projections: Projections) -> Standing:
    """What the documents of a Job and its binding say; a binding of another Job of that name counts as none."""
    view = projections.job(job)
    manifest = msgspec.json.decode(job)
    meta = {key: value for key, value in manifest.get("metadata", {}).items() if key != "managedFields"}
    manifest = {**manifest, "metadata": meta}
    manifest.pop("status", None)
    known = projections.binding(binding) if binding is not None else None
    if known is None or binding is None or known.job_uid != view.uid:
        return Standing(view, manifest)
    notes = msgspec.json.decode(binding).get("metadata", {}).get("annotations") or {}
    return Standing(view, manifest, known, verdicts.decode(notes.get(keys.VERDICTS, "")))
