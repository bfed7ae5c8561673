"""The DAG of a flow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.flows.lifecycle import FLOW, FlowEvent, FlowPhase
from policies.flows.graph import FlowGraph


def test_layers_follow_the_deepest_target() -> None:
    graph = FlowGraph({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "a"]})
    assert graph.layers() == [["a"], ["b", "c"], ["d"]]


def test_a_step_that_waits_for_itself_is_a_cycle() -> None:
    assert FlowGraph({"a": ["a"]}).problems()[0].message == "jobflow Flow is not DAG: a -> a"


def test_what_lies_beyond_a_failed_step_is_everything_that_waits_for_it() -> None:
    graph = FlowGraph({"a": [], "b": ["a"], "c": ["b"], "d": []})
    assert graph.beyond(["a"]) == {"b", "c"}


def test_a_thousand_steps_validate() -> None:
    graph = FlowGraph({f"s{i}": [f"s{i - 100}"] if i >= 100 else [] for i in range(1000)})
    assert graph.problems() == []
    assert [len(layer) for layer in graph.layers()] == [100] * 10


def test_succeed_and_failed_are_left_only_by_deletion_or_when_somebody_resumes_the_flow() -> None:
    assert FLOW.terminal == {FlowPhase.TERMINATING}
    for phase in (FlowPhase.SUCCEED, FlowPhase.FAILED):
        left = {event for (source, event), target in FLOW.edges.items() if source is phase and target is not phase}
        assert left == {FlowEvent.DELETED, FlowEvent.RESUMED}


def test_the_critical_path_is_the_longest_by_what_steps_take() -> None:
    graph = FlowGraph({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    assert graph.critical_path() == ["a", "b", "d"]
    assert graph.critical_path({"c": 5.0}) == ["a", "c", "d"]
    assert graph.ahead({"c": 5.0}) == {"d": 1.0, "c": 6.0, "b": 2.0, "a": 7.0}


@given(st.lists(st.lists(st.integers(min_value=0, max_value=11), max_size=4), min_size=1, max_size=12))
def test_what_comes_before_what_agrees_with_walking_there(waits: list[list[int]]) -> None:
    """Step n waits for some of those before it."""
    targets = {str(step): [str(each) for each in sorted(set(names)) if each < step] for step, names in enumerate(waits)}
    graph = FlowGraph(targets)

    def walked(step: str) -> set[str]:
        return {each for target in targets[step] for each in (target, *walked(target))}

    for step in targets:
        assert {other for other in targets if graph.comes_before(other, step)} == walked(step)
    assert not graph.comes_before("stranger", "0")


def test_a_cycle_far_behind_ten_thousand_sound_steps_is_named_step_by_step() -> None:
    targets = {f"s{each}": [f"s{each - 1 - back}" for back in range(3) if each > back] for each in range(10_000)}
    targets |= {"x": ["s9999", "z"], "y": ["x"], "z": ["y"], "behind": ["z"]}
    (problem,) = FlowGraph(targets).problems()
    assert problem.message == "jobflow Flow is not DAG: x -> y -> z -> x"
