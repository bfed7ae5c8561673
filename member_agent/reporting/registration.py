"""The Cluster object of this member: what it says of itself, and its status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from apis import kinds
from apis.vectors import EMPTY, ResourceVector, total
from member_agent.modes import AGENT_MODE, Ruling
from member_agent.settings import AgentSettings
from member_agent.views import NodeView

Doc = dict[str, Any]


class ForeignCluster(Exception):
    """The name is registered for another cluster; the message says which."""


NAME_TAKEN = "NameTaken"
"""Condition: an agent of another cluster asks for this name."""
FOREIGN_CONTROLLER = "ForeignController"
"""Condition: a Volcano acts on the Jobs that this agent has begun to run, so the agent does nothing."""


def cluster(settings: AgentSettings, *, uid: str, mode: str) -> Doc:
    """The Cluster as it is created; `mode`: who runs Jobs here."""
    spec: Doc = {"id": uid, "syncMode": "Pull"}
    if settings.push_secret:
        namespace, _, name = settings.push_secret.partition("/")
        spec |= {"syncMode": "Push", "secretRef": {"namespace": namespace, "name": name}}
    for name, value in (("provider", settings.provider), ("region", settings.region), ("zones", list(settings.zones))):
        if value:
            spec[name] = value
    return {
        "apiVersion": kinds.CLUSTER.api_version,
        "kind": kinds.CLUSTER.kind,
        "metadata": {"name": settings.cluster, "labels": dict(settings.labels), "annotations": {AGENT_MODE: mode}},
        "spec": spec,
    }


def updated(present: Mapping[str, Any], settings: AgentSettings, *, uid: str, mode: str) -> Doc | None:
    """The Cluster with our words in it and everybody else's kept; None when it says so already. Raises ForeignCluster."""
    owner = present["spec"].get("id") or uid
    if owner != uid:
        raise ForeignCluster(f"Cluster {settings.cluster} is registered for the cluster with id {owner}, this one is {uid}")
    wanted, before = cluster(settings, uid=uid, mode=mode), present["metadata"]
    spec = {**present["spec"], **wanted["spec"]}
    if spec["syncMode"] == "Pull":
        spec.pop("secretRef", None)
    labels = {**(before.get("labels") or {}), **settings.labels}
    notes = {**(before.get("annotations") or {}), AGENT_MODE: mode}
    if (spec, labels, notes) == (present["spec"], before.get("labels") or {}, before.get("annotations") or {}):
        return None
    return {**present, "metadata": {**before, "labels": labels, "annotations": notes}, "spec": spec}


def status(
    present: Mapping[str, Any] | None,
    *,
    nodes: Iterable[NodeView],
    allocated: ResourceVector,
    allocating: ResourceVector,
    version: str,
    enablements: list[Doc] | None,
    now: str,
    ruling: Ruling,
    lacking: Collection[str] = (),
) -> Doc:
    """The status: our fields and conditions; those of others are kept (the hub says Ready, from the Lease). `enablements`
    None: discovery did not answer; `lacking`: group versions that did not."""
    listed = list(nodes)
    before: Mapping[str, Any] = present or {}
    wanted = [
        _complete(enablements, lacking),
        *_foreign(before, ruling),
    ]
    found: Doc = {
        **before,
        "kubernetesVersion": version or before.get("kubernetesVersion", ""),
        "nodeSummary": {"totalNum": len(listed), "readyNum": sum(node.ready for node in listed)},
        "resourceSummary": {
            "allocatable": total(node.allocatable for node in listed).to_quantities(),
            "allocated": allocated.to_quantities(),
            "allocating": allocating.to_quantities(),
        },
        "conditions": merge(before.get("conditions") or [], wanted, now=now),
    }
    if enablements is not None:
        found["apiEnablements"] = enablements
    return found


def taken(present: Mapping[str, Any], *, uid: str, now: str) -> Doc | None:
    """The status of a Cluster whose name this cluster (`uid`) asks for and another has; None when it says so already."""
    owner, before = present["spec"].get("id", ""), present.get("status") or {}
    text = f"the agent of the cluster with id {uid} asks for this name, which the cluster with id {owner} has: rename one"
    wanted = _condition(NAME_TAKEN, "True", "TwoClustersOfOneName", text)
    conditions = before.get("conditions") or []
    if any({**each, "lastTransitionTime": None} == {**wanted, "lastTransitionTime": None} for each in conditions):
        return None
    return {**before, "conditions": merge(conditions, [wanted], now=now)}


def _complete(enablements: list[Doc] | None, lacking: Collection[str]) -> Doc:
    if enablements is None:
        return _condition("CompleteAPIEnablements", "Unknown", "DiscoveryFailed", "")
    if lacking:
        return _condition("CompleteAPIEnablements", "False", "PartialDiscovery", f"no answer from {', '.join(lacking)}")
    return _condition("CompleteAPIEnablements", "True", "Discovered", "")


def _foreign(before: Mapping[str, Any], ruling: Ruling) -> list[Doc]:
    """Said while it holds, and taken back where it was said."""
    if ruling.stands_off:
        message = (
            f"{', '.join(ruling.foreign)} are renewed: a Volcano runs Jobs here beside this agent, which does nothing until "
            "every Job has ended (then Volcano has them, with mode auto) or Volcano is removed"
        )
        return [_condition(FOREIGN_CONTROLLER, "True", "VolcanoIsRunning", message)]
    told = any(each["type"] == FOREIGN_CONTROLLER for each in before.get("conditions") or [])
    return [_condition(FOREIGN_CONTROLLER, "False", "AsExpected", f"mode {ruling.mode}")] if told else []


def _condition(type: str, state: str, reason: str, message: str) -> Doc:
    return {"type": type, "status": state, "reason": reason, "message": message}


def merge(present: list[Doc], wanted: list[Doc], *, now: str) -> list[Doc]:
    """Ours set, others kept; a time moves only with its status."""
    ours = {each["type"]: each for each in wanted}
    merged = []
    for each in present:
        mine = ours.pop(each["type"], None)
        if mine is None:
            merged.append(each)
            continue
        since = each.get("lastTransitionTime") if each.get("status") == mine["status"] else now
        merged.append({**mine, "lastTransitionTime": since or now})
    return merged + [{**each, "lastTransitionTime": now} for each in ours.values()]


def differs(old: Mapping[str, Any] | None, new: Mapping[str, Any], *, share: float) -> bool:
    """Whether the new status is worth a write: anything but amounts, or amounts by this share."""
    if old is None:
        return True
    plain = {name: value for name, value in new.items() if name != "resourceSummary"}
    if plain != {name: value for name, value in old.items() if name != "resourceSummary"}:
        return True
    before, after = old.get("resourceSummary") or {}, new["resourceSummary"]
    return any(
        _moved(
            ResourceVector.from_quantities(before.get(name)),
            ResourceVector.from_quantities(after[name]),
            whole=whole,
            share=share,
        )
        for name, whole in _wholes(after)
    )


def _wholes(after: Mapping[str, Any]) -> list[tuple[str, ResourceVector]]:
    allocatable = ResourceVector.from_quantities(after["allocatable"])
    return [("allocatable", EMPTY), ("allocated", allocatable), ("allocating", allocatable)]


def _moved(before: ResourceVector, after: ResourceVector, *, whole: ResourceVector, share: float) -> bool:
    """Whether any amount moved by `share` of the whole; at all, where there is no whole."""
    return any(abs(amount) > whole.get(name) * share for name, amount in (after - before).items())


def enablements(groups: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> list[Doc]:
    """`apiEnablements` from (groupVersion, (resource, kind)…), sorted."""
    return [
        {"groupVersion": version, "resources": [{"name": name, "kind": kind} for name, kind in sorted(resources)]}
        for version, resources in sorted((version, list(resources)) for version, resources in groups)
    ]
