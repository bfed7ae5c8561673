"""ClusterProfiles of the multicluster SIG (multicluster.x-k8s.io): clusters that somebody else keeps a list of. Pure.

Names and properties alone are taken over: a profile names a candidate, which joins as every member does, by its own agent; its
properties become labels of the Cluster, by which policies may choose. Credentials are nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from apis import keys
from apis.kinds import Kind
from policies.views import Meta

CLUSTER_PROFILE: Final = Kind("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles")
PROFILE: Final = f"{keys.GROUP}/cluster-profile"
"""Annotation of a Cluster: namespace/name of the ClusterProfile that it is known from."""
LABELS: Final = f"{keys.GROUP}/cluster-profile-labels"
"""Annotation of a Cluster: keys of the labels that came from there, comma separated; they go with their property."""
MOST: Final = 64
"""Properties of one profile that become labels: it is somebody else's object."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?")
_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_RESERVED: Final = ("kubernetes.io", "k8s.io", keys.GROUP, "karmada.io")
"""Whose keys mean something to programs: nobody sets them by a property."""


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A ClusterProfile; `labels` are those of its properties that can be labels."""

    namespace: str
    name: str
    uid: str
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False

    @property
    def title(self) -> str:
        """How a Cluster refers to it."""
        return f"{self.namespace}/{self.name}"


class _Property(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class _Status(msgspec.Struct, frozen=True):
    properties: list[_Property] | None = None


class _Profile(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Profile)


def project_profile(document: bytes) -> ProfileView:
    """A ClusterProfile."""
    read = _decoder.decode(document)
    meta = read.metadata
    pairs = [(each.name, each.value) for each in read.status.properties or [] if is_label(each.name, each.value)]
    return ProfileView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        labels=dict(sorted(pairs)[:MOST]),
        deleting=meta.deletion_timestamp is not None,
    )


def is_label(key: str, value: str) -> bool:
    """Whether a property can be a label, and is nobody else's."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _PREFIX.fullmatch(prefix) or any(prefix == each or prefix.endswith(f".{each}") for each in _RESERVED)):
        return False
    return bool(_PART.fullmatch(name)) and (not value or bool(_PART.fullmatch(value)))


def of(cluster: str, *, profiles: Iterable[ProfileView]) -> ProfileView | None:
    """The profile that names a cluster; of several the first by namespace."""
    named = [each for each in profiles if each.name == cluster and not each.deleting and _NAME.fullmatch(each.name)]
    return min(named, key=lambda each: each.namespace, default=None)


def noted(notes: Mapping[str, str]) -> tuple[str, ...]:
    """Keys of the labels that a Cluster has from a profile."""
    return tuple(each for each in notes.get(LABELS, "").split(",") if each)


def revised(
    labels: Mapping[str, str], notes: Mapping[str, str], profile: ProfileView | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations that a Cluster should have: what people and its agent wrote stays, whatever a profile says."""
    ours = noted(notes)
    kept = {key: value for key, value in labels.items() if key not in ours}
    rest = {key: value for key, value in notes.items() if key not in (PROFILE, LABELS)}
    if profile is None:
        return kept, rest
    added = {key: value for key, value in profile.labels.items() if key not in kept}
    named = {LABELS: ",".join(sorted(added))} if added else {}
    return {**kept, **added}, {**rest, PROFILE: profile.title, **named}
