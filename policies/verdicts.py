"""Answers of rules: a Verdict of a filter, a Score of a score, and the record of a decision that people read."""

from __future__ import annotations

import enum
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec


class Wake(enum.StrEnum):
    """Kinds of events that could change an answer."""

    CAPACITY = "capacity"
    CLUSTER = "cluster"
    QUEUE = "queue"
    POLICY = "policy"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a filter says: `code` "" means yes. `sure` is False where only the member can tell (Unknown)."""

    code: str = ""
    text: str = ""
    wakes: tuple[Wake, ...] = ()
    sure: bool = True

    @property
    def passes(self) -> bool:
        """Whether the cluster stays in the choice."""
        return not self.code


PASS: Final = Verdict()


class Outcome(enum.StrEnum):
    """What was decided about a Job."""

    PLACED = "Placed"
    WAITING = "Waiting"
    HELD = "Held"
    REFUSED = "Refused"


ENDED_HERE: Final[Mapping[str, str]] = {"TerminateJob": "Terminated", "CompleteJob": "Completed"}
"""Reasons of a refusal that are no failure: somebody ended the Job by this Command while it did not run; and its phase then."""


class Considered(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One cluster in a decision: the verdict that ruled it out, or its scores per rule (0..100)."""

    cluster: str
    code: str = ""
    text: str = ""
    scores: dict[str, int] = {}
    total: int = 0


@dataclass(frozen=True, slots=True)
class Gist:
    """A decision without its clusters, as a view keeps it; `codes` is a digest of cluster and code each."""

    outcome: Outcome
    reason: str = ""
    message: str = ""
    field: str = ""
    codes: int = 0
    data: str = ""

    def same_as(self, other: Gist | None) -> bool:
        """Whether a reader would learn nothing new."""
        return other is not None and (self.outcome, self.reason, self.field, self.codes) == (
            other.outcome,
            other.reason,
            other.field,
            other.codes,
        )


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The annotation `volcano-federation.io/verdicts` of a binding: why it is as it is.

    `data` says what the data that it reads had to do with it; `clusters` are the five best; `counts` counts the others by code;
    `wakes` says what would change it.
    """

    outcome: Outcome
    reason: str = ""
    message: str = ""
    field: str = ""
    policy: str = ""
    data: str = ""
    clusters: list[Considered] = []
    counts: dict[str, int] = {}
    wakes: list[Wake] = []

    def gist(self) -> Gist:
        """What is remembered of it."""
        codes = ",".join(f"{each.cluster}:{each.code}" for each in self.clusters)
        reason, message = sys.intern(self.reason), sys.intern(self.message)  # many Jobs are told the same
        return Gist(self.outcome, reason, message, self.field, zlib.crc32(codes.encode()), self.data)

    def same_as(self, other: Gist | None) -> bool:
        """Whether a reader would learn nothing new: texts and scores may differ, codes and choices not."""
        return self.gist().same_as(other)


UNCLEAR: Final = "RunUnclear"
"""Reason of a Job whose binding and Works tell a story that has no edge in the table: nothing is done until that changes."""

BEST: Final = 5
"""How many clusters a decision names (protocol.md 7: a binding stays within 4 KiB)."""

TEXT_LIMIT: Final = 240
"""Characters of one text in a decision, for the same reason."""

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Decision)


def encode(decision: Decision) -> str:
    """The annotation value; the same bytes for the same decision."""
    return _encoder.encode(decision).decode()


def decode(text: str) -> Decision | None:
    """Read a decision; None for what is not one (it only explains, so it stops nothing)."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:
        return None


def shortened(text: str) -> str:
    """Within TEXT_LIMIT."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def best(considered: Iterable[Considered]) -> tuple[list[Considered], dict[str, int]]:
    """The five best, and how many others there are by code ("Fits" for those that would do)."""
    ordered = sorted(considered, key=lambda each: (bool(each.code), -each.total, each.code, each.cluster))
    counts: dict[str, int] = {}
    for each in ordered[BEST:]:
        counts[each.code or "Fits"] = counts.get(each.code or "Fits", 0) + 1
    return ordered[:BEST], counts
