"""Idle: what hub and agent cost when nothing happens. Limits: under 1 % of a core each, and no writes but leases.

Both are real processes on real control planes; CPU is read from /proc over a window, writes from the API servers' audit logs.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.harness import LEASES, Row, Share, Write, cost, cpu_shares, run, writes_between
from e2e import crds, programs
from e2e.controlplane.fleet import Federation, free_work
from e2e.controlplane.plan import Member, NodeShape, NodeSource

NAME = "idle"
CPU_LIMIT = 1.0
"""Percent of one core."""
SETTLE_TIMEOUT = 240.0
"""Seconds within which freshly started programs must have come to rest."""
AUDIT_LAG = 3.0
"""Seconds until the last write of the window is in the audit log."""


def rows(shares: Iterable[Share], *, found: Iterable[Write]) -> list[Row]:
    """One row per process for CPU, one for the writes that are not leases."""
    made = [cost(NAME, f"cpu {share.name}", ours=share.percent, bound=CPU_LIMIT, unit="% of a core") for share in shares]
    others = [write for write in found if write.resource != LEASES]
    return [*made, cost(NAME, "writes but leases", ours=len(others), bound=0, unit="writes")]


def describe(found: Iterable[Write]) -> list[str]:
    """Who wrote what how often, most first."""
    counts = Counter(f"{w.user}: {w.verb} {w.resource}{'/' + w.subresource if w.subresource else ''}" for w in found)
    return [f"{count:6} × {text}" for text, count in counts.most_common()]


def written(federation: Federation, *, users: Iterable[str], start: datetime.datetime, end: datetime.datetime) -> list[Write]:
    """Writes of our programs at every API server."""
    wanted = list(users)
    logs = [cluster.audit_log for cluster in federation.clusters]
    return [write for log in logs for write in writes_between(log, start=start, end=end, users=wanted)]


def settled(found: Iterable[Write], *, users: Iterable[str], now: datetime.datetime, seconds: float) -> bool:
    """Whether every program has written its Lease, and nothing else was written for `seconds`."""
    leases = {write.user for write in found if write.resource == LEASES}
    others = [write.moment for write in found if write.resource != LEASES]
    return leases >= set(users) and max(others, default=now) <= now - datetime.timedelta(seconds=seconds)


async def quiet(federation: Federation, *, users: Sequence[str], seconds: float) -> None:
    """Waits until the programs are settled; TimeoutError after SETTLE_TIMEOUT, as then they are not idle at all."""
    begin = datetime.datetime.now(datetime.UTC)
    async with asyncio.timeout(SETTLE_TIMEOUT):
        while True:
            await asyncio.sleep(2)
            now = datetime.datetime.now(datetime.UTC)
            if settled(written(federation, users=users, start=begin, end=now), users=users, now=now, seconds=seconds):
                return


async def measure(*, nodes: int, settle: float, seconds: float) -> Sequence[Row]:
    """Boots a hub and one member, lets our programs settle, and watches them for `seconds`."""
    shape = NodeShape(cpu_millis=16_000, memory_mib=65_536)
    members = {"east": Member(nodes=nodes, source=NodeSource.KWOK, shape=shape)}
    async with Federation(members, work=free_work("bench-idle"), audit=True) as federation:
        await crds.install(federation.clusters)
        records = programs.start_all(federation)
        users = [record.name for record in records]
        print(f"waiting for {settle:.0f} s without a write, then watching for {seconds:.0f} s", flush=True)
        await quiet(federation, users=users, seconds=settle)
        start = datetime.datetime.now(datetime.UTC)
        shares = await cpu_shares(records, seconds=seconds)
        end = datetime.datetime.now(datetime.UTC)
        await asyncio.sleep(AUDIT_LAG)
        found = written(federation, users=users, start=start, end=end)
        for share in shares:
            print(f"{share.name}: {share.percent:.2f} % of a core, {share.resident_bytes >> 20} MiB", flush=True)
        print(*(describe(found) or ["no writes"]), sep="\n", flush=True)
        await asyncio.to_thread(federation.programs.stop_all)
        return rows(shares, found=found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20, help="simulated nodes of the member")
    parser.add_argument("--settle", type=float, default=20, help="seconds without a write before the window")
    parser.add_argument("--seconds", type=float, default=60, help="length of the window")
    asked = parser.parse_args()
    return run(measure(nodes=asked.nodes, settle=asked.settle, seconds=asked.seconds))


if __name__ == "__main__":
    sys.exit(main())
