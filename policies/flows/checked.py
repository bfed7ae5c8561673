"""A flow's spec with what follows from it alone: its graph, its order, what is wrong with it. Worked out once for each spec,
since a flow is looked at hundreds of times and its spec hardly ever changes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from policies.flows.graph import FlowGraph, Problem
from policies.flows.rules import problems
from policies.flows.spec import FlowSpec, Step, named

_decoder: Final = msgspec.json.Decoder(FlowSpec)


class Checked:
    """Values that never change; equal for equal specs."""

    def __init__(self, spec: FlowSpec) -> None:
        self.spec = spec

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Those of `flows`, each name once."""
        return tuple(named(self.spec.flows).values())

    @functools.cached_property
    def graph(self) -> FlowGraph:
        """What depends on what."""
        return FlowGraph({step.name: step.targets for step in self.steps})

    @functools.cached_property
    def order(self) -> tuple[str, ...]:
        """Targets before what waits for them; of a sound spec alone."""
        return tuple(self.graph.ordered())

    @functools.cached_property
    def ahead(self) -> Mapping[str, float]:
        """Steps on the longest path from each; of a sound spec alone."""
        return self.graph.ahead()

    @functools.cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What keeps it from being run."""
        return tuple(problems(self.spec))


_known: Final[WeakValueDictionary[bytes, Checked]] = WeakValueDictionary()
"""By digest of the bytes, as long as anybody has them."""


def checked(spec: bytes) -> Checked:
    """Read a spec, or find the one that was read from the same bytes; raises msgspec's errors."""
    digest = hashlib.blake2b(spec, digest_size=16).digest()
    found = _known.get(digest)
    if found is None:
        found = _known[digest] = Checked(_decoder.decode(spec))
    return found
