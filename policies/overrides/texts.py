"""RFC 6902 changes of objects, and of texts that hold JSON or YAML."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec
import yaml

from policies.overrides.views import Fault, FieldChange, PlainChange, TextChange

LONGEST_TEXT: Final = 1 << 20
"""Characters of a text that is looked into: more does not go into a Work (protocol.md 7)."""


class _Reader(yaml.SafeLoader):
    """YAML as JSON has it: what looks like a date stays text."""


_Reader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def patched(tree: Any, changes: Sequence[PlainChange | TextChange], *, field: str, item: str) -> Any:
    """The tree after the changes, in order; raises Fault. `field[n].item` is where the path of change n is written."""
    for at, change in enumerate(changes):
        operation: dict[str, Any] = {"op": change.operator, "path": change.path}
        if change.operator != "remove":
            operation["value"] = copy.deepcopy(None if change.value is msgspec.UNSET else change.value)
        try:
            tree = jsonpatch.JsonPatch([operation]).apply(tree, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError, IndexError) as error:
            place = f"{field}[{at}].{item}"
            raise Fault(f"{change.operator} of {change.path!r} is not possible: {error}", field=place) from error
    return tree


def text_patched(tree: Any, change: FieldChange, *, field: str) -> None:
    """Change the text at `change.field_path` in place; raises Fault."""
    try:
        pointer = jsonpointer.JsonPointer(change.field_path)
        text = pointer.resolve(tree)
    except jsonpointer.JsonPointerException as error:
        raise Fault(f"there is no {change.field_path!r}: {error}", field=f"{field}.fieldPath") from error
    if not isinstance(text, str):
        raise Fault(f"{change.field_path!r} is no text but {type(text).__name__}", field=f"{field}.fieldPath")
    if len(text) > LONGEST_TEXT:
        raise Fault(f"{change.field_path!r} is longer than {LONGEST_TEXT} characters", field=f"{field}.fieldPath")
    if change.json is not None:
        content = patched(_json(text, field=field), change.json, field=f"{field}.json", item="subPath")
        pointer.set(tree, msgspec.json.encode(content).decode())
    else:
        content = patched(_yaml(text, field=field), change.yaml or (), field=f"{field}.yaml", item="subPath")
        pointer.set(tree, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1 << 16))


def _json(text: str, *, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Fault(f"the text is no JSON: {error}", field=f"{field}.fieldPath") from error


def _yaml(text: str, *, field: str) -> Any:
    """One document. Aliases are refused: a change of one place would change others, and a few lines of them fill a memory."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Reader)):
            raise Fault("the text has YAML aliases", field=f"{field}.fieldPath")
        content = yaml.load(text, Loader=_Reader)  # a SafeLoader with fewer types
        msgspec.json.encode(content)
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise Fault(f"the text is no YAML that JSON could say: {error}", field=f"{field}.fieldPath") from error
    return content
