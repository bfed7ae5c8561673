"""What is not promised about a Job that may leave its cluster (protocol.md 2), in words for those who ask about it."""

from __future__ import annotations

from typing import Final

from apis.runs import Failover

ALWAYS: Final = ("at most one copy at a time, not exactly once: a success that was not recorded at the hub may run again",)
CONTINUE: Final = ("on a cluster that cannot be reached it waits there until its end is confirmed or declared",)
FENCE: Final = (
    "after fencing, pods on nodes that are cut off from their own API server may still run",
    "after fencing, pods may still run where all fencers, or the member's API server, were down at that time",
    "a machine whose clock stands still, or a process paused between check and write for too long, is not fenced",
    "a member restored from a backup, and copies and finalizers handled by hand, are not covered",
)


def not_promised(*, exclusive: str, failover: str) -> tuple[str, ...]:
    """Sentences, by the user keys of a Job; one that need not be exclusive is promised nothing of the kind."""
    if exclusive.lower() == "false":
        return ("it is not exclusive: several copies of it may run at a time",)
    return (*ALWAYS, *(FENCE if failover == Failover.FENCE.value else CONTINUE))
