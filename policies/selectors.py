"""Selectors over labels, taints and tolerations, by the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

NODE_NAME: Final = "field:metadata.name"
"""Stands for a node's name among its labels (`matchFields`); no label can be called so."""
NEVER: Final = "Never"
"""Operator of a requirement that nothing satisfies: a term without expressions selects nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One expression over labels: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set satisfies it; an operator nobody knows is never satisfied."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint of a node or of a cluster."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """What a pod, or a policy, puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """By the rules of Kubernetes: an empty key with Exists tolerates everything, an empty effect every effect."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def tolerated(taints: Iterable[Taint], *, by: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps new pods away and is not tolerated; None when there is none."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(each.tolerates(taint) for each in by):
            return taint
    return None
