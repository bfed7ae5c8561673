"""Who has to go: an inclusion-minimal set of victims with which something fits (protocol.md 6, reclaim and preemption).

Nothing here knows nodes or queues: the caller orders the candidates, the one that should go first in front, and says whether a
set is enough. Enough must be monotone: a set that is enough stays enough when more go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

V = TypeVar("V")


def minimal(candidates: Sequence[V], *, enough: Callable[[Sequence[V]], bool]) -> tuple[V, ...] | None:
    """The victims, in the order given: all together are enough, and without any one of them they are not. None where not even
    all candidates are enough; empty where nobody has to go.

    Candidates in front are preferred: one further back goes only where those in front of it are not enough. For k victims of n
    candidates `enough` is asked about k log(n/k) times (QuickXplain; Junker, AAAI 2004).
    """
    if enough(()):
        return ()
    if not enough(candidates):
        return None
    chosen = _explain([], list(range(len(candidates))), False, lambda picked: enough([candidates[index] for index in picked]))
    return tuple(candidates[index] for index in sorted(chosen))


def pruned(chosen: Sequence[V], *, enough: Callable[[Sequence[V]], bool]) -> tuple[V, ...] | None:
    """The victims that are needed of those chosen, in the order given: of the last one first it is asked whether the others do
    without it. None where not even all are enough. For k of them `enough` is asked k + 1 times, each time about one less or one
    more than before: cheaper than `minimal` for whoever chose nearly right.
    """
    if not enough(chosen):
        return None
    kept = list(chosen)
    for index in reversed(range(len(kept))):
        without = kept[:index] + kept[index + 1 :]
        if enough(without):
            kept = without
    return tuple(kept)


def _explain(kept: list[int], open_ones: list[int], grown: bool, enough: Callable[[list[int]], bool]) -> list[int]:
    """What of `open_ones` is needed beside `kept`; `grown`: something was added to `kept` since it was last looked at."""
    if grown and enough(sorted(kept)):
        return []
    if len(open_ones) == 1:
        return open_ones
    half = len(open_ones) // 2
    front, back = open_ones[:half], open_ones[half:]
    from_back = _explain(kept + front, back, True, enough)
    from_front = _explain(kept + from_back, front, bool(from_back), enough)
    return from_front + from_back
