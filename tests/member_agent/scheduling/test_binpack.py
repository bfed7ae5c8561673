"""binpack beside nodeorder, as both stand in upstream's configuration of its tests (reference/volcano.md 4.1, 8.4 no. 8)."""

from __future__ import annotations

import pytest

from apis.vectors import ResourceVector
from policies.shapes import PodShape
from tests.member_agent.scheduling.build import configuration, decide, gang, nodes, places

BOTH = configuration("priority", "gang", "predicates", "proportion", "nodeorder", "binpack")


def shape(cpu: int, memory: int) -> PodShape:
    return PodShape(ResourceVector({"cpu": cpu, "memory": memory * 1000, "pods": 1000}))


@pytest.mark.parametrize("cores", [2, 4, 8, 16])
@pytest.mark.parametrize("there", ["n0", "n1", "n2"])
@pytest.mark.parametrize("memory", [3 << 30, 16_000_003_072, 67_345_678_336])
def test_a_second_job_goes_where_the_first_one_is(cores: int, there: str, memory: int) -> None:
    """It asks for half of what is left of that node. By leastrequested emptier nodes are as much better as they are worse by
    binpack: that packing is wanted has the last word."""
    base = gang("base", shape=shape(1000, 0), on=[there], phase="Running")
    half = gang("half", shape=shape((cores * 1000 - 1000) // 2, memory // 2))
    found = decide(nodes(*[cores] * 3, memory=memory), base, half, by=BOTH)
    assert places(found) == {there: 1}
