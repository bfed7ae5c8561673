"""A WorkloadRebalancer asks once for each workload, and says what became of each."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from apis import kinds
from policies import rebalancing
from policies.rebalancing import FAILED, SUCCESSFUL, Observed, RebalancerView, Workload, plan, project_rebalancer, status

MADE = "2026-01-01T00:10:00Z"
NOW = "2026-01-01T00:11:00Z"


def workload(name: str, *, kind: str = "Job") -> Workload:
    return Workload(kinds.JOB.api_version, kind, name, "team")


def view(*workloads: Workload, **traits: Any) -> RebalancerView:
    return RebalancerView("", "all", "uid", "7", created=MADE, generation=1, workloads=workloads, **traits)


def told(namespace: str, name: str) -> str | None:
    known = {"never-job": "", "before-job": "2026-01-01T00:00:00Z", "after-job": "2026-01-01T01:00:00Z"}
    return known.get(name) if namespace == "team" else None


def test_bindings_are_told_once_and_what_cannot_be_is_said() -> None:
    asked = view(*map(workload, ("never", "before", "after", "missing")), workload("web", kind="Deployment"))
    found = plan(asked, told=told)
    assert [name for (_, name), _ in found.tell] == ["never-job", "before-job"]
    assert [(each.workload.name, each.result, each.reason) for each in found.known] == [
        ("after", SUCCESSFUL, ""),
        ("missing", FAILED, "ReferencedBindingNotFound"),
        ("web", FAILED, "KindNotPlacedAnew"),
    ]


def test_the_status_is_written_once_and_a_longer_list_opens_it_again() -> None:
    done = (Observed(workload("never"), SUCCESSFUL),)
    first = status(view(workload("never")), done, now=NOW)
    assert first is not None
    assert first["finishTime"] == NOW
    told_already = view(workload("never"), observed=done, observed_generation=1, finished=NOW)
    assert status(told_already, done, now="2026-01-01T02:00:00Z") is None
    edited = dataclasses.replace(told_already, generation=2)
    again = status(edited, done, now="2026-01-01T02:00:00Z")
    assert again is not None
    assert (again["observedGeneration"], again["finishTime"]) == (2, "2026-01-01T02:00:00Z")


def test_it_lives_as_long_as_it_says_after_its_end() -> None:
    moment = datetime.datetime(2026, 1, 1, 0, 12, tzinfo=datetime.UTC)
    finished = {"finished": NOW, "observed_generation": 1}
    assert rebalancing.expires_in(view(ttl=90, **finished), now=moment) == 30.0
    assert rebalancing.expires_in(view(ttl=0, **finished), now=moment) == -60.0
    assert rebalancing.expires_in(view(ttl=90), now=moment) is None
    assert rebalancing.expires_in(view(**finished), now=moment) is None


def test_it_is_read_as_it_is_written() -> None:
    document = {
        "metadata": {"name": "all", "uid": "u", "resourceVersion": "3", "generation": 2, "creationTimestamp": MADE},
        "spec": {
            "workloads": [{"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": "never", "namespace": "team"}],
            "ttlSecondsAfterFinished": 60,
        },
    }
    read = project_rebalancer(orjson.dumps(document))
    assert (read.workloads, read.ttl, read.created, read.observed) == ((workload("never"),), 60, MADE, ())


@given(st.lists(st.sampled_from(["never", "before", "after", "missing"]), max_size=8))
def test_every_workload_gets_one_answer_however_often_it_is_named(names: list[str]) -> None:
    found = plan(view(*map(workload, names)), told=told)
    answered = [each.workload for each in found.known] + [each for _, each in found.tell]
    assert sorted(each.name for each in answered) == sorted(set(names))
