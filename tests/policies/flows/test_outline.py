"""What a flow is going to be, before anything of it runs."""

from __future__ import annotations

from policies.flows.checked import Checked, checked
from policies.flows.outline import outline
from policies.flows.spec import DependsOn, FanOut, FlowSpec, Step


def step(name: str, *targets: str, over: FanOut | None = None) -> Step:
    return Step(name, depends_on=DependsOn(targets=list(targets)), fan_out=over)


SPEC = FlowSpec(
    flows=[
        step("merge", "long", "short"),
        step("short", "load", over=FanOut(items=["a", "b"])),
        step("load"),
        step("deep", "load"),
        step("long", "deep", over=FanOut(from_output="load.shards")),
    ],
    on_exit=[Step("tell")],
)


def test_steps_come_layer_by_layer_the_longest_path_first_and_handlers_last() -> None:
    planned = outline(SPEC)
    assert [(each.step.name, each.layer, each.ahead) for each in planned] == [
        ("load", 0, 4),
        ("deep", 1, 3),
        ("short", 1, 2),
        ("long", 2, 2),
        ("merge", 3, 1),
        ("tell", 4, 1),
    ]
    assert [each.step.name for each in planned if each.critical] == ["load", "deep", "long", "merge"]
    assert [each.step.name for each in planned if each.handler] == ["tell"]


def test_a_step_says_how_many_jobs_it_becomes_and_what_it_reads_from() -> None:
    planned = {each.step.name: each for each in outline(SPEC)}
    assert (planned["load"].jobs, planned["short"].jobs, planned["long"].jobs) == (1, 2, None)
    assert planned["merge"].targets == ("long", "short")


def test_a_spec_of_the_same_bytes_is_worked_out_once() -> None:
    one, other = checked(b'{"flows": [{"name": "a"}]}'), checked(b'{"flows": [{"name": "a"}]}')
    assert one is other and one.graph is other.graph
    assert checked(b'{"flows": [{"name": "b"}]}') is not one
    assert (one.order, one.problems) == (("a",), ())
    assert Checked(FlowSpec(flows=[step("a", "a")])).problems[0].message.endswith("a -> a")
