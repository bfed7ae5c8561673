"""The published profile stays small however many kinds of nodes there are (protocol.md 4)."""

from __future__ import annotations

import msgspec

from apis.capacity import CapacityStatus
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.reporting import capacity
from tests.member_agent.test_room import node, pod, shape


def look(inventory: Inventory) -> capacity.Look:
    return capacity.Look(
        room=inventory.room,
        nodes=inventory.nodes,
        queues=(),
        admitted={},
        waiting=(),
        orphans=(),
        through="1",
        label_keys=("kind",),
    )


def inventory(count: int, *, kinds: int, pods: bool = False) -> Inventory:
    """So many nodes of so many kinds; with `pods`, each with another amount in use."""
    found = Inventory()
    for index in range(count):
        one = node(f"n{index:05}", cpu=1000, memory=4_000_000, kind=f"a-kind-of-node-{index % kinds:05}")
        found.node_changed(Change(("", one.name), None, one))
        if pods:
            used = pod(f"p{index}", shape(1 + 613 * index % 990, memory=104_729 * index % 3_900_000), on=one.name)
            found.pod_changed(Change(("ns", used.name), None, used))
    return found


def conditions(status: CapacityStatus) -> dict[str, str]:
    return {each.type: each.reason for each in status.conditions}


def test_alike_nodes_with_all_kinds_of_use_are_rounded_until_they_fit() -> None:
    status = capacity.status(look(inventory(4000, kinds=1, pods=True)), generation=1, now="now")
    assert len(status.nodes.rows) <= capacity.MAX_ROWS
    assert len(msgspec.json.encode(status.nodes.rows)) <= capacity.MAX_BYTES
    assert sum(row[-1] for row in status.nodes.rows) == 4000
    assert conditions(status) == {"ProfileTruncated": "TooManyRows"}


def test_rows_are_left_out_only_at_the_hard_limit_and_the_condition_says_so() -> None:
    status = capacity.status(look(inventory(3001, kinds=3000)), generation=1, now="now")
    assert len(status.nodes.rows) == capacity.MAX_ROWS
    assert len(msgspec.json.encode(status.nodes.rows)) <= capacity.HARD_BYTES
    assert max(row[-1] for row in status.nodes.rows) == 2  # the kind with most nodes is kept
    assert conditions(status) == {"ProfileTruncated": "RowsLeftOut"}


def test_a_small_cluster_is_told_exactly() -> None:
    status = capacity.status(look(inventory(40, kinds=4)), generation=1, now="now")
    assert sorted(row[-1] for row in status.nodes.rows) == [10] * 4
    assert conditions(status) == {}
