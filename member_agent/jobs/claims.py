"""The volumes of a Job: claims made for it or named by it, mounted in the containers of all its pods. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis import kinds
from member_agent.jobs.facts import Manifest
from member_agent.jobs.plugins import Child, Draft

LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX: Final = 12
LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Claim:
    """One entry of `spec.volumes`. `spec` is None where the claim must exist already."""

    name: str
    mount_path: str
    spec: Mapping[str, Any] | None


def claims_of(name: str, manifest: Mapping[str, Any], *, uid: str) -> Iterator[Claim]:
    """In the order of the manifest; a claim without a name gets one that is the same at every look."""
    for index, volume in enumerate((manifest.get("spec") or {}).get("volumes") or []):
        given = volume.get("volumeClaimName") or ""
        yield Claim(given or made_name(name, uid=uid, index=index), volume.get("mountPath") or "", volume.get("volumeClaim"))


def made_name(job: str, *, uid: str, index: int) -> str:
    """`<job>-pvc-<12 characters>`, which depend on the Job's UID and the place in `spec.volumes`."""
    value = int.from_bytes(hashlib.blake2b(f"{uid}/{index}".encode(), digest_size=16).digest(), "big")
    letters = []
    for _ in range(SUFFIX):
        value, place = divmod(value, len(LETTERS))
        letters.append(LETTERS[place])
    return f"{job}-pvc-{''.join(letters)}"


def as_given(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The Job without the names that we wrote into it beside the claims they stand for: its status may not tell of them yet."""
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    job, uid = metadata.get("name") or "", metadata.get("uid") or ""
    volumes = [
        {name: value for name, value in volume.items() if name != "volumeClaimName"}
        if volume.get("volumeClaim") is not None and volume.get("volumeClaimName") == made_name(job, uid=uid, index=index)
        else volume
        for index, volume in enumerate(spec.get("volumes") or [])
    ]
    return {**manifest, "spec": {**spec, "volumes": volumes}} if volumes else manifest


def claim_child(claim: Claim, *, namespace: str, owner: Mapping[str, Any]) -> Child:
    """The claim to make. It stays through restarts of the Job and goes with the Job itself."""

    def make() -> Manifest:
        return {
            "apiVersion": kinds.CLAIM.api_version,
            "kind": kinds.CLAIM.kind,
            "metadata": {"name": claim.name, "namespace": namespace, "ownerReferences": [dict(owner)]},
            "spec": dict(claim.spec or {}),
        }

    return Child(kinds.CLAIM, claim.name, make)


def mount_claims(draft: Draft, claims: tuple[Claim, ...]) -> None:
    """In ordinary containers; a claim that is mounted twice is one volume."""
    for claim in claims:
        volume = volume_name(claim.name)
        draft.add_volume({"name": volume, "persistentVolumeClaim": {"claimName": claim.name}})
        draft.mount({"name": volume, "mountPath": claim.mount_path})


def volume_name(claim: str) -> str:
    """The claim's own name, or a short one where that is no name for a volume (63 characters, no dots)."""
    if LABEL.fullmatch(claim):
        return claim
    return f"claim-{hashlib.blake2b(claim.encode(), digest_size=8).hexdigest()}"
