"""The price sheet of this member, published at the hub as the ClusterOffer of its name.

What is written in the values of the chart is what counts: it is applied at every start, under a field manager of its own. A
member without a sheet writes nothing, and leaves alone what people wrote at the hub.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from apis import kinds
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict
from machinery.port import PatchType, Port
from machinery.runner import WorkMetrics

log = logging.getLogger(__name__)

MANAGER: Final = "member-agent"
AGAIN: Final = 10.0
"""First wait after the hub refused; doubles, since it may not have given us the right yet."""
LONGEST: Final = 600.0


def offer(cluster: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The ClusterOffer; whatever the sheet says of a name, it speaks for this member."""
    kept = {name: value for name, value in spec.items() if name != "cluster"}
    return {
        "apiVersion": kinds.CLUSTER_OFFER.api_version,
        "kind": kinds.CLUSTER_OFFER.kind,
        "metadata": {"name": cluster},
        "spec": kept,
    }


class OfferController:
    """The role: applies the sheet once, and ends with the program."""

    def __init__(self, *, hub: Port, clock: Clock, cluster: str, sheet: Mapping[str, Any] | None) -> None:
        self._hub = hub
        self._clock = clock
        self._cluster = cluster
        self._sheet = sheet

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until the sheet is at the hub, or cancelled."""
        if self._sheet is None:
            return
        body, pause = offer(self._cluster, self._sheet), AGAIN
        while True:
            try:
                await self._hub.patch(kinds.CLUSTER_OFFER, self._cluster, body, type=PatchType.APPLY, field_manager=MANAGER)
                return
            except Conflict as error:
                log.error("the price sheet of %s is not published, somebody else wrote its offer: %s", self._cluster, error)
                return
            except ApiError as error:
                log.warning("the price sheet of %s is not published yet: %s", self._cluster, error)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST)
