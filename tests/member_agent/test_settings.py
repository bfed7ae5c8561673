"""Settings of the scheduler: whose pods, which nodes, which queue; by file and by option."""

from __future__ import annotations

import pytest

from member_agent.app import _scheduling
from member_agent.settings import AgentSettings, SchedulingSettings


def test_options_name_schedulers_nodes_and_the_queue_of_pods_that_name_none() -> None:
    settings = SchedulingSettings(**_scheduling(["volcano", "batch"], ["pool:batch", "pool:old"], "research"))
    assert settings.scheduler_name == "volcano"
    assert settings.names == {"volcano", "batch"}
    assert settings.default_queue == "research"
    assert settings.sees({"pool": "old"})
    assert not settings.sees({"pool": "web"})


def test_without_options_everything_is_as_it_was() -> None:
    assert _scheduling([], [], "") == {}
    settings = SchedulingSettings()
    assert settings.names == {"volcano"}
    assert settings.sees({})


@pytest.mark.parametrize("text", ["pool", ":batch", ""])
def test_a_node_selector_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not key:value"):
        SchedulingSettings(node_selector=(text,))


def test_jobs_and_webhook_go_by_the_name_of_our_scheduler() -> None:
    given = {"scheduling": {"scheduler_name": "batch"}}
    assert AgentSettings(cluster="east", **given).jobs.scheduler_name == "batch"
    assert AgentSettings(cluster="east", **given, jobs={"scheduler_name": "other"}).jobs.scheduler_name == "other"
    assert AgentSettings(cluster="east").jobs.scheduler_name == "volcano"
    admission = AgentSettings(cluster="east", **given, admission={"url": "https://here:8443"}).admission
    assert admission is not None
    assert admission.scheduler == "batch"


def test_the_webhook_judges_pods_of_all_names_that_we_schedule() -> None:
    names = {"scheduling": {"scheduler_name": "batch", "more_names": ["volcano"]}}
    found = AgentSettings(cluster="east", **names, admission={"url": "https://here:8443"}).admission
    assert found is not None
    assert (found.scheduler, found.more_schedulers) == ("batch", ("volcano",))
    said = AgentSettings(cluster="east", **names, admission={"url": "https://here:8443", "more_schedulers": []}).admission
    assert said is not None and said.more_schedulers == ()
