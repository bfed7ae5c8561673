"""The rules of a Queue (reference/volcano.md 2.2): its numbers, its state, its place in the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from apis.keys import DEFAULT_QUEUE, ROOT_QUEUE
from apis.quantities import InvalidQuantity
from apis.scheduling import CLOSED, OPEN, Queue, ResourceList
from apis.vectors import EMPTY, ResourceVector, total
from controllers.admission.problems import Problem, among, at_least
from policies.queue_doors import NAMESPACES, UnreadableSelector, requirements

MAX_DEPTH: Final = 5
MAX_WEIGHT: Final = 65535
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
STRATEGIES: Final = ("fifo", "traverse")

Queues = Mapping[str, Queue]
"""Every Queue there is, by name; the one that is judged may be missing or older in it."""


def validate_queue(
    queue: Queue, *, queues: Queues, holds_pods: Callable[[str], bool] = lambda name: False, max_depth: int = MAX_DEPTH
) -> list[Problem]:
    """Everything that keeps a new or changed Queue from being taken."""
    spec = queue.spec
    found = [*at_least(1, spec.weight, field="spec.weight"), *at_least(0, spec.priority, field="spec.priority")]
    if spec.weight is not None and spec.weight > MAX_WEIGHT:
        found.append(Problem("spec.weight", f"{spec.weight} should be less than or equal to {MAX_WEIGHT}"))
    found += among(STRATEGIES, spec.dequeue_strategy, field="spec.dequeueStrategy")
    state = queue.status.state if queue.status else None
    found += among((OPEN, CLOSED), state, field="status.state")
    found += _door_problems(queue)
    found += _amount_problems(queue)
    found += _hierarchy_problems(queue, queues=queues)
    if queue.metadata.name != ROOT_QUEUE:
        found += _tree_problems(queue, queues=queues, holds_pods=holds_pods, max_depth=max_depth)
    return found


def validate_queue_update(
    old: Queue,
    *,
    new: Queue,
    queues: Queues,
    holds_pods: Callable[[str], bool] = lambda name: False,
    max_depth: int = MAX_DEPTH,
    fixed_root: bool = False,
) -> list[Problem]:
    """Everything that keeps a changed Queue from being taken. A state that was there before is nobody's request; `fixed_root`:
    the amounts of the root queue stay as they are."""
    was, wanted = (each.status.state if each.status else None for each in (old, new))
    judged = new if was != wanted or new.status is None else new.model_copy(update={"status": None})
    found = validate_queue(judged, queues=queues, holds_pods=holds_pods, max_depth=max_depth)
    if fixed_root and new.metadata.name == ROOT_QUEUE:
        for field in ("capability", "deserved", "guarantee"):
            if getattr(old.spec, field) != getattr(new.spec, field):
                found.append(Problem(f"spec.{field}", "the resources of the root queue may not be changed"))
    return found


def default_queue(queue: Queue) -> Queue:
    """The Queue completed: weight 1, reclaimable, and the older form of the tree begins at root."""
    spec = queue.spec
    filled = {"weight": spec.weight or 1, "reclaimable": True if spec.reclaimable is None else spec.reclaimable}
    update: dict[str, object] = {"spec": spec.model_copy(update=filled)}
    notes = queue.metadata.annotations or {}
    path, weights = notes.get(HIERARCHY, ""), notes.get(HIERARCHY_WEIGHTS, "")
    if path and path.split("/")[0] != ROOT_QUEUE:
        notes = {**notes, HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}
        update["metadata"] = queue.metadata.model_copy(update={"annotations": notes})
    return queue.model_copy(update=update)


def validate_queue_deletion(
    name: str, *, queues: Queues, holds_pods: Callable[[str], bool] = lambda name: False
) -> list[Problem]:
    """Everything that keeps a Queue from being deleted. An open queue may be; one with pods may too unless `holds_pods` is
    asked."""
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        return [Problem("metadata.name", f"`{name}` queue can not be deleted")]
    children = sorted(other.metadata.name for other in queues.values() if parent_of(other) == name)
    if children:
        return [
            Problem(
                "metadata.name",
                f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}",
            )
        ]
    if holds_pods(name):
        return [Problem("metadata.name", f"queue {name} can not be deleted because pods of it hold room")]
    return []


def parent_of(queue: Queue) -> str:
    """The parent's name: root where none is given, empty for root itself."""
    return "" if queue.metadata.name == ROOT_QUEUE else queue.spec.parent or ROOT_QUEUE


def is_leaf(name: str, *, queues: Queues) -> bool:
    """Whether no Queue names this one as its parent."""
    return all(parent_of(queue) != name for queue in queues.values())


def _amount_problems(queue: Queue) -> list[Problem]:
    spec = queue.spec
    reserved = spec.guarantee.resource if spec.guarantee else None
    lists = {"spec.capability": spec.capability, "spec.deserved": spec.deserved, "spec.guarantee.resource": reserved}
    found = [
        Problem(f"{field}.{name}", f"{(amounts or {})[name]!r} is negative")
        for field, amounts in lists.items()
        for name, amount in _read(amounts).items()
        if amount < 0
    ]
    capability, deserved, guarantee = (_read(amounts) for amounts in lists.values())
    ceiling = set(spec.capability or {})
    for name in sorted(set(spec.deserved or {}) & ceiling):
        if deserved.get(name) > capability.get(name):
            found.append(
                Problem(f"spec.deserved.{name}", _wording("deserved", spec.deserved, name, "capability", spec.capability))
            )
    for name in sorted(reserved or {}):
        if name in ceiling and guarantee.get(name) > capability.get(name):
            found.append(
                Problem(f"spec.guarantee.resource.{name}", _wording("guarantee", reserved, name, "capability", spec.capability))
            )
        if guarantee.get(name) > deserved.get(name):
            shown = (spec.deserved or {}).get(name, 0)
            found.append(Problem(f"spec.deserved.{name}", f"deserved {shown} must be >= guarantee {(reserved or {})[name]}"))
    return found


def _wording(small: str, amounts: ResourceList | None, name: str, large: str, bounds: ResourceList | None) -> str:
    return f"{small} {(amounts or {})[name]} must be <= {large} {(bounds or {})[name]}"


def _read(amounts: ResourceList | None) -> ResourceVector:
    """Amounts as a vector; reading the Queue has refused malformed ones already."""
    try:
        return ResourceVector.from_quantities(amounts)
    except InvalidQuantity:
        return EMPTY


def _hierarchy_problems(queue: Queue, *, queues: Queues) -> list[Problem]:
    """The older form of the tree, in annotations."""
    notes = queue.metadata.annotations or {}
    path, weights = notes.get(HIERARCHY, ""), notes.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return []
    field = f"metadata.annotations[{HIERARCHY}]"
    found = []
    parts = weights.split("/")
    if len(path.split("/")) != len(parts):
        found.append(Problem(field, f"{HIERARCHY} {path!r} must have the same length with {HIERARCHY_WEIGHTS} {weights!r}"))
    for part in parts:
        if not _positive(part):
            found.append(
                Problem(f"metadata.annotations[{HIERARCHY_WEIGHTS}]", f"{part!r} in {weights!r} must be a number larger than 0")
            )
    for other in sorted(queues.values(), key=lambda each: each.metadata.name):
        theirs = (other.metadata.annotations or {}).get(HIERARCHY, "")
        if path and other.metadata.name != queue.metadata.name and theirs.startswith(f"{path}/"):
            found.append(
                Problem(field, f"{path!r} is not allowed to be in the sub path of {theirs!r} of queue {other.metadata.name}")
            )
    return found


def _positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _tree_problems(queue: Queue, *, queues: Queues, holds_pods: Callable[[str], bool], max_depth: int) -> list[Problem]:
    name, parent = queue.metadata.name, parent_of(queue)
    if parent == name:
        return [Problem("spec.parent", "a queue may not be its own parent")]
    known = {**queues, name: queue}
    if parent not in known and parent != ROOT_QUEUE:
        return [Problem("spec.parent", f"queue {parent!r} does not exist")]
    line = _ancestors(name, queues=known)
    if line is None:
        return [Problem("spec.parent", f"queue {name!r} would be its own ancestor")]
    found = []
    depth = len(line) + _height(name, queues=known)
    if depth > max_depth:
        found.append(Problem("spec.parent", f"the tree would be {depth} deep below root, at most {max_depth} is allowed"))
    if parent != ROOT_QUEUE and is_leaf(parent, queues=queues) and holds_pods(parent):
        found.append(Problem("spec.parent", f"queue {parent!r} holds pods and can not become a parent"))
    return found + _share_problems(queue, line=line, queues=known)


def _ancestors(name: str, *, queues: Queues) -> list[str] | None:
    """The line from the parent up to root; None where it runs in a circle."""
    line: list[str] = []
    while name != ROOT_QUEUE and name in queues:
        name = parent_of(queues[name])
        if name in line:
            return None
        line.append(name)
    return line


def _height(name: str, *, queues: Queues) -> int:
    """Levels below a Queue; the tree is known to have no circle through it."""
    level, height = {name}, 0
    while height <= len(queues):
        level = {other for other, queue in queues.items() if parent_of(queue) in level}
        if not level:
            break
        height += 1
    return height


def _share_problems(queue: Queue, *, line: list[str], queues: Queues) -> list[Problem]:
    found = []
    for resource, asked in _read(queue.spec.capability).items():
        for ancestor in line:
            bound = queues[ancestor].spec.capability if ancestor in queues else None
            if bound and resource in bound:
                if asked > _read(bound).get(resource):
                    text = (
                        f"{(queue.spec.capability or {})[resource]} must be <= capability {bound[resource]} of queue {ancestor}"
                    )
                    found.append(Problem(f"spec.capability.{resource}", text))
                break
    parent = queues.get(line[0]) if line else None
    if parent is not None and parent.metadata.name != ROOT_QUEUE:
        found += _sum_problems(parent, queues=queues, judged=queue.metadata.name)
    found += _sum_problems(queue, queues=queues, judged=queue.metadata.name)
    return found


def _sum_problems(parent: Queue, *, queues: Queues, judged: str) -> list[Problem]:
    """What the children of a Queue are promised together is at most what it is promised itself."""
    children = [queue for queue in queues.values() if parent_of(queue) == parent.metadata.name]
    found = []
    if not children:
        return []
    for what, field in ((_guarantee, "spec.guarantee.resource"), (_deserved, "spec.deserved")):
        short = total(what(child) for child in children).shortfall(what(parent))
        for name in short:
            text = f"the children of queue {parent.metadata.name} are promised more {name} than it has (judged: {judged})"
            found.append(Problem(f"{field}.{name}", text))
    return found


def _guarantee(queue: Queue) -> ResourceVector:
    return _read(queue.spec.guarantee.resource if queue.spec.guarantee else None)


def _deserved(queue: Queue) -> ResourceVector:
    return _read(queue.spec.deserved)


def _door_problems(queue: Queue) -> list[Problem]:
    """A selector of namespaces that cannot be read would keep everybody out."""
    text = (queue.metadata.annotations or {}).get(NAMESPACES)
    if text is None:
        return []
    try:
        requirements(text)
    except UnreadableSelector as error:
        return [Problem(f"metadata.annotations[{NAMESPACES}]", str(error))]
    return []
