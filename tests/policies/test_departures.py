"""Why a run has to leave its cluster: drain, taints with and without limits, a run that is not whole; never if nobody hears."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.cluster_orders import Order, Stamp
from policies.departures import FOREVER, borne_for, departure
from policies.members import ClusterView
from policies.placements import ApplicationRule, PolicyView
from policies.shapes import Taint, Toleration

OUT = Taint("spot", "", "NoExecute")
TOLERATES = Toleration("spot", "Exists", "", "NoExecute")


def cluster(**traits: Any) -> ClusterView:
    return ClusterView("", "east", "uid", "1", **{"ready": "True", **traits})


def policy(**traits: Any) -> PolicyView:
    return PolicyView("default", "here", **traits)


def due(view: ClusterView, *, by: PolicyView | None = None, stood: float = 0.0, **more: Any) -> float | None:
    found = departure(view, policy=by or policy(), standing={("spot", "NoExecute"): stood}, settle=5.0, **more)
    return found.due if found is not None else None


def test_a_drained_cluster_is_left_at_once_whatever_is_tolerated_and_it_is_said_whose_word_it_is() -> None:
    orders, stamps = {Order.DRAIN: "new kernel"}, {"drain": Stamp("alice", "2026-01-01T00:00:00Z")}
    by = policy(tolerations=(Toleration("", "Exists"),))
    found = departure(cluster(orders=orders, stamps=stamps), policy=by, standing={}, settle=5.0)
    assert found is not None
    assert (found.reason, found.message, found.due) == ("ClusterDrained", "east is drained by alice: new kernel", 0.0)


def test_a_cluster_that_leaves_the_federation_is_left() -> None:
    found = departure(cluster(deleting=True), policy=policy(), standing={}, settle=5.0)
    assert found is not None
    assert found.reason == "ClusterUnjoined"


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_nobody_is_ordered_to_leave_where_nobody_hears(ready: str) -> None:
    """A brief disconnect moves and kills nothing: an order that waits there would kill when it is over."""
    for view in (cluster(orders={Order.DRAIN: ""}, ready=ready), cluster(deleting=True, ready=ready)):
        assert due(view) is None
    assert due(cluster(taints=(OUT,), ready=ready), stood=1e9) is None


def test_a_taint_evicts_what_does_not_tolerate_it_once_it_has_stood_for_a_moment() -> None:
    tainted = cluster(taints=(OUT, Taint("other", "", "NoSchedule")))
    assert due(tainted) == 5.0
    assert due(tainted, stood=4.0) == 1.0
    assert due(tainted, stood=5.0) == 0.0
    assert due(tainted, stood=60.0, ready_for=2.0) == 3.0  # it was away a moment ago: the taint may be about to go
    assert due(cluster(taints=(Taint("spot", "", "NoSchedule"),)), stood=60.0) is None


def test_a_toleration_holds_for_its_seconds_or_for_ever() -> None:
    tainted = cluster(taints=(OUT,))
    limited = policy(tolerations=(TOLERATES,), bears=((TOLERATES, 300),))
    assert due(tainted, by=limited, stood=100.0) == 200.0
    assert due(tainted, by=limited, stood=301.0) == 0.0
    assert due(tainted, by=policy(tolerations=(TOLERATES,)), stood=1e9) is None
    assert due(tainted, by=policy(tolerations=(TOLERATES,), bears=((TOLERATES, -1),)), stood=6.0) == 0.0


@given(st.lists(st.integers(-10, 1000), max_size=4), st.booleans())
def test_of_several_tolerations_the_shortest_limit_counts(limits: list[int], unlimited: bool) -> None:
    listed = tuple(Toleration("spot", "Equal", "", "NoExecute") for _ in limits) + ((TOLERATES,) if unlimited else ())
    by = policy(tolerations=listed, bears=tuple(zip(listed, limits, strict=False)))
    borne = borne_for(OUT, policy=by)
    if limits:
        assert borne == max(min(limits), 0)
    else:
        assert borne == (FOREVER if unlimited else 0.0)


def test_a_run_that_is_not_whole_is_placed_anew_after_its_policys_patience_unless_it_says_never() -> None:
    assert due(cluster(), by=policy(application=ApplicationRule(60)), ailing=20.0) == 40.0
    assert due(cluster(), by=policy(application=ApplicationRule(60)), ailing=60.0) == 0.0
    assert due(cluster(), by=policy(application=ApplicationRule(60, never=True)), ailing=600.0) is None
    assert due(cluster(), by=policy(), ailing=600.0) is None
    assert due(cluster(), by=policy(application=ApplicationRule(60))) is None
