"""ResourceQuotas as the agent keeps them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apis.quantities import InvalidQuantity
from apis.vectors import EMPTY, ResourceVector
from machinery.port import Document
from member_agent.views.meta import Meta, Wire

PRIORITY_CLASS: Final = "PriorityClass"


class _Selector(Wire, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selectors(Wire, frozen=True):
    match_expressions: list[_Selector] | None = None


class _QuotaSpec(Wire, frozen=True):
    hard: dict[str, Any] | None = None
    scopes: list[str] | None = None
    scope_selector: _Selectors | None = None


class _QuotaStatus(Wire, frozen=True):
    used: dict[str, Any] | None = None


class _Quota(Wire, frozen=True):
    metadata: Meta
    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods a quota counts: a scope of Kubernetes, `In`, `NotIn`, `Exists` or `DoesNotExist` of values."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaView:
    """A ResourceQuota: what its namespace may have and has, in quota form; pods are counted where all scopes hold. `named`:
    every resource that it limits, those of which there is nothing included."""

    namespace: str
    name: str
    uid: str
    version: str
    hard: ResourceVector
    used: ResourceVector
    named: frozenset[str] = frozenset()
    scopes: tuple[Scope, ...] = ()

    def left(self, resource: str) -> int:
        """What may still be had of a resource that it names, milli units; below 0 where more is used."""
        left: int = self.hard.get(resource) - self.used.get(resource)
        return left


_quota = msgspec.json.Decoder(_Quota).decode


def project_quota(document: Document) -> QuotaView:
    """A ResourceQuota as the agent keeps it; one with an amount that cannot be read limits nothing."""
    quota = _quota(document)
    meta, spec = quota.metadata, quota.spec
    try:
        hard, used = ResourceVector.from_quantities(spec.hard), ResourceVector.from_quantities(quota.status.used)
        named = frozenset(spec.hard or ())
    except InvalidQuantity:
        hard, used, named = EMPTY, EMPTY, frozenset()
    listed = (spec.scope_selector or _Selectors()).match_expressions or ()
    scopes = [Scope(name) for name in spec.scopes or ()]
    scopes += [Scope(each.scope_name, each.operator, tuple(each.values or ())) for each in listed]
    return QuotaView(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        hard=hard,
        used=used,
        named=named,
        scopes=tuple(scopes),
    )
