"""ClusterCapacity: the columnar status, as the agent writes and the hub reads it."""

from __future__ import annotations

import json
from itertools import permutations

import msgspec
import pytest

from apis.capacity import (
    Backlog,
    CapacityStatus,
    ClusterCapacity,
    NodeGroup,
    NodeTaint,
    Orphan,
    QueueUse,
    UnreadableCapacity,
    free_nodes,
    node_table,
    read,
    write_status,
)
from apis.vectors import ResourceVector

BIG = ResourceVector({"cpu": 8000, "pods": 110_000})
GROUPS = {
    NodeGroup((("pool", "a"),), (), BIG, "rack-1", BIG): 3,
    NodeGroup((("pool", "a"),), (), BIG, "rack-2", ResourceVector({"cpu": 500})): 1,
    NodeGroup((), (NodeTaint("gpu", "NoSchedule"),), BIG + ResourceVector({"nvidia.com/gpu": 8000}), "", BIG): 2,
}


def status_of(groups: dict[NodeGroup, int]) -> CapacityStatus:
    nodes, domains = node_table(groups)
    return CapacityStatus(
        works_through="77",
        generation=4,
        nodes=nodes,
        domains=domains,
        queues=(QueueUse("default", parent="root", allocated={"cpu": 1000}),),
        backlog=(Backlog("default", priority=3, demand={"cpu": 4000}, pods=2),),
        orphans=(Orphan("ns", "job", "uid", 2),),
        observed_at="2026-01-01T00:00:00Z",
    )


def document(status: object) -> bytes:
    meta = {"name": "member", "namespace": "karmada-es-east", "resourceVersion": "9"}
    return msgspec.json.encode({"metadata": meta, "spec": {"labelKeys": ["pool"]}, "status": status})


def test_what_the_agent_writes_is_what_the_hub_reads() -> None:
    status = status_of(GROUPS)
    seen = read(document(msgspec.Raw(write_status(status))))
    assert seen.status == status
    assert (seen.metadata.namespace, seen.metadata.resource_version) == ("karmada-es-east", "9")
    assert ClusterCapacity.read(document(msgspec.Raw(write_status(status)))).status == json.loads(write_status(status))


def test_rows_become_vectors_again() -> None:
    rows = list(free_nodes(status_of(GROUPS)))
    assert sorted((row.domain, row.free.get("cpu"), row.allocatable.get("nvidia.com/gpu"), row.nodes) for row in rows) == [
        ("", 8000, 8000, 2),
        ("rack-1", 8000, 0, 3),
        ("rack-2", 500, 0, 1),
    ]
    assert {row.node_class.taints for row in rows if row.domain == ""} == {(NodeTaint("gpu", "NoSchedule"),)}


def test_the_same_nodes_in_any_order_are_the_same_bytes() -> None:
    assert len({write_status(status_of(dict(order))) for order in permutations(GROUPS.items())}) == 1


def test_a_member_that_has_not_reported_yet_has_an_empty_status() -> None:
    assert read(b'{"metadata":{"name":"member","namespace":"karmada-es-east"},"spec":{}}').status == CapacityStatus()


def test_fields_of_a_newer_agent_are_passed_over() -> None:
    assert read(document({"generation": 3, "soundness": [{"class": 1}]})).status.generation == 3


@pytest.mark.parametrize(
    ("status", "where"),
    [
        ({"generation": "three"}, "generation"),
        ({"nodes": {"resources": ["cpu"], "classes": [{"allocatable": []}]}}, r"classes\[0\]"),
        (
            {"nodes": {"resources": ["cpu"], "classes": [{"allocatable": [1]}], "rows": [[0, -1, 5, 1], [1, -1, 5, 1]]}},
            r"rows\[1\]",
        ),
        ({"nodes": {"resources": ["cpu"], "classes": [{"allocatable": [1]}], "rows": [[0, 0, 5, 1]]}}, r"rows\[0\]"),
        ({"nodes": {"resources": ["cpu"], "classes": [{"allocatable": [1]}], "rows": [[0, -1, 1]]}}, r"rows\[0\]"),
        ({"nodes": {"resources": ["cpu"], "classes": [{"allocatable": [1]}], "rows": [[0, -1, 5, -1]]}}, r"rows\[0\]"),
    ],
)
def test_a_status_out_of_shape_is_refused_with_its_place(status: object, where: str) -> None:
    with pytest.raises(UnreadableCapacity, match=where):
        read(document(status))
