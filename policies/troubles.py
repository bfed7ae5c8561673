"""Why containers that were to start do not: reasons that kubelets give in pod status and that time alone seldom mends.

The member reports them as reason of a Pending Job; the hub withdraws such a run sooner than one that merely takes long
(protocol.md 3). What kubelets say in Events alone (a volume that cannot be attached or mounted leaves no more than
ContainerCreating in the status) is not among them: there the start time-out of the Job holds.
"""

from __future__ import annotations

from typing import Final

PULLING: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
"""A kubelet alternates between the two; they are one reason."""

TROUBLES: Final = PULLING | {
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
}
"""Reasons of waiting containers: the image cannot be had, or what the container is made of (ConfigMaps, Secrets, keys of
them, subpaths of volumes) is missing."""


def same(one: str, other: str) -> bool:
    """Whether two reasons tell the same."""
    return one == other or {one, other} <= PULLING
