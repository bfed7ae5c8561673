"""Affinity terms in order, their overflow tiers, and moving back to a term that comes earlier (reference/karmada.md 3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.matching import affinity_refusal
from policies.members import ClusterView
from policies.placements import Affinity


def attempts(terms: Sequence[Affinity], *, observed: str = "", placed: bool = False) -> tuple[int, ...]:
    """In which order terms are tried, as indices.

    What runs nowhere starts from the first one: an object that comes back goes where its policy likes it best. What runs under
    `observed` tries that one first, then those after it, then those before, so that looking again moves nothing by itself.
    """
    everything = tuple(range(len(terms)))
    start = next((at for at in everything if placed and terms[at].name == observed and observed), 0)
    return everything[start:] + everything[:start]


def moves_back(
    terms: Sequence[Affinity], *, observed: str, fitting_since: Mapping[str, float], now: float, after: float
) -> str:
    """The earlier term to which what runs under `observed` should move back, "" for none.

    `fitting_since` says since when each term has had a fitting cluster without interruption; a term must have had one for
    `after` seconds, so that a cluster that comes and goes draws nothing to and fro. Times are seconds of one clock.
    """
    for term in terms:
        if term.name == observed:
            return ""
        since = fitting_since.get(term.name)
        if since is not None and now - since >= after:
            return term.name
    return ""


def tier(affinity: Affinity | None, cluster: ClusterView) -> int | None:
    """Where a cluster stands in a term: 0 in the term itself, n in its nth overflow affinity, None: not meant at all."""
    if affinity is None or not affinity_refusal(affinity, cluster):
        return 0
    for at, overflow in enumerate(affinity.overflow, start=1):
        if not affinity_refusal(overflow, cluster):
            return at
    return None


def refusal(affinity: Affinity | None, cluster: ClusterView) -> str:
    """Why neither the term nor its overflow affinities mean a cluster; "" when one does."""
    return "" if affinity is None or tier(affinity, cluster) is not None else affinity_refusal(affinity, cluster)


def weight(weights: Sequence[tuple[Affinity, int]], cluster: ClusterView) -> int:
    """The static weight of a cluster: the largest of those that mean it, 0 where none does."""
    return max((number for affinity, number in weights if not affinity_refusal(affinity, cluster)), default=0)


# --- workload affinity -----------------------------------------------------------------------------------------------
def company_refusal(cluster: str, *, together: Sequence[frozenset[str]] = (), apart: Sequence[frozenset[str]] = ()) -> str:
    """Why a cluster does not suit an object because of where others of its group are; "" when it does.

    `together` and `apart` are the clusters of each other object of the same group value in the namespace. Every one of those it
    wants to be with must be there too; none of those it wants to be away from may. The first of a group is free.
    """
    placed = [each for each in together if each]
    if any(cluster not in each for each in placed):
        return f"others of its affinity group run in {', '.join(sorted(frozenset.union(*placed)))}"
    if any(cluster in each for each in apart):
        return "another one of its anti-affinity group runs there"
    return ""
