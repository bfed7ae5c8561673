"""`fedctl simulate`: Jobs of a trace on members that do not exist, under each profile: who waits how long, and what it costs.

The hub and the agents are the real programs; API servers, nodes and time are simulated (`simulator`). One seed, one answer.
"""

from __future__ import annotations

import csv
import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from apis import keys, kinds
from apis.quantities import parse
from fedctl import exits, tables
from fedctl.desk import Stop

if TYPE_CHECKING:
    from machinery.clock import Chance, Clock, Ids
    from simulator.world import World

PROFILES: Final = ("cost-first", "efficiency-first", "balanced")
SETTLE: Final = 30.0
"""Seconds until members are Ready, before the first Job comes."""
LONGEST: Final = 366 * 86400.0
"""Seconds of simulated time after which what has not ended is counted as not done."""
HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A Job of the trace. Times in seconds since its beginning; amounts of each pod."""

    name: str
    at: float
    seconds: float
    pods: int = 1
    cpu: str = "1"
    gpus: int = 0
    queue: str = "default"


@dataclass(frozen=True, slots=True)
class Site:
    """A member: equal nodes, and what an hour of a CPU or GPU costs there."""

    name: str
    nodes: int
    cpu: str = "8"
    memory: str = "64Gi"
    gpus: int = 0
    region: str = ""
    prices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trace. Waits in seconds, from submission to the first container; money in the currency of the prices."""

    profile: str
    jobs: int
    done: int
    waits: tuple[float, ...]
    makespan: float
    money: float
    starts: Mapping[str, int]
    """Jobs by the member where they started."""


def trace(path: Path, *, jobs: int) -> list[Arrival]:
    """The first so many Jobs of a CSV file with columns submit and duration (s), and if need be name, pods, cpu, gpu, queue.
    Columns of published traces are known, too: submit_time or arrival_time, length (h), num_gpu, cpus. Stop when it cannot be
    read."""
    try:
        with path.open(newline="") as lines:
            rows = [row for _, row in zip(range(jobs), csv.DictReader(lines), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Stop(f"{path}: {error}", code=exits.USAGE) from None
    if not rows:
        raise Stop(f"{path}: no Jobs in it", code=exits.USAGE)
    found = []
    for number, row in enumerate(rows, 2):
        try:
            found.append(_arrival(row, number=number))
        except (KeyError, ValueError) as error:
            raise Stop(
                f"{path}, line {number}: {error!r} cannot be read; columns: {', '.join(row)}", code=exits.USAGE
            ) from None
    first = min(each.at for each in found)
    return sorted((_shifted(each, first) for each in found), key=lambda each: (each.at, each.name))


def _shifted(each: Arrival, first: float) -> Arrival:
    return Arrival(each.name, each.at - first, each.seconds, each.pods, each.cpu, each.gpus, each.queue)


def _arrival(row: Mapping[str, str], *, number: int) -> Arrival:
    hours = "arrival_time" in row
    at = float(row.get("submit") or row.get("submit_time") or row.get("arrival_time") or "0") * (HOUR if hours else 1.0)
    seconds = float(row["length"]) * HOUR if "length" in row else float(row["duration"])
    gpus = int(float(row.get("gpu") or row.get("num_gpu") or 0))
    cpu = row.get("cpu") or row.get("cpus") or "1"
    parse(cpu)
    return Arrival(
        name=row.get("name") or f"job-{number - 1}",
        at=at,
        seconds=max(1.0, seconds),
        pods=int(row.get("pods") or 1),
        cpu=cpu,
        gpus=gpus,
        queue=row.get("queue") or "default",
    )


def sites(path: Path) -> list[Site]:
    """Members of a YAML file: a list of {name, nodes, cpu, memory, gpus, region, prices: {cpu: …, nvidia.com/gpu: …}}. Stop
    when it cannot be read."""
    try:
        found = yaml.safe_load(path.read_text())
        read = [Site(**each) for each in found]
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise Stop(f"{path}: no list of members: {error}", code=exits.USAGE) from None
    if not read:
        raise Stop(f"{path}: no members in it", code=exits.USAGE)
    return read


def simulate(arrivals: Sequence[Arrival], members: Sequence[Site], *, profiles: Sequence[str], seed: int) -> list[Outcome]:
    """Run the trace once per profile."""
    from simulator.loop import run_virtual

    logging.disable(logging.CRITICAL)
    outcomes = []
    try:
        for profile in profiles:

            async def main(clock: Clock, chance: Chance, ids: Ids, *, chosen: str = profile) -> Outcome:
                return await _play(arrivals, members, profile=chosen, seed=seed)

            outcomes.append(run_virtual(main, seed=seed))
    finally:
        logging.disable(logging.NOTSET)
    return outcomes


async def _play(arrivals: Sequence[Arrival], members: Sequence[Site], *, profile: str, seed: int) -> Outcome:
    from simulator.nodes import uniform
    from simulator.world import Member, World

    made = {
        site.name: Member(nodes=uniform(site.name, site.nodes, **_node(site)), region=site.region or site.name)
        for site in members
    }
    async with World(seed, members=made) as world:
        await world.advance(SETTLE)
        for site in members:
            if site.prices:
                await world.client().create(kinds.CLUSTER_OFFER, _offer(site))
        begin = world.clock.boot()
        for each in arrivals:
            await world.advance(max(0.0, begin + each.at - world.clock.boot()))
            await world.client().create(kinds.JOB, _job(each, profile=profile), namespace="default")
        while world.clock.boot() - begin < LONGEST and _open(world, arrivals):
            await world.advance(60.0)
        return _told(world, arrivals, members, profile=profile, begin=begin)


def _node(site: Site) -> dict[str, Any]:
    more = {"extended": {"nvidia.com/gpu": str(site.gpus)}} if site.gpus else {}
    return {"cpu": site.cpu, "memory": site.memory, **more}


def _open(world: World, arrivals: Sequence[Arrival]) -> bool:
    ended = sum(
        ((each.get("status") or {}).get("state") or {}).get("phase") in ("Completed", "Failed", "Terminated", "Aborted")
        for each in world.all(kinds.JOB)
    )
    return ended < len(arrivals)


def _told(world: World, arrivals: Sequence[Arrival], members: Sequence[Site], *, profile: str, begin: float) -> Outcome:
    prices = {site.name: site.prices for site in members}
    waits, ends, money, done = [], [begin], 0.0, 0
    starts: dict[str, int] = {}
    for each in arrivals:
        records = world.records.of_job(f"default/{each.name}")
        if not records:
            continue
        waits.append(min(record.start for record in records) - begin - each.at)
        starts[records[0].cluster] = starts.get(records[0].cluster, 0) + 1
        ended = [record.end for record in records if record.end is not None]
        done += len(ended) == len(records)
        ends += ended
        for record in records:
            hours = ((record.end if record.end is not None else world.clock.boot()) - record.start) / HOUR
            price = prices[record.cluster]
            money += hours * (
                float(price.get("cpu", 0)) * parse(each.cpu).milli / 1000 + float(price.get("nvidia.com/gpu", 0)) * each.gpus
            )
    return Outcome(profile, len(arrivals), done, tuple(waits), max(ends) - begin, money, starts)


def _job(each: Arrival, *, profile: str) -> dict[str, Any]:
    amounts = {"cpu": each.cpu, **({"nvidia.com/gpu": str(each.gpus)} if each.gpus else {})}
    container = {
        "name": "main",
        "image": "simulated",
        "command": ["sh", "-c", f"sleep {each.seconds:g}"],
        "resources": {"requests": amounts, "limits": amounts},
    }
    notes = {keys.PROFILE: profile, keys.ESTIMATED_DURATION: f"{max(1, round(each.seconds))}s"}
    task = {"name": "main", "replicas": each.pods, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {"name": each.name, "namespace": "default", "annotations": notes},
        "spec": {"minAvailable": each.pods, "queue": each.queue, "tasks": [task]},
    }


def _offer(site: Site) -> dict[str, Any]:
    prices = {name: str(value) for name, value in site.prices.items()}
    return {
        "apiVersion": kinds.CLUSTER_OFFER.api_version,
        "kind": kinds.CLUSTER_OFFER.kind,
        "metadata": {"name": site.name},
        "spec": {"currency": "EUR", "classes": [{"name": "node", "prices": prices}]},
    }


def table(outcomes: Sequence[Outcome]) -> str:
    """What people compare."""
    rows = [
        (
            each.profile,
            f"{each.done}/{each.jobs}",
            _time(statistics.fmean(each.waits) if each.waits else 0.0),
            _time(sorted(each.waits)[max(0, -(-len(each.waits) * 95 // 100) - 1)] if each.waits else 0.0),
            _time(each.makespan),
            f"{each.money:.2f}",
            ", ".join(f"{name} {count}" for name, count in sorted(each.starts.items())) or "-",
        )
        for each in outcomes
    ]
    return tables.text(("PROFILE", "DONE", "MEAN WAIT", "95% WAIT", "ALL DONE AFTER", "MONEY", "JOBS BY MEMBER"), rows)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.1f}h"
