"""A flow as a picture: text for a terminal, Mermaid for pages, Graphviz for everything else. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import networkx

from controllers.flows.snapshot import FlowView
from fedctl.table import StepRow

MARKS: Final[Mapping[str, str]] = {
    "Completed": "✔",
    "Running": "●",
    "Completing": "●",
    "Failed": "✘",
    "Terminated": "✘",
    "Aborted": "✘",
    "Retrying": "↻",
    "Skipped": "⤼",
    "Pending": "○",
}
"""A mark per state; `·` for a step that has not begun."""

COLORS: Final[Mapping[str, str]] = {
    "Completed": "#2e7d32",
    "Running": "#1565c0",
    "Completing": "#1565c0",
    "Failed": "#c62828",
    "Terminated": "#c62828",
    "Aborted": "#c62828",
    "Retrying": "#ef6c00",
    "Skipped": "#757575",
    "Pending": "#f9a825",
}


def states(rows: Sequence[StepRow]) -> dict[str, str]:
    """One state per step; of a fan-out the one that matters most."""
    found: dict[str, str] = {}
    order = (
        "Failed",
        "Terminated",
        "Aborted",
        "Retrying",
        "Running",
        "Completing",
        "Pending",
        "Waiting",
        "Skipped",
        "Completed",
    )
    for row in rows:
        before = found.get(row.name)
        rank = {state: place for place, state in enumerate(order)}
        if before is None or rank.get(row.phase, 0) < rank.get(before, 0):
            found[row.name] = row.phase
    return found


def text(flow: FlowView, rows: Sequence[StepRow]) -> str:
    """The graph as lines; a step with several targets stands below the first and names the others."""
    known = states(rows)
    graph = networkx.DiGraph()
    for step in flow.steps:
        graph.add_node(step.name, label=f"{MARKS.get(known.get(step.name, ''), '·')} {step.name}{_items(step.name, rows)}")
    graph.add_edges_from((target, step.name) for step in flow.steps for target in step.targets)
    return "\n".join(networkx.generate_network_text(graph, with_labels="label", vertical_chains=False))


def _items(step: str, rows: Sequence[StepRow]) -> str:
    items = [row for row in rows if row.name == step and row.item >= 0]
    return f" ({sum(row.phase == 'Completed' for row in items)} of {len(items)})" if items else ""


def mermaid(flow: FlowView, rows: Sequence[StepRow] = ()) -> str:
    """A Mermaid flowchart, coloured by state."""
    known = states(rows)
    ids = {step.name: f"s{index}" for index, step in enumerate((*flow.steps, *flow.handlers))}
    lines = ["flowchart LR"]
    lines += [f'  {ids[step.name]}["{_quoted(step.name)}{_items(step.name, rows)}"]' for step in flow.steps]
    lines += [f'  {ids[step.name]}(["{_quoted(step.name)}"])' for step in flow.handlers]
    for step in flow.steps:
        word = f'|"{_quoted(step.when)}"|' if step.when else ""
        lines += [f"  {ids[target]} -->{word} {ids[step.name]}" for target in step.targets if target in ids]
    for name, state in known.items():
        if state in COLORS and name in ids:
            lines.append(f"  style {ids[name]} fill:{COLORS[state]},color:#fff")
    return "\n".join(lines) + "\n"


def _quoted(words: str) -> str:
    return words.replace("&", "#amp;").replace('"', "#quot;").replace("|", "#124;")


def graphviz(flow: FlowView, rows: Sequence[StepRow] = ()) -> str:
    """A DOT digraph, coloured by state."""
    known = states(rows)
    lines = [
        f"digraph {_dot(flow.name)} {{",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff"];',
    ]
    for step in (*flow.steps, *flow.handlers):
        color = COLORS.get(known.get(step.name, ""))
        paint = f', fillcolor="{color}", fontcolor="#ffffff"' if color else ""
        lines.append(f"  {_dot(step.name)} [label={_dot(step.name + _items(step.name, rows))}{paint}];")
    lines += [f"  {_dot(target)} -> {_dot(step.name)};" for step in flow.steps for target in step.targets]
    return "\n".join([*lines, "}"]) + "\n"


def _dot(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
