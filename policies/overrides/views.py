"""Override policies as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from policies.placements import Affinity, AffinityWire, Selector, SelectorWire, affinity_of, selectors_of
from policies.views import Meta


class Fault(ValueError):
    """Why an overrider cannot be carried out; `field` is relative to the overriders of its rule."""

    def __init__(self, reason: str, *, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Declared fields only."""


class Predicate(_Wire, frozen=True):
    path: str = ""


class ImageChange(_Wire, frozen=True):
    component: str = ""
    operator: str = ""
    value: str | None = None
    predicate: Predicate | None = None


class ListChange(_Wire, frozen=True):
    """Of a command or of arguments. `container_name` may name the task as well: `task/container`."""

    container_name: str = ""
    operator: str = ""
    value: list[str] | None = None


class KeysChange(_Wire, frozen=True):
    """Of labels or annotations."""

    operator: str = ""
    value: dict[str, str] | None = None


class TextChange(_Wire, frozen=True):
    """One change inside of a text."""

    sub_path: str = ""
    operator: str = ""
    value: Any = msgspec.UNSET

    @property
    def path(self) -> str:
        """Where, as a JSON pointer."""
        return self.sub_path


class FieldChange(_Wire, frozen=True):
    """Of a text that holds JSON or YAML."""

    field_path: str = ""
    json: list[TextChange] | None = None
    yaml: list[TextChange] | None = None


class PlainChange(_Wire, frozen=True):
    path: str = ""
    operator: str = ""
    value: Any = msgspec.UNSET


class Overriders(_Wire, frozen=True):
    """All changes of one rule."""

    image: list[ImageChange] | None = msgspec.field(name="imageOverrider", default=None)
    command: list[ListChange] | None = msgspec.field(name="commandOverrider", default=None)
    args: list[ListChange] | None = msgspec.field(name="argsOverrider", default=None)
    labels: list[KeysChange] | None = msgspec.field(name="labelsOverrider", default=None)
    annotations: list[KeysChange] | None = msgspec.field(name="annotationsOverrider", default=None)
    field: list[FieldChange] | None = msgspec.field(name="fieldOverrider", default=None)
    plaintext: list[PlainChange] | None = None


class _Rule(_Wire, frozen=True):
    target_cluster: AffinityWire | None = None
    overriders: Overriders = Overriders()


class _Spec(_Wire, frozen=True):
    resource_selectors: list[SelectorWire] | None = None
    override_rules: list[_Rule] | None = None
    target_cluster: AffinityWire | None = None
    overriders: Overriders | None = None


class _Policy(_Wire, frozen=True):
    metadata: Meta = Meta()
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Policy)


@dataclass(frozen=True, slots=True)
class OverrideRule:
    """What changes in which clusters (None: all). `field` says where its overriders are written."""

    field: str
    clusters: Affinity | None
    overriders: Overriders


@dataclass(frozen=True, slots=True)
class OverrideView:
    """An OverridePolicy (`namespace` set) or a ClusterOverridePolicy. `selectors` None: every object."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    selectors: tuple[Selector, ...] | None = None
    rules: tuple[OverrideRule, ...] = ()
    deleting: bool = False
    mixed: bool = False
    """It has rules and, beside them, the older form of a single one."""

    @property
    def title(self) -> str:
        """How people refer to it."""
        return f"OverridePolicy {self.namespace}/{self.name}" if self.namespace else f"ClusterOverridePolicy {self.name}"


def project_override(document: bytes) -> OverrideView:
    """An OverridePolicy or ClusterOverridePolicy; raises msgspec's errors where it does not follow its schema."""
    read = _decoder.decode(document)
    spec = read.spec
    rules = [
        OverrideRule(f"spec.overrideRules[{at}].overriders", _clusters(each.target_cluster), each.overriders)
        for at, each in enumerate(spec.override_rules or [])
    ]
    old_form = spec.overriders is not None or spec.target_cluster is not None
    if old_form and not rules:
        rules.append(OverrideRule("spec.overriders", _clusters(spec.target_cluster), spec.overriders or Overriders()))
    return OverrideView(
        namespace=read.metadata.namespace,
        name=read.metadata.name,
        uid=read.metadata.uid,
        version=read.metadata.resource_version,
        selectors=selectors_of(spec.resource_selectors) if spec.resource_selectors else None,
        rules=tuple(rules),
        deleting=read.metadata.deletion_timestamp is not None,
        mixed=old_form and bool(spec.override_rules),
    )


def _clusters(read: AffinityWire | None) -> Affinity | None:
    return affinity_of(read) if read is not None else None
