"""What differs by cluster: OverridePolicy and ClusterOverridePolicy as pure functions (reference/karmada.md 2).

Belongs here: reading them, what is wrong with one, which apply to an object in a cluster and in which order, and every
overrider. Does not belong: who builds Works. Invariants: an object comes out as it would from the same policies in any order
of reading; what was decided (identity, replicas, minima) is never changed; a failure names policy, field and reason.
"""

from policies.overrides.applying import APPLIED, APPLIED_CLUSTER, Failure, Overridden, applicable, overridden, standing
from policies.overrides.checks import problems
from policies.overrides.views import OverrideView, project_override

__all__ = [
    "APPLIED",
    "APPLIED_CLUSTER",
    "Failure",
    "Overridden",
    "OverrideView",
    "applicable",
    "overridden",
    "problems",
    "project_override",
    "standing",
]
