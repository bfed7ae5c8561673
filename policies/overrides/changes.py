"""The overriders, each a change of a manifest in place. Upstream's order is that of `ORDER`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import jsonpointer

from policies.overrides import images, texts
from policies.overrides.views import Fault, ImageChange, KeysChange, ListChange, Overriders
from policies.pod_places import Tree, pods_of


def change_images(manifest: Tree, changes: Sequence[ImageChange], *, field: str) -> None:
    """Of the one text at a predicate's path; else of every container of every task, init containers included."""
    for at, change in enumerate(changes):
        place = f"{field}[{at}]"
        if change.predicate is not None:
            _change_image_at(manifest, change, path=change.predicate.path, field=f"{place}.predicate.path")
            continue
        for pod in pods_of(manifest):
            for container in pod.containers(init=True):
                if isinstance(container.get("image"), str):
                    container["image"] = _image(container["image"], change, field=place)


def _change_image_at(manifest: Tree, change: ImageChange, *, path: str, field: str) -> None:
    try:
        pointer = jsonpointer.JsonPointer(path)
        text = pointer.resolve(manifest)
    except jsonpointer.JsonPointerException as error:
        raise Fault(f"there is no {path!r}: {error}", field=field) from error
    if not isinstance(text, str):
        raise Fault(f"{path!r} is no text but {type(text).__name__}", field=field)
    pointer.set(manifest, _image(text, change, field=field))


def _image(text: str, change: ImageChange, *, field: str) -> str:
    try:
        return images.changed(text, change)
    except Fault as fault:
        raise Fault(fault.reason, field=f"{field}.value") from fault


def change_commands(manifest: Tree, changes: Sequence[ListChange], *, field: str) -> None:
    """Commands of containers by name."""
    _change_lists(manifest, changes, key="command")


def change_args(manifest: Tree, changes: Sequence[ListChange], *, field: str) -> None:
    """Arguments of containers by name."""
    _change_lists(manifest, changes, key="args")


def _change_lists(manifest: Tree, changes: Sequence[ListChange], *, key: str) -> None:
    for change in changes:
        task, _, name = change.container_name.rpartition("/")
        for pod in pods_of(manifest):
            if task not in ("", pod.task):
                continue
            for container in pod.containers(init=True):
                if container.get("name") == name:
                    _change_list(container, change, key=key)


def _change_list(container: Tree, change: ListChange, *, key: str) -> None:
    given, listed = list(change.value or []), list(container.get(key) or [])
    if change.operator == "add":
        container[key] = [*listed, *given]
    elif key in container:
        container[key] = [each for each in listed if each not in given]


def change_labels(manifest: Tree, changes: Sequence[KeysChange], *, field: str) -> None:
    """Labels of the object."""
    _change_keys(manifest, changes, key="labels")


def change_annotations(manifest: Tree, changes: Sequence[KeysChange], *, field: str) -> None:
    """Annotations of the object."""
    _change_keys(manifest, changes, key="annotations")


def _change_keys(manifest: Tree, changes: Sequence[KeysChange], *, key: str) -> None:
    """`add` makes what is not there; `replace` and `remove` touch only what is."""
    metadata = manifest.setdefault("metadata", {})
    for change in changes:
        values = dict(metadata.get(key) or {})
        for name, value in (change.value or {}).items():
            if change.operator == "add" or (change.operator == "replace" and name in values):
                values[name] = value
            elif change.operator == "remove":
                values.pop(name, None)
        if values or key in metadata:
            metadata[key] = values


def apply(manifest: Tree, overriders: Overriders) -> Tree:
    """All overriders of one rule in upstream's order; the manifest is changed in place where it can be. Raises Fault."""
    for name, change in ORDER:
        listed = getattr(overriders, name)
        if listed:
            change(manifest, listed, field=f"{name}Overrider")
    for at, each in enumerate(overriders.field or ()):
        texts.text_patched(manifest, each, field=f"fieldOverrider[{at}]")
    tree: Tree = texts.patched(manifest, overriders.plaintext or (), field="plaintext", item="path")
    return tree


ORDER: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    ("image", change_images),
    ("command", change_commands),
    ("args", change_args),
    ("labels", change_labels),
    ("annotations", change_annotations),
)
"""Image, command, args, labels, annotations; then field and plaintext."""
