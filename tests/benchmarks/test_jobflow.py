"""The benchmark of flows: its cases, its figures, and the graph it times."""

from __future__ import annotations

import datetime

import pytest

from benchmarks.harness import Write
from benchmarks.jobflow import CASES, Case, Seen, at_once, job_name, large_graph, per_layer, rows_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def wrote(milliseconds: int, *, name: str = "flow-0", subresource: str = "status", code: int = 200) -> Write:
    moment = NOW + datetime.timedelta(milliseconds=milliseconds)
    return Write("ours", "update", "jobflows.flow.volcano.sh", subresource, "bench", name, code, moment)


def lived(case: Case, *, late: float) -> Seen:
    """Jobs run for a second, layer by layer, and come so many seconds after the end of the layer before."""
    seen = Seen()
    for flow in range(case.flows):
        for layer in range(case.layers):
            for place in range(case.width):
                name = job_name(flow, f"s{layer}-{place}")
                seen.came[name] = layer * (1.0 + late)
                seen.ended[name] = seen.came[name] + 1.0
    return seen


def test_cases_are_flows_of_layers_of_steps() -> None:
    assert [Case.parse(text) for text in CASES.split(",")] == [Case(1, 10, 100), Case(500, 3, 1)]
    assert (str(Case(1, 10, 100)), Case(1, 10, 100).jobs) == ("1x10x100", 1000)
    first, last = Case(1, 2, 100).spec()["flows"][0], Case(1, 2, 100).spec()["flows"][-1]
    assert "dependsOn" not in first
    assert last["dependsOn"]["targets"][:2] == ["s0-99", "s0-0"] and len(last["dependsOn"]["targets"]) == 10


@pytest.mark.parametrize("text", ["", "5", "5x1", "0x1x1", "1x1x1x1", "axbxc"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not <flows>x<layers>x<width>"):
        Case.parse(text)


def test_what_counts_is_what_ours_takes_beyond_the_raw_side() -> None:
    case = Case(2, 3, 4)
    ours, raw = lived(case, late=0.060), lived(case, late=0.020)
    assert per_layer(case, ours) == pytest.approx(60)
    added, status = rows_of(case, ours=ours, raw=raw)
    assert added.ours == pytest.approx(40, abs=0.1) and (added.bound, added.unit, added.holds) == (50, "ms/layer", True)
    assert (status.ours, status.holds) == (0, True)


def test_status_writes_are_counted_in_a_window_for_each_flow() -> None:
    apart = [wrote(0), wrote(200), wrote(400), wrote(100, name="flow-1"), wrote(150, subresource=""), wrote(50, code=409)]
    assert at_once(apart) == 1
    assert at_once([*apart, wrote(399)]) == 2


def test_the_large_graph_is_checked_in_time() -> None:
    row = large_graph()
    assert (row.case, row.bound, row.unit) == ("10000 steps checked", 1, "s")
