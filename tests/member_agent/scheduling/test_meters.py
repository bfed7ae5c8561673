"""What the scheduler tells Prometheus: names of the field, few series, figures that agree with the session."""

from __future__ import annotations

import datetime
from typing import Any

from prometheus_client import CollectorRegistry

from machinery.metrics import Metrics
from member_agent.scheduling.configuration import Configuration
from member_agent.scheduling.meters import QUEUES_EVERY, Meters
from member_agent.scheduling.planner import BUILT_IN, decide
from member_agent.scheduling.session import OpenSession
from tests.member_agent.scheduling.build import USUAL, Made, configuration, frozen, gang, nodes, queue


def meters(*, by_job: bool = False) -> tuple[Meters, CollectorRegistry]:
    registry = CollectorRegistry()
    found = Meters(by_job=by_job)
    found.metrics = Metrics(registry)
    return found, registry


def session(*gangs: Made, by: Configuration = USUAL, **more: Any) -> OpenSession:
    queues = [queue("default", weight=2, **more)]
    return OpenSession(frozen(nodes(8), gangs, queues=queues), configuration=by, registry=BUILT_IN)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"volcano_{name}", labels)


def test_a_round_counts_what_it_placed_what_waits_and_what_each_action_took() -> None:
    told, registry = meters()
    ticks = iter(range(100))
    decided, took = decide(session(gang("fits", pods=2), gang("large", cpu=99)), timer=lambda: float(next(ticks)))
    told.round(decided, took=took, opened=0.25, total=4.0, plugins={"gang": 0.5})
    opened = value(registry, "plugin_scheduling_latency_milliseconds_sum", plugin="gang", OnSession="OnSessionOpen")
    assert opened == 500
    assert value(registry, "schedule_attempts_total", result="scheduled") == 2
    assert value(registry, "schedule_attempts_total", result="unschedulable") == 1
    assert value(registry, "unschedule_job_count") == 1
    assert value(registry, "action_scheduling_latency_milliseconds_sum", action="allocate") == 1000
    assert value(registry, "open_session_duration_milliseconds_sum") == 250
    assert value(registry, "e2e_scheduling_latency_milliseconds_sum") == 4000
    told.refused()
    assert value(registry, "schedule_attempts_total", result="error") == 1


def test_a_pod_and_a_gang_are_timed_from_when_they_were_made() -> None:
    told, registry = meters()
    made = gang("one", created="2026-01-01T00:00:00+00:00")
    now = datetime.datetime.fromisoformat("2026-01-01T00:00:03+00:00")
    told.started(made.group, now=now)
    assert value(registry, "e2e_job_scheduling_latency_milliseconds_sum") == 3000


def test_queues_are_told_in_the_units_of_the_field() -> None:
    told, registry = meters()
    there, waits = gang("there", pods=2, on=["n0", "n0"]), gang("waits", pods=3, cpu=1)
    told.queues(session(there, waits, capability=4), now=100.0)
    assert value(registry, "queue_allocated_milli_cpu", queue_name="default") == 2000
    assert value(registry, "queue_request_milli_cpu", queue_name="default") == 5000
    assert value(registry, "queue_capacity_milli_cpu", queue_name="default") == 4000
    assert value(registry, "queue_deserved_milli_cpu", queue_name="default") == 4000
    assert value(registry, "queue_real_capacity_milli_cpu", queue_name="default") == 4000
    assert value(registry, "queue_share", queue_name="default") == 0.5
    assert value(registry, "queue_weight", queue_name="default") == 2
    assert value(registry, "queue_overused", queue_name="default") == 0


def test_the_plugin_that_shares_says_what_a_queue_deserves() -> None:
    told, registry = meters()
    by = configuration("gang", "capacity", "predicates")
    told.queues(session(gang("there", pods=2, on=["n0", "n0"]), by=by, deserved=4), now=100.0)
    assert value(registry, "queue_deserved_milli_cpu", queue_name="default") == 4000
    assert value(registry, "queue_share", queue_name="default") == 0.5
    nobody, registry = meters()
    nobody.queues(session(by=configuration("gang", "predicates")), now=100.0)
    assert value(registry, "queue_share", queue_name="default") is None


def test_queues_are_looked_at_now_and_then_and_forgotten_when_they_go() -> None:
    told, registry = meters()
    told.queues(session(gang("there", on=["n0"])), now=100.0)
    told.queues(session(), now=100.0 + QUEUES_EVERY / 2)
    assert value(registry, "queue_allocated_milli_cpu", queue_name="default") == 1000
    told.queues(session(), now=100.0 + QUEUES_EVERY)
    assert value(registry, "queue_allocated_milli_cpu", queue_name="default") is None
    assert value(registry, "queue_weight", queue_name="default") == 2


def test_every_plugin_is_timed_when_a_session_opens() -> None:
    ticks = iter(range(100))
    snapshot = frozen(nodes(8), [])
    by = configuration("gang", "predicates")
    opened = OpenSession(snapshot, configuration=by, registry=BUILT_IN, timer=lambda: float(next(ticks)))
    assert opened.tiers.took == {"gang": 1.0, "predicates": 1.0}


def test_gangs_are_told_one_by_one_where_somebody_wants_it_and_forgotten_when_they_go() -> None:
    quiet, empty = meters()
    loud, registry = meters(by_job=True)
    made = gang("one", created="2026-01-01T00:00:00+00:00")
    now = datetime.datetime.fromisoformat("2026-01-01T00:00:03+00:00")
    named = {"job_name": "one", "queue": "default", "job_namespace": "ns"}
    looked = session(gang("fits", pods=2), gang("large", pods=3, cpu=99))
    decided, _ = decide(looked)
    for told in (quiet, loud):
        told.started(made.group, now=now)
        told.waiting(looked.waiting, unplaced=decided.waiting)
    assert value(registry, "e2e_job_scheduling_duration", **named) == 3000
    assert value(registry, "e2e_job_scheduling_last_time", **named) == now.timestamp()
    assert value(registry, "unschedule_task_count", job_id="ns/large") == 3
    assert value(registry, "unschedule_task_count", job_id="ns/fits") is None
    assert value(empty, "e2e_job_scheduling_duration", **named) is None
    loud.waiting((), unplaced=())
    assert value(registry, "unschedule_task_count", job_id="ns/large") is None
    assert value(registry, "e2e_job_scheduling_duration", **named) == 3000
    loud.gone(("ns", "one"))
    assert value(registry, "e2e_job_scheduling_duration", **named) is None


def test_nothing_is_told_before_somebody_measures() -> None:
    silent = Meters()
    decided, took = decide(session(gang("one")))
    silent.round(decided, took=took, opened=0.0, total=0.0)
    silent.queues(session(), now=0.0)
    silent.refused()
