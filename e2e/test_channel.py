"""The charts give both programs their ends of the channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.channel.messages import GROUP
from e2e import charts
from e2e.charts import Doc
from federation.settings import HubSettings
from member_agent.settings import AgentSettings

pytestmark = pytest.mark.issue(8)


def test_charts_give_both_programs_their_ends_of_the_channel() -> None:
    hub = charts.render("federation", values={"channel": {"enabled": True, "caBundle": "QUJD"}})
    settings = HubSettings(**_settings(hub)).channel
    assert settings is not None and settings.people is not None
    assert settings.agents.client_ca == Path("/etc/channel/agents-ca.crt")
    [deployment] = [doc for doc in hub if doc["kind"] == "Deployment"]
    ports = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert {"agents", "people"} <= ports
    assert [doc["metadata"]["name"] for doc in hub if doc["kind"] == "APIService"] == [f"v1alpha1.{GROUP}"]

    given = {"hubs": ["https://hub.example:9443"], "caPins": ["sha256:" + "0" * 64]}
    member = charts.render("member-agent", values={"cluster": "east", "channel": given})
    agent = AgentSettings(cluster="east", **_settings(member)).channel
    assert agent is not None and agent.hubs == ("https://hub.example:9443",)
    with pytest.raises(charts.HelmFailed, match="caBundle"):
        charts.render("federation", values={"channel": {"enabled": True}})


def _settings(docs: list[Doc]) -> dict[str, Any]:
    [found] = [doc["data"]["settings.yaml"] for doc in docs if doc["kind"] == "ConfigMap" and "settings.yaml" in doc["data"]]
    read: dict[str, Any] = yaml.safe_load(found)
    return read
