"""Why a gang waits, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a gang waits: a word for programs and a sentence for people, with numbers."""

    code: str
    sentence: str
