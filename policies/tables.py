"""Lifecycles as data: states, events and edges in one table that fires, refuses and draws itself.

The shape follows h11's state tables: edges are data, an edge that is not there is an error that changes nothing, and the
diagram in `docs/lifecycles` is drawn from the table itself, so that it cannot lie.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class UnknownEdge(Exception):
    """An event that the state does not know; nothing changed. The message tells the object's story."""


@dataclass(frozen=True)
class Table(Generic[S, E]):
    """`edges` maps (state, event) to the next state; `meaning` says each state in a sentence."""

    name: str
    initial: S
    edges: Mapping[tuple[S, E], S]
    meaning: Mapping[S, str]
    actions: Mapping[E, str] = field(default_factory=dict)
    """What an event makes the program do, where the name of the event does not say it all."""

    def step(self, state: S, event: E, *, story: str) -> S:
        """The state after `event`; raises UnknownEdge with `story` when the table has no such edge."""
        try:
            return self.edges[state, event]
        except KeyError:
            raise UnknownEdge(f"{self.name}: {state.value} does not know {event.value}; {story}") from None

    def knows(self, state: S, event: E) -> bool:
        """Whether `event` is defined for `state`."""
        return (state, event) in self.edges

    @property
    def terminal(self) -> frozenset[S]:
        """States that no edge leaves for another state."""
        left = {source for (source, _), target in self.edges.items() if target is not source}
        return frozenset(state for state in self.meaning if state not in left)

    def document(self) -> str:
        """The Markdown page of this lifecycle: a Mermaid diagram and a sentence per state."""
        lines = [
            f"# Lifecycle: {self.name}",
            "",
            "Generated from the table; a test compares.",
            "",
            "```mermaid",
            "stateDiagram-v2",
        ]
        lines.append(f"    [*] --> {_ident(self.initial)}")
        grouped: dict[tuple[S, S], list[str]] = {}
        for (source, event), target in self.edges.items():
            grouped.setdefault((source, target), []).append(event.value)
        for (source, target), events in grouped.items():
            lines.append(f"    {_ident(source)} --> {_ident(target)}: {', '.join(events)}")
        lines += [f"    {_ident(state)} --> [*]" for state in self.meaning if state in self.terminal]
        lines += ["```", "", "| State | Meaning |", "|---|---|"]
        lines += [f"| {state.value} | {text} |" for state, text in self.meaning.items()]
        if self.actions:
            lines += ["", "| Event | What is done |", "|---|---|"]
            lines += [f"| {event.value} | {text} |" for event, text in self.actions.items()]
        return "\n".join(lines) + "\n"


def _ident(state: enum.Enum) -> str:
    return str(state.value).replace(" ", "_")
