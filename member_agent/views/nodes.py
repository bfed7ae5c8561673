"""Nodes as the agent keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from apis.vectors import ResourceVector
from machinery.port import Document
from member_agent.views.meta import Condition, Meta, Wire, condition
from policies.shapes import Taint

Images = tuple[tuple[str, int], ...]

IMAGES_KEPT: Final = 1 << 15
"""Images that nodes share in memory; then sharing starts anew."""

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Taint by which a person declares that nothing runs on a node any more (Kubernetes, non-graceful node shutdown)."""


class _WireTaint(Wire, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""


class _NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[_WireTaint] | None = None


class _NodeInfo(Wire, frozen=True):
    boot_id: str = msgspec.field(name="bootID", default="")


class _Image(Wire, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class _NodeStatus(Wire, frozen=True):
    allocatable: dict[str, Any] | None = None
    images: list[_Image] | None = None
    conditions: list[Condition] | None = None
    node_info: _NodeInfo = _NodeInfo()


class _Node(Wire, frozen=True):
    metadata: Meta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `ready` is its kubelet's own word; `cordoned` is `spec.unschedulable`."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cordoned: bool
    ready: bool
    boot_id: str
    allocatable: ResourceVector
    namespace: str = field(default="")
    images: Images = ()
    """Container images that are there already, with their sizes in bytes, by name."""

    @property
    def out_of_service(self) -> bool:
        """A person declared that nothing runs here any more."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.taints)


@lru_cache(maxsize=IMAGES_KEPT)
def _image(name: str, size: int) -> tuple[str, int]:
    """One object for an image, however many nodes have it."""
    return name, size


_node = msgspec.json.Decoder(_Node).decode


def project_node(document: Document) -> NodeView:
    """A node as the agent keeps it; raises InvalidQuantity."""
    node = _node(document)
    ready = condition(tuple(node.status.conditions or ()), "Ready")
    return NodeView(
        name=node.metadata.name,
        uid=node.metadata.uid,
        version=node.metadata.resource_version,
        labels=node.metadata.labels or {},
        taints=tuple(Taint(each.key, each.value or "", each.effect) for each in node.spec.taints or ()),
        cordoned=node.spec.unschedulable,
        ready=ready is not None and ready.status == "True",
        boot_id=node.status.node_info.boot_id,
        allocatable=ResourceVector.from_quantities(node.status.allocatable).bounded(),
        images=tuple(sorted(_image(name, each.size_bytes) for each in node.status.images or () for name in each.names or ())),
    )
