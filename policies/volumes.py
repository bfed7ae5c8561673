"""What a pod's volumes ask of its node (kube-scheduler's filters VolumeBinding, VolumeZone and NodeVolumeLimits).

A claim that is bound reaches as far as its volume does. One whose class waits for the first consumer takes the smallest volume
there that matches, or has one made where its class may. Every other claim is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policies.selectors import Requirement

Term = tuple[Requirement, ...]
Reach = tuple[Term, ...]
"""Terms of which a node must meet one; none: every node."""
Attachment = tuple[str, str]
"""Driver and handle: what counts against a node's limit, once for each node however many pods use it."""

EVERYWHERE: Final[Reach] = ()
SINGLE_POD: Final = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A volume for a claim that is not bound yet. Sizes are milli bytes. `made`: where one may be made for it, None where
    nobody does; by `driver`, where that is known to have limits. `claim` names one that several pods use: the volume of the
    first is that of all."""

    storage_class: str
    size: int
    modes: tuple[str, ...]
    block: bool = False
    labels: tuple[Requirement, ...] = ()
    made: Reach | None = None
    driver: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A volume that no claim has."""

    name: str
    storage_class: str
    size: int
    modes: tuple[str, ...]
    block: bool
    labels: tuple[tuple[str, str], ...]
    reach: Reach

    def fits(self, wanted: Wanted) -> bool:
        """Whether a claim that wants this may have it."""
        if (self.storage_class, self.block) != (wanted.storage_class, wanted.block) or self.size < wanted.size:
            return False
        labels = dict(self.labels)
        return set(wanted.modes) <= set(self.modes) and all(each.holds(labels) for each in wanted.labels)


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """All of one pod's claims. `reaches`: a node must meet every one, and of `zones` too; `problem`: why no node will do now;
    `single`: claims that no second pod may use."""

    reaches: tuple[Reach, ...] = ()
    zones: tuple[Reach, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    attached: tuple[Attachment, ...] = ()
    single: tuple[str, ...] = ()
    problem: str = ""


def reaches(reach: Reach, labels: Mapping[str, str]) -> bool:
    """Whether a node of these labels (its name among them, `selectors.NODE_NAME`) is meant."""
    return not reach or any(all(each.holds(labels) for each in term) for term in reach)
