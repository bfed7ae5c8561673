"""Resource groups: pods of certain namespaces, or with certain annotations, go to certain nodes (reference/volcano.md 1.4).

A group adds to a pod and never overrides it: keys of the node selector and tolerations that the pod lacks, an affinity and a
scheduler only where the pod names none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from controllers.admission import documents

GROUP_ANNOTATION: Final = "volcano.sh/resource-group"
UNSET_SCHEDULER: Final = "default-scheduler"
"""What an API server writes into a pod that names no scheduler."""


def _object(value: object) -> object:
    """An affinity may be written as YAML text, as upstream's configuration has it."""
    return yaml.safe_load(value) if isinstance(value, str) else value


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Members(_Settings):
    """Which pods belong: `key` namespace with names of namespaces, or annotation with `name: value` pairs."""

    key: Literal["namespace", "annotation"] = "annotation"
    value: tuple[str, ...] = ()


class ResourceGroup(_Settings):
    """One group, as upstream's configuration file writes it."""

    resource_group: Annotated[str, Field(min_length=1)]
    object: Members = Members()
    scheduler_name: str = ""
    labels: dict[str, str] = {}
    """Node labels that the pods ask for."""
    affinity: Annotated[dict[str, Any], BeforeValidator(_object)] = {}
    tolerations: tuple[dict[str, Any], ...] = ()

    @model_validator(mode="after")
    def _pairs_are_pairs(self) -> Self:
        for pair in self.object.value if self.object.key == "annotation" else ():
            if not all(part.strip() for part in pair.partition(":")):
                raise ValueError(f"group {self.resource_group}: {pair!r} is not `annotation: value`")
        return self

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Names of the namespaces whose pods belong."""
        return self.object.value if self.object.key == "namespace" else ()

    @property
    def annotations(self) -> tuple[tuple[str, str], ...]:
        """Annotations by one of which a pod belongs."""
        if self.object.key != "annotation":
            return ()
        pairs = [pair.partition(":") for pair in self.object.value]
        return tuple((key.strip(), value.strip()) for key, _, value in pairs) or ((GROUP_ANNOTATION, self.resource_group),)


def group_of(pod: Mapping[str, Any], *, groups: Sequence[ResourceGroup], namespace: str = "") -> ResourceGroup | None:
    """The first group that a pod belongs to."""
    where, notes = documents.namespace(pod) or namespace, documents.notes_of(pod)
    for group in groups:
        if where in group.namespaces or any(notes.get(key) == value for key, value in group.annotations):
            return group
    return None


def fill(spec: Mapping[str, Any], *, group: ResourceGroup) -> dict[str, Any]:
    """The spec of a pod of this group."""
    filled = dict(spec)
    if group.labels:
        filled["nodeSelector"] = {**group.labels, **documents.mapping(spec.get("nodeSelector"))}
    if group.affinity and not spec.get("affinity"):
        filled["affinity"] = dict(group.affinity)
    given = documents.listing(spec.get("tolerations"))
    missing = [dict(each) for each in group.tolerations if each not in given]
    if missing:
        filled["tolerations"] = [*given, *missing]
    if group.scheduler_name and spec.get("schedulerName") in (None, "", UNSET_SCHEDULER):
        filled["schedulerName"] = group.scheduler_name
    return filled
