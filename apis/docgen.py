"""Reference pages from the models.

    python -m apis.docgen          writes docs/reference/api/*.md, one page per group

Each kind is a table of its fields, from the schema that is served: what is written in a manifest and what API servers check are
one thing. Fields inside opaque objects (pod templates, whatever a policy carries along) are not of this project and not shown.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from apis.crdgen import schema
from apis.served import SERVED, Served

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference" / "api"
NOTE: Final = (
    "Written by `python -m apis.docgen` from the models; do not edit. "
    "Every object has `apiVersion`, `kind` and `metadata` besides."
)
LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "{} characters or more",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} of them",
}
OWN: Final = frozenset({"apiVersion", "kind", "metadata"})

Schema = dict[str, Any]


def pages() -> dict[str, str]:
    """Every page by its name."""
    groups: dict[str, list[Served]] = defaultdict(list)
    for served in SERVED:
        groups[served.kind.group].append(served)
    found = {f"{group}.md": _page(group, groups[group]) for group in sorted(groups)}
    lines = [
        f"| [{group}]({group}.md) | {', '.join(sorted(served.kind.kind for served in groups[group]))} |"
        for group in sorted(groups)
    ]
    index = ["# API reference", "", NOTE, "", "| Group | Kinds |", "|---|---|", *lines]
    return {"README.md": "\n".join(index) + "\n"} | found


def _page(group: str, listed: list[Served]) -> str:
    lines = [f"# {group}", "", NOTE]
    for served in sorted(listed, key=lambda each: each.kind.kind):
        kind, tree = served.kind, schema(served)
        scope = "namespaced" if kind.namespaced else "of the cluster"
        lines += ["", f"## {kind.kind}", "", f"`{kind.api_version}`, `{kind.plural}`, {scope}."]
        if described := _text(tree.get("description", "")):
            lines += ["", described]
        rows = list(_rows({key: value for key, value in tree["properties"].items() if key not in OWN}, tree, path=""))
        lines += ["", "| Field | Type | Meaning |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _rows(fields: Schema, parent: Schema, *, path: str) -> Iterator[str]:
    needed = parent.get("required", ())
    for name, field in fields.items():
        here, inner, shown = f"{path}{name}", field, f"{path}{name}"
        while inner.get("type") == "array" or isinstance(inner.get("additionalProperties"), dict):
            listed = inner.get("type") == "array"
            inner, shown = (
                (inner.get("items") or {} if listed else inner["additionalProperties"]),
                shown + ("[]" if listed else ".*"),
            )
        text = _text(field.get("description") or inner.get("description") or "")
        facts = ", ".join([*(["needed"] if name in needed else []), *_limits(field)])
        meaning = " ".join(each for each in (text, f"({facts})" if facts else "") if each)
        yield f"| `{here}` | {_type(field)} | {meaning or '-'} |"
        if inner.get("properties") and inner is not parent:
            yield from _rows(inner["properties"], inner, path=f"{shown}.")


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items') or {})}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("type", "anything"))


def _limits(field: Schema) -> Iterator[str]:
    if "enum" in field:
        yield "one of " + ", ".join(f"`{each}`" for each in field["enum"] if each != "")
    if "default" in field:
        yield f"default `{field['default']}`"
    for key, said in LIMITS.items():
        if key in field:
            yield said.format(field[key])


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    """Write the pages; those of groups that there are no more go."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for gone in {path.name for path in FOLDER.glob("*.md")} - written.keys():
        (FOLDER / gone).unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
