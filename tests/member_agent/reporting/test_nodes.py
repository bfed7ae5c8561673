"""The published rows: small however many kinds of nodes there are, and never more than is free (protocol.md 4)."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some

from apis.capacity import CapacityStatus, FreeNodes, free_nodes, write_status
from machinery.informer import Change
from member_agent.inventory import Inventory
from member_agent.reporting import capacity, nodes
from member_agent.views import NodeView
from policies.shapes import Taint
from tests.member_agent.test_room import node, pod, shape

ZONE = "topology.kubernetes.io/zone"


def look(inventory: Inventory, *, label_keys: tuple[str, ...] = ("kind",), kept: tuple[str, ...] = ()) -> capacity.Look:
    room = inventory.room
    return capacity.Look(
        room=room,
        left=room.free,
        sorts=nodes.sort(room, label_keys=label_keys, domains=(ZONE,)),
        queues=(),
        admitted={},
        waiting=(),
        orphans=(),
        through="1",
        kept=kept,
    )


def told(inventory: Inventory, **how: tuple[str, ...]) -> CapacityStatus:
    return capacity.status(look(inventory, **how), generation=1, now="now")


def holding(*machines: NodeView) -> Inventory:
    found = Inventory()
    for one in machines:
        found.node_changed(Change(("", one.name), None, one))
    return found


def use(inventory: Inventory, name: str, *, on: str, cpu: int, memory: int = 1) -> None:
    one = pod(name, shape(cpu, memory=memory), on=on)
    inventory.pod_changed(Change(("ns", name), None, one))


def many(count: int, *, kinds: int, pods: bool = False) -> Inventory:
    """So many nodes of so many kinds; with `pods`, each with another amount in use."""
    found = Inventory()
    for index in range(count):
        one = node(f"n{index:05}", cpu=1000, memory=4_000_000, kind=f"a-kind-of-node-{index % kinds:05}")
        found.node_changed(Change(("", one.name), None, one))
        if pods:
            use(found, f"p{index}", on=one.name, cpu=1 + 613 * index % 990, memory=104_729 * index % 3_900_000)
    return found


def conditions(status: CapacityStatus) -> dict[str, str]:
    return {each.type: each.reason for each in status.conditions}


def test_alike_nodes_with_all_kinds_of_use_are_rounded_until_they_fit() -> None:
    status = told(many(4000, kinds=1, pods=True))
    assert len(status.nodes.rows) <= nodes.MAX_ROWS
    assert len(msgspec.json.encode(status.nodes.rows)) <= nodes.MAX_BYTES
    assert sum(row[-1] for row in status.nodes.rows) == 4000
    assert conditions(status) == {"ProfileTruncated": "TooManyRows"}


def test_rows_are_left_out_only_at_the_hard_limit_and_the_condition_says_so() -> None:
    status = told(many(3001, kinds=3000))
    assert len(status.nodes.rows) <= nodes.MAX_ROWS
    assert len(write_status(status)) <= capacity.HARD_BYTES
    assert max(row[-1] for row in status.nodes.rows) == 2  # the kind with most nodes is kept
    assert conditions(status) == {"ProfileTruncated": "RowsLeftOut"}


def test_ten_thousand_nodes_none_like_another_stay_within_the_limits_and_promise_nothing_that_is_not_there() -> None:
    inventory = many(10_000, kinds=10_000, pods=True)
    status = told(inventory)
    assert len(status.nodes.rows) <= nodes.MAX_ROWS
    assert len(write_status(status)) <= capacity.HARD_BYTES
    assert conditions(status) == {"ProfileTruncated": "RowsLeftOut"}
    names = {f"a-kind-of-node-{index:05}": index for index in range(10_000)}
    cpu = inventory.room.layout.columns["cpu"]
    for row in free_nodes(status):
        assert row.free.get("cpu") <= inventory.room.free[names[row.node_class.labels["kind"]], cpu]


def test_a_small_cluster_is_told_exactly() -> None:
    status = told(many(40, kinds=4))
    assert sorted(row[-1] for row in status.nodes.rows) == [10] * 4
    assert conditions(status) == {}


def test_nodes_in_trouble_do_not_count_and_nodes_for_few_do() -> None:
    def tainted(name: str, key: str, effect: str = "NoSchedule") -> NodeView:
        return node(name, cpu=4, taints=(Taint(key, "", effect),))

    status = told(
        holding(
            node("good", cpu=4),
            tainted("gpus", "nvidia.com/gpu"),
            tainted("lost", "node.kubernetes.io/unreachable", "NoExecute"),
            tainted("full", "node.kubernetes.io/disk-pressure"),
            tainted("leaving", "ToBeDeletedByClusterAutoscaler"),
            tainted("maybe", "DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
            node("down", cpu=4, ready=False),
        )
    )
    kinds = sorted([taint.key for taint in row.node_class.taints] for row in free_nodes(status))
    assert kinds == [[], ["DeletionCandidateOfClusterAutoscaler"], ["nvidia.com/gpu"]]


def placed(name: str, *, disk: str, zone: str) -> NodeView:
    one = node(name, cpu=4, disk=disk)
    return dataclasses.replace(one, labels={**one.labels, ZONE: zone})


def test_nodes_are_told_apart_by_domain_and_by_the_labels_that_the_hub_names() -> None:
    machines = [placed(f"n{index}", disk="ssd" if index % 2 else "hdd", zone=f"z{index % 3}") for index in range(6)]
    plain, split = told(holding(*machines)), told(holding(*machines), label_keys=("disk",))
    assert [(row.domain, row.nodes) for row in free_nodes(plain)] == [("z0", 2), ("z1", 2), ("z2", 2)]
    assert len(split.nodes.rows) == 6
    assert {row.node_class.labels["disk"] for row in free_nodes(split)} == {"ssd", "hdd"}
    hosts = told(holding(*machines), label_keys=("kubernetes.io/hostname",))
    assert {row.node_class.labels["kubernetes.io/hostname"] for row in free_nodes(hosts)} == {each.name for each in machines}


def test_room_that_waits_for_a_gang_is_not_offered() -> None:
    status = told(holding(node("a", cpu=4), node("b", cpu=4)), kept=("a",))
    assert sorted(row.free.get("cpu") for row in free_nodes(status)) == [0, 4000]


machines = some.lists(
    some.tuples(some.integers(1, 130), some.integers(1, 5000), some.sampled_from(["x", "y"]), some.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(machines, some.data())
def test_no_row_promises_more_than_its_nodes_have_and_counted_things_and_idle_nodes_are_exact(
    described: list[tuple[int, int, str, int]], data: some.DataObject
) -> None:
    inventory = Inventory()
    for index, (cpu, memory, kind, held) in enumerate(described):
        one = node(f"n{index}", cpu=cpu, memory=memory, kind=kind)
        inventory.node_changed(Change(("", one.name), None, one))
        for number in range(held):
            use(
                inventory,
                f"p{index}-{number}",
                on=one.name,
                cpu=data.draw(some.integers(0, 1 + cpu // 2)),
                memory=data.draw(some.integers(0, 1 + memory // 2)),
            )
    published = Counter({(frozenset(row.free.items()), row.node_class.labels["kind"]): row.nodes for row in rows_of(inventory)})
    assert published == Counter(by_hand(*exact(inventory, index)) for index in range(len(described)))


def rows_of(inventory: Inventory) -> list[FreeNodes]:
    """Rows by what is free and their kind, sizes put together."""
    merged: dict[tuple[frozenset[tuple[str, int]], str], FreeNodes] = {}
    for row in free_nodes(told(inventory)):
        key = (frozenset(row.free.items()), row.node_class.labels["kind"])
        known = merged.get(key)
        merged[key] = row if known is None else row._replace(nodes=row.nodes + known.nodes)
    return list(merged.values())


def by_hand(free: dict[str, int], size: dict[str, int], kind: str) -> tuple[frozenset[tuple[str, int]], str]:
    """What one node is told to have: counted things and what is idle exactly, the rest by less than a step too little."""
    found = {}
    for name, amount in free.items():
        step = -(-size[name] // nodes.STEPS) if name in nodes.DIVISIBLE and amount != size[name] else 1
        found[name] = amount // step * step
        assert 0 <= amount - found[name] < step
    return frozenset(item for item in found.items() if item[1]), kind


def exact(inventory: Inventory, index: int) -> tuple[dict[str, int], dict[str, int], str]:
    room = inventory.room
    name = f"n{index}"
    row = room.layout.names.index(name)
    columns = {each: at for each, at in room.layout.columns.items() if room.allocatable[row, at]}
    free = {each: max(int(room.free[row, at]), 0) for each, at in columns.items()}
    size = {each: int(room.allocatable[row, at]) for each, at in columns.items()}
    return free, size, inventory.nodes[name].labels["kind"]
