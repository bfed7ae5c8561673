"""Who is entitled to how much: water-filling, hierarchies of queues, dominant shares, and promises beyond what is free.

Amounts are exact integers in milli units (apis/vectors). Laws: what is given out never exceeds what there is; a guarantee is
nobody else's; water-filling is max-min fair by weight.
"""

from __future__ import annotations

from policies.shares.dominance import Leaf, Steps, dominant, hierarchical
from policies.shares.filling import Claim, fill
from policies.shares.promises import beyond
from policies.shares.tree import Limit, QueueShare, limits, lineage, share

__all__ = [
    "Claim",
    "Leaf",
    "Limit",
    "QueueShare",
    "Steps",
    "beyond",
    "dominant",
    "fill",
    "hierarchical",
    "limits",
    "lineage",
    "share",
]
