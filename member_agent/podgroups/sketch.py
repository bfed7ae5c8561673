"""The PodGroup of a family, from one of its pods and its owner (reference/volcano.md 2.1). Pure: manifests in, manifests out.

What a pod says itself stands before what its owner says; the minimum is the owner's word first, because it is about all pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis import keys, kinds
from apis.quantities import InvalidQuantity
from apis.vectors import ResourceVector
from member_agent.podgroups.families import group_name
from member_agent.podgroups.owners import KNOWN, TEMPLATED, Reference, controller_of, inheritable, itself
from policies.quotas import quota_of

Manifest = dict[str, Any]
Annotations = Mapping[str, str]

MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
MODES: Final = ("hard", "soft")
CARRIED: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
"""Annotations of the pod that its group carries."""
BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Of these, the group carries the first that the pod has."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A PodGroup, and annotations that could not be read: each a sentence naming the annotation, what it says and what is done
    instead."""

    manifest: Manifest
    problems: tuple[str, ...]


def sketch(
    pod: Mapping[str, Any], owner: Mapping[str, Any] | None, *, inherit: bool, queue: str = keys.DEFAULT_QUEUE
) -> Sketch:
    """The group of this pod's family. `owner` is None for a bare pod and where it cannot be read; `inherit`: the owner's
    annotations are the group's as well; `queue`: where nobody names one."""
    problems: list[str] = []
    reference = controller_of(pod)
    own = pod["metadata"].get("annotations") or {}
    above = ((owner or {}).get("metadata") or {}).get("annotations") or {}
    inherited = inheritable(above) if inherit else {}
    minimum = _minimum({**own, **above}, problems)
    spec: Manifest = {
        "minMember": minimum,
        "queue": own.get(QUEUE) or inherited.get(QUEUE) or queue,
        "minResources": _resources({**own, **above}, _template(pod, owner, reference), minimum=minimum, problems=problems),
    }
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    topology = _topology({**inherited, **own}, problems)
    if topology:
        spec["networkTopology"] = topology
    parent = reference or itself(pod)
    manifest = {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": group_name(parent.uid),
            "namespace": pod["metadata"]["namespace"],
            "annotations": {**inherited, **_carried(own)},
            "ownerReferences": [parent.owner()],
        },
        "spec": spec,
    }
    return Sketch(manifest, tuple(problems))


def difference(present: Mapping[str, Any], wanted: Manifest) -> Manifest | None:
    """The merge patch that makes a group what it should be, None when it is. Annotations of others stay."""
    before = present.get("spec") or {}
    spec = {name: _replaced(before.get(name), value) for name, value in wanted["spec"].items() if before.get(name) != value}
    spec |= {name: None for name in ("priorityClassName", "networkTopology") if name in before and name not in wanted["spec"]}
    there, told = present["metadata"].get("annotations") or {}, wanted["metadata"]["annotations"]
    annotations = {name: text for name, text in told.items() if there.get(name) != text}
    annotations |= {name: None for name in (*CARRIED, *BUDGETS) if name in there and name not in told}
    if not spec and not annotations:
        return None
    patch: Manifest = {"metadata": {"uid": present["metadata"]["uid"]}}
    if annotations:
        patch["metadata"]["annotations"] = annotations
    if spec:
        patch["spec"] = spec
    return patch


def _replaced(before: Any, value: Any) -> Any:
    """A merge patch adds to a mapping: what is to leave it is named with null."""
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        return {**dict.fromkeys(before.keys() - value.keys()), **value}
    return value


def _template(pod: Mapping[str, Any], owner: Mapping[str, Any] | None, reference: Reference | None) -> Mapping[str, Any]:
    """What the family's pods are made from, the pod where its owner does not say."""
    kind = KNOWN.get((reference.api_version, reference.kind)) if reference is not None else None
    if owner is not None and kind in TEMPLATED:
        template = (owner.get("spec") or {}).get("template")
        if template:
            found: Mapping[str, Any] = template
            return found
    return pod


def _carried(own: Annotations) -> dict[str, str]:
    carried = {name: own[name] for name in CARRIED if name in own}
    budget = next((name for name in BUDGETS if name in own), None)
    return {**carried, budget: own[budget]} if budget is not None else carried


def _minimum(annotations: Annotations, problems: list[str]) -> int:
    text = annotations.get(MIN_MEMBER)
    if text is None:
        return 1
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    problems.append(f"annotation {MIN_MEMBER}: {text!r} is no count of pods from 1 on; 1 is taken")
    return 1


def _resources(annotations: Annotations, template: Mapping[str, Any], *, minimum: int, problems: list[str]) -> dict[str, str]:
    """The annotated amounts, else what the minimum of pods asks for."""
    text = annotations.get(MIN_RESOURCES)
    if text is not None:
        try:
            return ResourceVector.from_quantities(_mapping(text)).to_quantities()
        except (ValueError, InvalidQuantity) as error:
            problems.append(f"annotation {MIN_RESOURCES}: {error}; what {minimum} pods ask for is taken")
    return (quota_of(template) * minimum).to_quantities()


def _mapping(text: str) -> dict[str, Any]:
    read = orjson.loads(text)
    if not isinstance(read, dict):
        raise ValueError(f"{text!r} is no mapping from resource to amount")
    return read


def _topology(annotations: Annotations, problems: list[str]) -> Manifest:
    """`networkTopology`, empty where no annotation asks for one."""
    mode, tier = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_TIER)
    found: Manifest = {}
    if mode in MODES:
        found["mode"] = mode
    elif mode is not None:
        problems.append(f"annotation {TOPOLOGY_MODE}: {mode!r} is neither hard nor soft; it is left out")
    if tier is not None and tier.isascii() and tier.isdigit():
        found["highestTierAllowed"] = int(tier)
        found.setdefault("mode", MODES[0])  # as the API server defaults it
    elif tier is not None:
        problems.append(f"annotation {TOPOLOGY_TIER}: {tier!r} is no tier from 0 on; it is left out")
    return found
