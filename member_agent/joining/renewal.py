"""Keeping the credential young, and starting again with a new one."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from machinery.clock import Clock
from machinery.errors import ApiError
from machinery.metrics import Metrics
from member_agent.joining.joiner import Joiner, NotJoined

log = logging.getLogger(__name__)

AGAIN: Final = 600.0
"""Seconds after which a renewal that failed is tried again: a third of the certificate's life is left then."""
LONGEST: Final = 86400.0
"""Seconds after which it is looked again at the latest, whatever clocks do."""
LOOK: Final = 30.0
"""Seconds between looks at the file of the credential: a kubelet writes it within a minute or so."""


LOOKS: Final = "volcano_federation_credential_checks_total"


class Renewed(Exception):
    """The credential in use was replaced: the program ends, and is started with the new one by whoever runs it."""


async def keep_young(joiner: Joiner, *, clock: Clock, metrics: Metrics | None = None) -> None:
    """Renew whenever that is due; until cancelled."""
    while True:
        try:
            due, outcome = await joiner.renew(), "ok"
        except (ApiError, NotJoined, ValueError) as error:
            log.warning("the credential for the hub is not renewed: %s", error)
            due, outcome = AGAIN, "failed"
        if metrics is not None:
            metrics.count(LOOKS, "Looks at the credential for the hub, renewals included.", outcome=outcome)
        await clock.sleep(min(due, LONGEST))


async def until_replaced(path: Path, *, clock: Clock) -> None:
    """Raise Renewed once the file holds something else than now. A file that is gone for a moment is being replaced."""
    first = await asyncio.to_thread(_content, path)
    while True:
        await clock.sleep(LOOK)
        now = await asyncio.to_thread(_content, path)
        if now and now != first:
            raise Renewed(f"{path} was replaced")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
