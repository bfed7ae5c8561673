"""Tables and other outputs of `get`. A table is plain text, as kubectl's: columns as wide as they must be, the last one
open."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fedctl import exits
from fedctl.desk import Desk, Stop

GAP: Final = "   "
FORMS: Final = ("", "wide", "json", "yaml", "name")


def text(header: Sequence[str], rows: Iterable[Sequence[str]], *, shown: bool = True) -> str:
    """The table; `shown`: with its header."""
    lines = [list(header), *map(list, rows)] if shown else [*map(list, rows)]
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in [list(header), *lines]) for column in range(len(header))]
    return "\n".join(GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def form(output: str) -> str:
    """Check `-o`. Stop when it is none that there is."""
    if output not in FORMS:
        raise Stop(f"-o {output}: one of {', '.join(FORMS[1:])}", code=exits.USAGE)
    return output


def objects(desk: Desk, trees: Sequence[Mapping[str, Any]], *, output: str, plural: str, one: bool) -> None:
    """Whole objects as JSON, YAML or names; a List unless exactly one was asked for by name."""
    if output == "name":
        for each in trees:
            desk.out(f"{plural}/{each['metadata']['name']}")
        return
    bare = [_without_managers(each) for each in trees]
    whole: Any = bare[0] if one and bare else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": bare}
    if output == "json":
        desk.out(json.dumps(whole, indent=2))
        return
    import yaml

    desk.out(yaml.safe_dump(whole, sort_keys=False, default_flow_style=False).rstrip("\n"))


def _without_managers(each: Mapping[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in each["metadata"].items() if name != "managedFields"}
    return {**each, "metadata": meta}
