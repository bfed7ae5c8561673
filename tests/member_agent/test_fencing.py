"""What a fencer may do with a Lease it has read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import member_agent
from member_agent.fencing.lease import Holder, Identity, may_take, renewals, renewed, sight
from member_agent.settings import AgentSettings, FencerSettings, ProtocolTimes

ME = Identity("cluster-1", "a")


def lease(holder: str, *, renewed: int = 0, fence: int = 4) -> dict[str, object]:
    annotations = {"volcano-federation.io/renewals": str(renewed)} if renewed else {}
    return {
        "metadata": {"name": "member", "resourceVersion": "9", "annotations": annotations},
        "spec": {"holderIdentity": holder, "leaseTransitions": fence},
    }


@pytest.mark.parametrize(
    ("holder", "seen"),
    [
        ("", Holder.NOBODY),
        ("hub", Holder.HUB),
        ("cluster-1/a", Holder.ME),
        ("cluster-1/b", Holder.PEER),
        ("cluster-2/a", Holder.FOREIGN),
    ],
)
def test_whose_a_lease_is(holder: str, seen: Holder) -> None:
    assert ME.sees(lease(holder)) is seen


def test_a_peer_is_taken_over_only_when_its_counter_stood_still() -> None:
    first = sight(lease("cluster-1/b", renewed=3), None, sent=100.0)
    assert not may_take(Holder.PEER, first, now=129.0, handover=30.0)
    assert may_take(Holder.PEER, first, now=130.0, handover=30.0)
    alive = sight(lease("cluster-1/b", renewed=4), first, sent=129.0)
    assert not may_take(Holder.PEER, alive, now=130.0, handover=30.0)


def test_another_cluster_is_never_taken_over() -> None:
    seen = sight(lease("cluster-2/a"), None, sent=0.0)
    assert not may_take(Holder.FOREIGN, seen, now=1e9, handover=30.0)


def test_a_renewal_changes_nothing_of_the_fence_number() -> None:
    body = renewed(lease("cluster-1/a", renewed=7), ME, now="t", version="1", mode="builtin", duration=13)
    assert renewals(body) == 8
    assert body["spec"]["leaseTransitions"] == 4
    assert body["metadata"]["resourceVersion"] == "9"


def test_times_scale_together_and_keep_their_inequalities() -> None:
    times = ProtocolTimes()
    assert times.scaled(0.01).quiet == pytest.approx(times.quiet / 100)
    assert times.quiet == 13.0


@pytest.mark.parametrize("broken", [{"renew_deadline": 7.0}, {"request": 4.0}, {"lease_duration": 9.0}])
def test_times_that_break_the_protocol_are_refused(broken: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="I3"):
        ProtocolTimes(**broken)


def test_a_cluster_name_must_be_a_label() -> None:
    with pytest.raises(ValueError, match="cluster"):
        AgentSettings(cluster="East!")


def test_every_setting_of_a_member_is_read_by_somebody() -> None:
    """A setting that nothing reads is a promise that nobody keeps."""
    package = Path(member_agent.__file__).parent
    code = "\n".join(each.read_text() for each in sorted(package.rglob("*.py")))
    models: list[type[BaseModel]] = [AgentSettings, FencerSettings]
    for model in models:
        for name, field in model.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in models:
                models.append(kind)
            assert re.search(rf"\.{name}\b", code), f"{model.__name__}.{name}"
