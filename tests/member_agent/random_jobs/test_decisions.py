"""Whatever Job an API server lets through, every pure part of the Job controller has an answer to it."""

from __future__ import annotations

import datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from apis.batch import Job
from controllers.admission import default_job, validate_job
from member_agent.jobs import children, groups
from member_agent.jobs.children import KeyPair
from member_agent.jobs.faults import judged
from member_agent.jobs.planner import Plan, Snapshot, plan
from member_agent.jobs.plugins import BUILT_IN
from member_agent.jobs.roster import Roster
from member_agent.views import JobView, Projector
from tests.member_agent.making import orders
from tests.member_agent.random_jobs.inventing import Doc, as_served, broken, from_schema_alone, mutated, sensible

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STAMP = "2026-01-01T00:00:00Z"
KEYS = KeyPair(private="PRIVATE\n", public="ssh-rsa PUBLIC\n")

ANY = st.one_of(sensible(), mutated(), broken(), from_schema_alone())


def view(served: Doc) -> JobView:
    return Projector().job(orjson.dumps(served))


def look(job: JobView, *, fault: tuple[str, str] | None = None) -> Plan:
    return plan(Snapshot(job=job, group=None, roster=Roster(()), queue=None, fault=fault), now=NOW, stamp=STAMP)


@given(ANY)
def test_a_job_is_projected_and_planned_and_gets_a_phase(manifest: Doc) -> None:
    served = as_served(manifest)
    if served is None:
        return
    job = view(served)
    decided = look(job, fault=judged(served, registry=BUILT_IN))
    assert decided.status is not None
    state = decided.status.state
    assert state.phase
    if state.phase == "Failed":
        assert state.reason and state.message


@given(ANY)
def test_admission_answers_with_problems_and_never_with_an_error(manifest: Doc) -> None:
    try:
        job = Job.model_validate(manifest)
    except ValidationError:
        return
    for each in validate_job(job):
        assert each.field
        assert each.message
    assert default_job(default_job(job)) == default_job(job)


@given(ANY)
def test_what_admission_lets_through_is_turned_into_pods_and_a_group(manifest: Doc) -> None:
    served = as_served(manifest)
    if served is None or judged(served, registry=BUILT_IN) is not None:
        return
    job = view(served)
    status, gang = look(job).status, job.gang
    if status is None or gang is None or status.state.phase == "Failed":
        return
    before = orjson.dumps(served)
    moulds = children.Moulds(job, served, scheduler="volcano")
    pods = [moulds.pod(order) for order in orders(job)]
    assert len({pod["metadata"]["name"] for pod in pods}) == len(pods) == sum(task.replicas for task in gang.tasks)
    group = groups.pod_group(job, served, priorities={}, version=0)
    assert group["spec"]["minMember"] <= len(pods)
    made = children.objects(job, served, keys=lambda: KEYS, registry=BUILT_IN)
    assert len({(each.kind, each.name) for each in made}) == len(made)
    assert orjson.dumps(served) == before, "the manifest was changed"


def test_the_inventions_reach_both_sides_of_every_gate() -> None:
    """Otherwise the laws above would say little."""
    met: set[str] = set()

    @given(ANY)
    def sort(manifest: Doc) -> None:
        served = as_served(manifest)
        if served is None:
            met.add("refused by the schema")
        elif judged(served, registry=BUILT_IN) is not None:
            met.add("refused by admission")
        else:
            met.add("accepted")

    sort()
    assert met == {"refused by the schema", "refused by admission", "accepted"}
