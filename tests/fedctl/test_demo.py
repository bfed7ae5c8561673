"""The demo's judgement: exit 0 only for a flow that reached Succeed in the API."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedctl import demo
from machinery.clock import Chance, Ids
from policies import verdicts
from simulator.loop import SimClock, run_virtual
from simulator.nodes import uniform
from simulator.world import Member, World


def told(flow: str, *, timeout: float = 600.0) -> tuple[int, str]:
    """Exit code and printed text of following `flow` on two small members."""
    console = Console(file=io.StringIO(), width=120)

    async def main(clock: SimClock, chance: Chance, ids: Ids) -> int:
        members = {name: Member(nodes=uniform(name, 2, cpu="4")) for name in ("east", "west")}
        async with World(7, members=members) as world:
            await world.apply(flow)
            name = demo.flow_name(flow)
            port = world.client()
            return await demo.show(port, namespace="default", name=name, console=console, clock=clock, timeout=timeout)

    code = run_virtual(main, seed=7)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_the_quick_start_succeeds_and_says_where_each_step_ran_and_why() -> None:
    code, text = told(demo.QUICKSTART.read_text())
    assert code == demo.SUCCEEDED
    for step in ("prepare", "train-small", "train-wide", "train-deep", "evaluate", "publish"):
        assert step in text
    assert "points (balance" in text


@pytest.mark.parametrize(
    ("flow", "code", "words"),
    [
        ("flows: [{name: a, dependsOn: {targets: [b]}}, {name: b, dependsOn: {targets: [a]}}]", demo.FLOW_FAILED, "not DAG"),
        ("flows: [{name: never}]", demo.NO_END, "has not ended"),
    ],
)
def test_a_flow_that_does_not_succeed_is_not_called_a_success(flow: str, code: int, words: str) -> None:
    manifest = f"apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {{name: f}}\nspec: {{{flow}}}\n"
    found, text = told(manifest, timeout=30.0)
    assert found == code
    assert words in text


@pytest.mark.parametrize("flows", [0, 2])
def test_a_manifest_needs_one_flow(flows: int) -> None:
    one = "{kind: JobFlow, metadata: {name: f}}\n"
    with pytest.raises(ValueError, match=f"{flows} JobFlows"):
        demo.flow_name("---\n".join([one] * flows) or "{}")


def test_a_cluster_that_was_ruled_out_is_named_with_its_reason() -> None:
    decision = verdicts.Decision(
        outcome=verdicts.Outcome.PLACED,
        message="east is best",
        clusters=[
            verdicts.Considered(cluster="east", scores={"stability": 100, "balance": 80}, total=90),
            verdicts.Considered(cluster="north", scores={"balance": 50}, total=50),
            verdicts.Considered(cluster="west", code="NoRoom", text="short of cpu"),
        ],
    )
    assert demo.reason(decision, chosen="east") == ("90 points (balance 80, stability 100) before north 50; west: short of cpu")


def test_a_job_that_never_ran_says_why() -> None:
    decision = verdicts.Decision(outcome=verdicts.Outcome.WAITING, message="0 of 2 clusters fit")
    assert demo.reason(decision, chosen="") == "0 of 2 clusters fit"
