"""Flow control at the hub's API server: Leases have a level of their own, and agents are told apart (protocol.md 7).

A status flood of one member then delays neither a renewal nor another member. Execution namespaces are one per member, so the
namespace tells agents apart even where they share a user. Matching precedences stand before those of the built-in schemas
that catch everybody (service-accounts 9000, global-default 9900) and after those that keep a control plane alive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from apis import kinds
from apis.keys import SYSTEM_NAMESPACE
from apis.kinds import Kind
from federation.clusters.guard import AGENTS, MANAGER
from machinery.errors import ApiError
from machinery.port import PatchType, Port

log = logging.getLogger(__name__)

HUB: Final = "volcano-federation:hub"
"""Group of the hub's own credential: it writes member Leases, too."""

ACCOUNT: Final = "federation-hub"
"""ServiceAccount of a hub that the chart installed: such accounts carry no groups of ours."""

LEASES: Final = "volcano-federation-leases"
OTHERS: Final = "volcano-federation-agents"
CLUSTER_SCOPED: Final = "volcano-federation-agents-cluster"

LEASE_SHARES: Final = 10
"""Of the API server's seats, beside 245 of the built-in levels: a renewal takes milliseconds, and there is one per member
each 10 s."""
AGENT_SHARES: Final = 30
"""Less than the built-in level workload-high (40): statuses are many, and none is urgent."""


def manifests(namespace: str = SYSTEM_NAMESPACE) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Levels first, then the schemas that point to them. `namespace`: where a hub that the chart installed has its account."""
    yield _level(LEASES, shares=LEASE_SHARES, lendable=0, queues=64, hand=4)
    yield _level(OTHERS, shares=AGENT_SHARES, lendable=50, queues=128, hand=4)
    leases = {"apiGroups": [kinds.LEASE.group], "resources": [kinds.LEASE.plural], "namespaces": ["*"], "verbs": ["*"]}
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": ACCOUNT, "namespace": namespace}}
    yield _schema(LEASES, level=LEASES, precedence=300, by="ByNamespace", groups=(AGENTS, HUB), rule=leases, also=(account,))
    namespaced = {**everything, "namespaces": ["*"]}
    yield _schema(OTHERS, level=OTHERS, precedence=310, by="ByNamespace", groups=(AGENTS,), rule=namespaced)
    global_ = {**everything, "clusterScope": True}
    yield _schema(CLUSTER_SCOPED, level=OTHERS, precedence=320, by="ByUser", groups=(AGENTS,), rule=global_)


def _level(name: str, *, shares: int, lendable: int, queues: int, hand: int) -> tuple[Kind, dict[str, Any]]:
    """`hand` queues of all are dealt to a flow: two members share all of them once in thousands."""
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 100}
    limited = {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }
    return _typed(kinds.PRIORITY_LEVEL, name, {"type": "Limited", "limited": limited})


def _schema(
    name: str,
    *,
    level: str,
    precedence: int,
    by: str,
    groups: tuple[str, ...],
    rule: dict[str, Any],
    also: tuple[dict[str, Any], ...] = (),
) -> tuple[Kind, dict[str, Any]]:
    subjects = [*({"kind": "Group", "group": {"name": group}} for group in groups), *also]
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": by},
        "rules": [{"subjects": subjects, "resourceRules": [rule]}],
    }
    return _typed(kinds.FLOW_SCHEMA, name, spec)


def _typed(kind: Kind, name: str, spec: dict[str, Any]) -> tuple[Kind, dict[str, Any]]:
    return kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


async def apply(port: Port) -> None:
    """Put all in place, as far as they are absent or ours. An API server without flow control, or one that does not let us, is
    served without, and the log says so."""
    for kind, body in manifests():
        name = body["metadata"]["name"]
        try:
            await port.patch(kind, name, body, type=PatchType.APPLY, field_manager=MANAGER)
        except ApiError as error:
            log.warning("%s %s is not in place: %s", kind.kind, name, error)
