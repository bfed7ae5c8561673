"""Labels of pods, kept once for all pods that have the same.

Labels that number the pods of one owner are kept apart from those that they share: a gang of a thousand pods then has one set
of labels, and a thousand small ones that every other gang has too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from apis import keys
from policies.neighbours import Labels

NUMBERING: Final = frozenset(
    {
        keys.TASK_INDEX,
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    }
)
"""Keys of labels that tell the pods of one owner apart."""

KEPT: Final = 1 << 16
"""Different sets of labels that are shared; then sharing starts anew."""


class LabelPool:
    """Keeps one object per set of labels."""

    def __init__(self) -> None:
        self._read: dict[Labels, tuple[Labels, Labels]] = {}
        self._sets: dict[Labels, Labels] = {}
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}

    def split(self, labels: Mapping[str, str] | None) -> tuple[Labels, Labels]:
        """Shared labels, and those that number the pod, each by key."""
        if not labels:
            return (), ()
        given = tuple(labels.items())
        known = self._read.get(given)
        if known is None:
            if len(self._sets) >= KEPT:
                self._read.clear()
                self._sets.clear()
                self._pairs.clear()
            pairs = sorted(self._pair(each) for each in given)
            shared = self._set(tuple(each for each in pairs if each[0] not in NUMBERING))
            known = shared, self._set(tuple(each for each in pairs if each[0] in NUMBERING))
            if not known[1]:
                # A numbered pod's labels are met again only with its own events: not worth remembering.
                self._read[given] = known
        return known

    def _pair(self, pair: tuple[str, str]) -> tuple[str, str]:
        known = self._pairs.get(pair)
        if known is None:
            known = self._pairs[pair] = (sys.intern(pair[0]), pair[1])
        return known

    def _set(self, labels: Labels) -> Labels:
        return self._sets.setdefault(labels, labels)
