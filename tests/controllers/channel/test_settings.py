"""Settings of the channel name what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from controllers.channel.settings import AgentChannel, HubChannel
from federation.settings import HubSettings
from member_agent.settings import AgentSettings

HERE = Path("x.pem")
AGENT: dict[str, Any] = {"hubs": ("https://hub:9443",), "ca": HERE, "certificate": HERE, "key": HERE}
HUB: dict[str, Any] = {"agents": {"certificate": HERE, "key": HERE, "client_ca": HERE}}


def test_programs_have_no_channel_unless_it_is_set() -> None:
    assert HubSettings().channel is None
    assert AgentSettings(cluster="east").channel is None


def test_what_is_given_is_read() -> None:
    assert HubSettings(channel=HubChannel(**HUB)).channel == HubChannel(**HUB)
    hub = HubChannel(**HUB, people={"certificate": HERE, "key": HERE})
    assert hub.people is not None and (hub.agents.port, hub.people.port) == (9443, 9444)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hubs": ()}, "hubs"),
        ({"hubs": ("http://hub:9443",)}, "'http://hub:9443' is not https://host:port"),
        ({"hubs": ("https://hub",)}, "is not https://host:port"),
        ({"hubs": ("https://hub:9443/path",)}, "is not https://host:port"),
        ({"ca_pins": ("sha256:abc",)}, "is not sha256: and 64 hexadecimal digits"),
        ({"token": "x"}, "token"),
    ],
)
def test_what_cannot_work_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AgentChannel(**{**AGENT, **changed})
