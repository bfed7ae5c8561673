"""Whether somebody else serves the kinds of a hub at this API server (protocol.md 8, ownership check).

A Karmada that lives beside a hub would act on the same policies, bindings and Works. What gives it away: an aggregated API for
clusters, webhooks for its kinds, and election Leases that are renewed while we look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from apis import kinds
from controllers.admission.registration import LABEL, PART_OF
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.port import Port

API_SERVICE: Final = "v1alpha1.cluster.karmada.io"
LEASES: Final = ("karmada-controller-manager", "karmada-scheduler")
"""Names of Karmada's election Leases, in whatever namespace it is installed."""
DOMAIN: Final = ".karmada.io"
RENEWED: Final = 15.0
"""Seconds within which a live leader renews a Lease that does not say otherwise; upstream's own default."""

Doc = Mapping[str, Any]


class Occupied(Exception):
    """Somebody else serves these kinds here; the message names what was found and the way out."""


def served_elsewhere(service: Doc) -> bool:
    """Whether an APIService is answered by a server of its own, not by a CRD."""
    return bool((service.get("spec") or {}).get("service"))


def foreign_webhooks(configurations: Iterable[Doc]) -> list[str]:
    """Names of webhook configurations for Karmada's kinds that are not ours."""
    return sorted(
        each["metadata"]["name"]
        for each in configurations
        if (each["metadata"].get("labels") or {}).get(LABEL) != PART_OF
        and any(str(hook.get("name", "")).endswith(DOMAIN) for hook in each.get("webhooks") or ())
    )


def held(leases: Iterable[Doc]) -> dict[str, tuple[str, float]]:
    """By namespace/name, version and duration in seconds of Leases that somebody holds."""
    found = {}
    for lease in leases:
        meta, spec = lease["metadata"], lease.get("spec") or {}
        if spec.get("holderIdentity"):
            duration = float(spec.get("leaseDurationSeconds") or RENEWED)
            found[f"{meta['namespace']}/{meta['name']}"] = (meta["resourceVersion"], duration)
    return found


def renewed(before: Mapping[str, tuple[str, float]], after: Mapping[str, tuple[str, float]]) -> list[str]:
    """Leases that changed between two looks: their holders live. Wall clocks are not believed."""
    return sorted(name for name, (version, _) in after.items() if name in before and before[name][0] != version)


async def check(port: Port, *, clock: Clock) -> None:
    """Raise Occupied where another control plane serves these kinds. Takes a few reads, and the duration of a Lease more
    where one of Karmada's is held. Raises ApiError."""
    found: list[str] = []
    try:
        service = orjson.loads(await port.get(kinds.API_SERVICE, API_SERVICE))
        if served_elsewhere(service):
            found.append(f"APIService {API_SERVICE} is answered by a service")
    except NotFound:
        pass
    configurations = [
        each
        for kind in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS)
        for each in map(orjson.loads, (await port.list(kind)).items)
    ]
    found += [f"webhook configuration {name} is for Karmada's kinds" for name in foreign_webhooks(configurations)]
    before = await _held(port)
    if before:
        await clock.sleep(max(duration for _, duration in before.values()) + 1.0)
        found += [f"Lease {name} is renewed" for name in renewed(before, await _held(port))]
    if found:
        raise Occupied(
            f"a Karmada control plane is at work here: {'; '.join(found)}. Give the hub an API server of its own, or remove "
            "Karmada from this one"
        )


async def _held(port: Port) -> dict[str, tuple[str, float]]:
    pages = [await port.list(kinds.LEASE, fields=f"metadata.name={name}") for name in LEASES]
    return held(orjson.loads(item) for page in pages for item in page.items)
