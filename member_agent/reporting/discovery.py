"""What this cluster serves: asked at the start and again from time to time, because people install kinds and aggregated APIs
come and go."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson

from machinery import errors
from machinery.clock import Clock
from machinery.port import Port
from member_agent.reporting import registration

log = logging.getLogger(__name__)

EVERY: Final = 600.0
"""Seconds between two looks at everything: some thirty small requests."""
RETRY: Final = 30.0
"""Seconds after which what did not answer is asked again."""

Doc = dict[str, Any]


class Discovery:
    """Version and served kinds. `enablements` is None until anything answered; `lacking` are group versions that did not, of
    which what was known before stays."""

    def __init__(self, local: Port, *, clock: Clock) -> None:
        self._local = local
        self._clock = clock
        self._listings: dict[str, list[tuple[str, str]]] = {}
        self._due = float("-inf")
        self.version = ""
        self.enablements: list[Doc] | None = None
        self.lacking: tuple[str, ...] = ()

    @property
    def again(self) -> float:
        """Seconds until the next look is due."""
        return max(self._due - self._clock.boot(), 0.0)

    async def look(self) -> None:
        """Ask, when it is due."""
        if self.again > 0:
            return
        try:
            self.version = orjson.loads(await self._local.request("GET", "/version")).get("gitVersion", "")
            groups = orjson.loads(await self._local.request("GET", "/apis")).get("groups") or []
        except errors.ApiError as error:
            log.warning("discovery: %s", error)
            self._due = self._clock.boot() + RETRY
            return
        wanted = {
            each["groupVersion"]: f"/apis/{each['groupVersion']}" for group in groups for each in group.get("versions") or []
        }
        found, lacking = {}, []
        for version, path in {"v1": "/api/v1", **wanted}.items():
            try:
                listing = orjson.loads(await self._local.request("GET", path))
            except errors.ApiError as error:
                log.warning("discovery of %s: %s", version, error)
                lacking.append(version)
                if version in self._listings:
                    found[version] = self._listings[version]
                continue
            found[version] = [
                (each["name"], each["kind"]) for each in listing.get("resources") or [] if "/" not in each["name"]
            ]
        self._listings, self.lacking = found, tuple(sorted(lacking))
        self.enablements = registration.enablements(found.items())
        self._due = self._clock.boot() + (RETRY if lacking else EVERY)
