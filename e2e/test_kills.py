"""SIGKILL at chosen writes on real control planes: the flow still ends right, and every container starts once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from apis import kinds
from e2e.apply import apply, phase, wait_for, wait_ready
from e2e.controlplane.fleet import Federation
from e2e.flows import DIAMOND, diamond, on, text
from e2e.starts import recording
from e2e.tripwire import Wire
from e2e.wired import Wired
from machinery.kube import KubePort

pytestmark = pytest.mark.issue(3)

SEEDS = (7, 19, 31)
PODS = 2 * len(DIAMOND)
WRITES = {
    "bind": (r"^POST .*/pods/[^/]+/binding$", PODS // 2),
    "Work create": (r"^POST .*/works$", len(DIAMOND)),
    "status fold": (r"^(PUT|PATCH) .*/(jobs|resourcebindings)/[^/]+/status$", 8),
    "pod create": (r"^POST .*/namespaces/{namespace}/pods$", PODS // 2),
}
"""What is hit: a pattern for `METHOD path`, and up to which of them."""


def choose(seed: int, namespace: str) -> list[Wire]:
    """Two wires a run; the first two runs have all four kinds between them, the third draws its own."""
    kinds_hit = list(WRITES)
    random.Random(0).shuffle(kinds_hit)
    place, chance = SEEDS.index(seed), random.Random(seed)
    chosen = kinds_hit[2 * place : 2 * place + 2] or chance.sample(kinds_hit, 2)
    return [
        Wire(
            name=name,
            pattern=WRITES[name][0].replace("{namespace}", namespace),
            nth=chance.randint(1, WRITES[name][1]),
            after=chance.random() < 0.5,
        )
        for name in chosen
    ]


def test_the_chosen_wires_cover_every_kind_of_write() -> None:
    assert {wire.name for seed in SEEDS for wire in choose(seed, "n")} == set(WRITES)


@pytest.fixture(scope="module")
def wired(running: Federation) -> Iterator[Wired]:
    """Every program behind tripwires."""
    proxies = Wired(running)
    with proxies.running():
        yield proxies


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_program_repeats_nothing(
    seed: int, wired: Wired, namespace: str, hub_port: KubePort, member_ports: dict[str, KubePort]
) -> None:
    wires = choose(seed, namespace)
    before = len(wired.hits)
    async with recording(member_ports, namespace=namespace) as starts, asyncio.timeout(180):
        await wait_ready(hub_port, kinds.CLUSTER, names=sorted(member_ports))
        await apply(hub_port, text(on("east", "west")), namespace=namespace)
        wired.arm(wires)
        await apply(hub_port, text(*diamond()), namespace=namespace)
        ended = await wait_for(
            hub_port,
            kinds.JOB_FLOW,
            "diamond",
            namespace=namespace,
            until=lambda doc: phase(doc) in ("Succeed", "Failed"),
            timeout=150,
        )
    print(f"seed {seed}: {'; '.join(wired.hits[before:])}")
    assert phase(ended) == "Succeed"
    assert [wire.name for wire in wires if not wire.hit] == []
    assert starts.twice() == []
    assert len(starts.by_pod()) == PODS
