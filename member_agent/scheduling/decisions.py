"""What a round decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from machinery.informer import Key
from member_agent.scheduling.earmarks import Earmark
from member_agent.scheduling.holds import Hold
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.reservations import Reservation
from member_agent.views import PodView

NO_ROOM: Final = "NotEnoughResources"


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod gets one node."""

    pod: PodView
    node: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod goes. `reason`: a word for its condition, and a sentence; `beneficiary`: the gang that gets its room, None where
    a plugin wanted it gone."""

    pod: PodView
    action: str
    reason: Reason
    beneficiary: Key | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Bindings (a gang's minimum always together), groups let in, reasons by gang, and the wall clock time (seconds since the
    epoch) at which time alone changes the answer. `evictions` come with the earmarks of their beneficiaries; an earmark that is
    told replaces what was kept for its gang, and what `ended` names is kept no more: it starts, or why it does not."""

    bindings: tuple[Binding, ...] = ()
    admitted: tuple[Key, ...] = ()
    waiting: Mapping[Key, Reason] = field(default_factory=dict)
    wakes: float = math.inf
    more: bool = False
    """The round ended before every gang was tried: another one is to follow at once."""
    reservation: Reservation | None = None
    """What is kept on nodes for the first gang that finds no room."""
    opened: tuple[PodView, ...] = ()
    """Pods whose gate before their queue is opened."""
    prepared: tuple[Hold, ...] = ()
    """Room that is held from now on for gangs over clusters."""
    evictions: tuple[Eviction, ...] = ()
    earmarks: tuple[Earmark, ...] = ()
    ended: Mapping[Key, Reason | None] = field(default_factory=dict)
    nominated: tuple[Binding, ...] = ()
    """Pods of beneficiaries and the nodes that are cleared for them."""
