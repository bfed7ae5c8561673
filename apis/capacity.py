"""volcano-federation.io/v1alpha1: ClusterCapacity, what a member can take (protocol.md 4).

The hub writes spec, the member's agent writes status. Status is columnar and read and written through the msgspec structs
below, the one definition of its format; the pydantic model is for people and for the served schema. All amounts in status are
whole milli units (apis/vectors.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec
from pydantic import Field

from apis import kinds
from apis.meta import Model, Resource
from apis.schema import OPAQUE, Object, served
from apis.vectors import ResourceVector


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Camel-case JSON, defaults left out."""


class NodeTaint(_Wire, frozen=True, order=True):
    key: str
    effect: str
    value: str = ""


class NodeClass(_Wire, frozen=True):
    """Nodes that differ in nothing but what is free: labels under the hub's label keys, taints, and size (one amount for each
    of `NodeTable.resources`)."""

    labels: dict[str, str] = {}
    taints: tuple[NodeTaint, ...] = ()
    allocatable: tuple[int, ...] = ()


class NodeTable(_Wire, frozen=True):
    """Free node vectors. A row is [class, domain, free for each of `resources`, count]: so many nodes of that class in that
    topology domain (-1: none) have exactly that much free."""

    resources: tuple[str, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()


class QueueUse(_Wire, frozen=True):
    """One queue of the member's tree; `admitted` is accepted and not bound yet, `real_capability` the most it may reach. Use
    includes that of the queues under it."""

    name: str
    parent: str = ""
    state: str = "Open"
    allocated: dict[str, int] = {}
    admitted: dict[str, int] = {}
    guarantee: dict[str, int] = {}
    real_capability: dict[str, int] | None = None
    """Its capability within what its parent may have less the guarantees of its siblings. A resource that only the nodes bound
    is not named; 0: none of it is to be had. None: bounded by nothing but the nodes."""


class Backlog(_Wire, frozen=True):
    """Demand that waits in a queue at one priority."""

    queue: str
    priority: int = 0
    demand: dict[str, int] = {}
    pods: int = 0


class Reclaimable(_Wire, frozen=True):
    """Room, on all nodes together, that evicting the local pods of less than this priority would free. Those of the next band
    are counted in it too."""

    below: int
    room: dict[str, int] = {}
    pods: int = 0


class Growable(_Wire, frozen=True):
    """Nodes that an autoscaled group may still add, what one of them is, and how many seconds that takes."""

    group: str
    nodes: int
    delay: int
    labels: dict[str, str] = {}
    taints: tuple[NodeTaint, ...] = ()
    allocatable: dict[str, int] = {}


class ShapeAnswer(_Wire, frozen=True):
    """What the member's scheduler says of a shape in `spec.shapes`, by a dry run on what it has now."""

    hash: str
    fits: int = 0
    """Gangs of this shape that would get their minimum now, one after the other; counted up to `MOST_FITS` where rows decide
    nothing, and to one where they do."""
    after_eviction: bool = False
    """One would, if local pods of less priority were evicted."""
    wait: int | None = None
    """Seconds until one is expected to: enforced ends of what runs, or nodes that may be added. None: nobody can tell."""
    reason: str = ""
    """Why none fits now, with numbers."""


MOST_FITS: Final = 8
"""More gangs of one shape than this are not placed in a member between two of its reports."""


class Orphan(_Wire, frozen=True):
    """A local Job whose Work is missing without its deletion having been seen (protocol.md 2, A3): kept running."""

    namespace: str
    name: str
    job: str
    epoch: int


class CapacityCondition(_Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class CapacityStatus(_Wire, frozen=True):
    """What the member can take, as of one instant."""

    works_through: str = ""
    """resourceVersion the agent's Work watch had reached: every Work up to it is subtracted here already."""
    generation: int = 0
    """Grows with each write."""
    nodes: NodeTable = NodeTable()
    domains: tuple[str, ...] = ()
    queues: tuple[QueueUse, ...] = ()
    backlog: tuple[Backlog, ...] = ()
    reclaimable: tuple[Reclaimable, ...] = ()
    growable: tuple[Growable, ...] = ()
    shapes: tuple[ShapeAnswer, ...] | None = None
    """None: nobody here answers about shapes (a Volcano schedules)."""
    orphans: tuple[Orphan, ...] = ()
    conditions: tuple[CapacityCondition, ...] = ()
    observed_at: str = ""


class CapacityMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""


class CapacityDocument(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a ClusterCapacity that the hub reads."""

    metadata: CapacityMeta
    status: CapacityStatus = CapacityStatus()


class UnreadableCapacity(ValueError):
    """A status that does not follow the columnar format; the message says where."""


_decoder = msgspec.json.Decoder(CapacityDocument)
_encoder = msgspec.json.Encoder(order="deterministic")


def read(document: bytes) -> CapacityDocument:
    """Read a ClusterCapacity from the wire; raises UnreadableCapacity. Rows are checked against classes and resources."""
    try:
        capacity = _decoder.decode(document)
    except msgspec.MsgspecError as error:
        raise UnreadableCapacity(f"ClusterCapacity is not readable: {error}") from error
    table, domains = capacity.status.nodes, len(capacity.status.domains)
    width = len(table.resources)
    for index, node_class in enumerate(table.classes):
        if len(node_class.allocatable) != width:
            raise UnreadableCapacity(f"status.nodes.classes[{index}].allocatable has not {width} amounts")
    for index, row in enumerate(table.rows):
        if len(row) != width + 3 or not 0 <= row[0] < len(table.classes) or not -1 <= row[1] < domains or row[-1] < 0:
            raise UnreadableCapacity(f"status.nodes.rows[{index}] does not fit {width} resources, its class or its domain")
    return capacity


def write_status(status: CapacityStatus) -> bytes:
    """The JSON of `status`: the same bytes for the same status."""
    return _encoder.encode(status)


class FreeNodes(NamedTuple):
    """So many equal nodes with so much free."""

    node_class: NodeClass
    allocatable: ResourceVector
    domain: str
    free: ResourceVector
    nodes: int


def free_nodes(status: CapacityStatus) -> Iterator[FreeNodes]:
    """The rows of a status as vectors."""
    table = status.nodes
    sizes = [ResourceVector(zip(table.resources, each.allocatable, strict=True)) for each in table.classes]
    for row in table.rows:
        free = ResourceVector(zip(table.resources, row[2:-1], strict=True))
        yield FreeNodes(table.classes[row[0]], sizes[row[0]], status.domains[row[1]] if row[1] >= 0 else "", free, row[-1])


class NodeGroup(NamedTuple):
    """What makes nodes equal to the hub: labels, taints, size, domain and free amounts."""

    labels: tuple[tuple[str, str], ...]
    taints: tuple[NodeTaint, ...]
    allocatable: ResourceVector
    domain: str
    free: ResourceVector


def node_table(groups: Mapping[NodeGroup, int]) -> tuple[NodeTable, tuple[str, ...]]:
    """The table and its domains from how many nodes there are of each group; the same for the same groups in any order."""
    resources = tuple(sorted({name for group in groups for name in (*group.allocatable, *group.free)}))

    def amounts(vector: ResourceVector) -> tuple[int, ...]:
        return tuple(vector.get(name) for name in resources)

    keys = sorted({(group.labels, group.taints, amounts(group.allocatable)) for group in groups})
    index = {key: number for number, key in enumerate(keys)}
    domains = tuple(sorted({group.domain for group in groups if group.domain}))
    place = {"": -1} | {domain: number for number, domain in enumerate(domains)}
    rows = sorted(
        (index[group.labels, group.taints, amounts(group.allocatable)], place[group.domain], *amounts(group.free), count)
        for group, count in groups.items()
        if count
    )
    classes = tuple(NodeClass(dict(labels), taints, size) for labels, taints, size in keys)
    return NodeTable(resources, classes, tuple(rows)), domains


# --- the served object -----------------------------------------------------------------------------------------------
class Shape(Model):
    """Work that waits at the hub and would like to know whether it fits."""

    hash: str
    requirements: Object | None = None
    minimum: int | None = None
    queue: str | None = None
    priority: int | None = None


class CapacitySpec(Model):
    label_keys: Annotated[list[str] | None, served(maxItems=256)] = None
    """Labels by which nodes must be told apart."""
    shapes: Annotated[list[Shape] | None, served(maxItems=64)] = None


class ClusterCapacity(Resource):
    """What a member can take: free nodes, queues, waiting work."""

    served_as: ClassVar[kinds.Kind] = kinds.CLUSTER_CAPACITY

    spec: CapacitySpec = CapacitySpec()
    status: Annotated[dict[str, Any] | None, Field(json_schema_extra=dict(OPAQUE))] = None
