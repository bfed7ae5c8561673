"""Dominant resource fairness (Ghodsi and others, NSDI 2011), and over a hierarchy (Bhattacharya and others, SoCC 2013)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def dominant(held: Mapping[str, int], available: Mapping[str, int]) -> float:
    """The largest share of any resource of the cluster, 0..1; a resource that the cluster has none of counts as all of it."""
    most = 0.0
    for name, amount in held.items():
        if amount > 0:
            there = available.get(name, 0)
            most = max(most, amount / there if there > 0 else 1.0)
    return most


@dataclass(frozen=True, slots=True)
class Leaf:
    """A queue at the end of a path of names below the root, with a weight per step. `blocked`: it wants nothing more, or can
    get nothing more."""

    path: tuple[str, ...]
    weights: tuple[int, ...]
    held: Mapping[str, int]
    blocked: bool = False


@dataclass(slots=True)
class _Node:
    weight: int = 1
    blocked: bool = False
    held: dict[str, float] = field(default_factory=dict)
    share: float = 0.0
    children: dict[str, _Node] = field(default_factory=dict)


Steps = tuple[tuple[bool, float], ...]
"""Per level below the root: whether it is blocked, and its share by weight."""


def hierarchical(leaves: Sequence[Leaf], *, available: Mapping[str, int]) -> Mapping[tuple[str, ...], Steps]:
    """Keys by which queues are ordered: the smaller one is to be served next.

    Going up, an inner node's children that want more are scaled down to the least of them by weight before they are added up:
    otherwise a group whose members use different resources would look as if it had less than it has. Blocked ones count as
    they are.
    """
    root = _Node()
    nodes = [root]
    for leaf in sorted(leaves, key=lambda each: each.path):
        node = root
        for name, weight in zip(leaf.path, leaf.weights, strict=True):
            if name not in node.children:
                node.children[name] = _Node(max(weight, 1))
                nodes.append(node.children[name])
            node = node.children[name]
        node.held = {name: float(amount) for name, amount in leaf.held.items()}
        node.blocked = leaf.blocked
    for node in reversed(nodes):  # children before parents
        _fold(node, available)
    return {leaf.path: _steps(root, leaf.path) for leaf in leaves}


def _fold(node: _Node, available: Mapping[str, int]) -> None:
    """Fill in what an inner node holds and whether it is blocked, from its children."""
    children = [child for _, child in sorted(node.children.items())]
    if children:
        wanting = [child.share / child.weight for child in children if not child.blocked and child.share > 0]
        least = min(wanting, default=0.0)
        node.blocked = all(child.blocked for child in children)
        node.held = {}
        for child in children:
            scale = 1.0 if child.blocked or not child.share else least * child.weight / child.share
            for name, amount in child.held.items():
                node.held[name] = node.held.get(name, 0.0) + amount * scale
    ratios = (amount / available[name] if available.get(name, 0) > 0 else 1.0 for name, amount in node.held.items() if amount)
    node.share = max(ratios, default=0.0)


def _steps(root: _Node, path: tuple[str, ...]) -> Steps:
    node, found = root, []
    for name in path:
        node = node.children[name]
        found.append((node.blocked, node.share / node.weight))
    return tuple(found)
